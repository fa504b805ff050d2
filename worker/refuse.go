package worker

import (
	"context"
	"sync"
	"time"

	"github.com/ingot-run/ingot/queue"
)

const (
	// refusalPause is how long a worker keeps a row before it refuses the row. Without the pause, the worker would take and refuse every
	// row of the queue before other workers could take them.
	refusalPause = 5 * time.Second
	// refusalInterval is the time between two log lines about the same batch.
	refusalInterval = time.Minute
)

// refusals holds, for each batch that the worker refuses, the time of the last log line about it.
type refusals struct {
	mu     sync.Mutex
	logged map[string]time.Time
}

// refuse leaves a row to workers with the model that has answered other rows of the batch. It waits for refusalPause and returns the given
// error, with which the queue delivers the row again later. The delivery does not count as an attempt.
func (w *Worker) refuse(ctx context.Context, j *queue.Job, reason error) error {
	if w.refusals.due(j.Batch, time.Now()) {
		w.log.Error("refused a row: its batch has answers of another model file, or with other sampling defaults: start this worker with that model file, "+
			"or enqueue the file of the batch again with --mix-models", "batch", j.Batch, "this worker", j.Pin)
	}
	select {
	case <-ctx.Done():
	case <-w.admission.closed:
	case <-time.After(w.refusalPause):
	}
	return reason
}

// due reports whether a refusal of a batch should be logged now.
func (r *refusals) due(batch string, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if last, ok := r.logged[batch]; ok && now.Sub(last) < refusalInterval {
		return false
	}
	if r.logged == nil {
		r.logged = map[string]time.Time{}
	}
	r.logged[batch] = now
	return true
}

// pin returns the Pin of the worker's model. It is empty until the model file is hashed.
func (w *Worker) pin() string {
	if hash := w.hash.Load(); hash != nil {
		return queue.Pin(*hash)
	}
	return ""
}

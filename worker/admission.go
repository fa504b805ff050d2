package worker

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/ingot-run/ingot/queue"
)

const (
	// maxAdmitted is the maximum total size, in bytes, of the bodies of the running rows. A row
	// with a larger body runs alone.
	maxAdmitted = 32 << 20
	// A row runs alone after suspectDeaths workers died while they ran it.
	suspectDeaths = 2
	// A row fails after maxDeaths workers died while they ran it.
	maxDeaths = suspectDeaths + 3
)

// admission decides when a row that the worker has taken may begin. It limits the total size of the
// running rows. A row runs alone once suspectDeaths workers have died while they ran it: if this
// worker dies too, no other row can be the cause. Rows are admitted in order: a row that must run
// alone waits for the running rows, and later rows wait for it.
type admission struct {
	bytes  *semaphore.Weighted
	closed context.Context // done when the worker stops
	close  context.CancelFunc
}

func newAdmission() *admission {
	a := &admission{bytes: semaphore.NewWeighted(maxAdmitted)}
	a.closed, a.close = context.WithCancel(context.Background())
	return a
}

// enter admits a row. ok is false if ctx is done or the worker stops first or, unless wait is set,
// if the row would have to wait. The caller must call leave when the row ends.
func (a *admission) enter(ctx context.Context, d *queue.Delivery, wait bool) (leave func(), ok bool) {
	n := min(max(int64(len(d.Body)), 1), maxAdmitted)
	if d.Deaths >= suspectDeaths {
		n = maxAdmitted
	}
	leave = func() { a.bytes.Release(n) }
	if a.closed.Err() != nil {
		return nil, false
	}
	if !wait {
		return leave, a.bytes.TryAcquire(n)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	detach := context.AfterFunc(a.closed, cancel)
	defer detach()
	return leave, a.bytes.Acquire(ctx, n) == nil
}

// admit implements queue.ServeOptions.Admit. A row that waits takes up one of the worker's slots.
func (w *Worker) admit(ctx context.Context, d *queue.Delivery, wait bool) (leave func(), ok bool) {
	if wait {
		free := w.pulse.occupy()
		defer free()
	}
	return w.admission.enter(ctx, d, wait)
}

// refused implements queue.ServeOptions.Refused: it logs why a row was not begun.
func (w *Worker) refused(ctx context.Context, d *queue.Delivery, reason error) {
	free := w.pulse.occupy()
	defer free()
	log := w.log.With("batch", d.Batch, "line", d.Line)
	switch {
	case errors.Is(reason, queue.ErrOtherModel):
		w.refuse(ctx, d)
	case errors.Is(reason, queue.ErrNoBatch):
		log.Warn("dropped a job: its batch does not exist any more")
	case errors.Is(reason, queue.ErrOtherFile):
		log.Warn("dropped a job: it is left over from an earlier batch with the same id")
	case errors.Is(reason, queue.ErrCancelled):
		log.Debug("dropped a job: its batch is cancelled")
	case errors.Is(reason, queue.ErrNoRow):
		log.Warn("dropped a job: the file of its batch has no such line")
	}
}

const (
	// refusalPause is how long a worker keeps a row before it refuses the row. Without the pause,
	// the worker would take and refuse every row of the queue before other workers could take them.
	refusalPause = 5 * time.Second
	// refusalInterval is the time between two log lines about the same batch.
	refusalInterval = time.Minute
)

// refusals holds, for each batch that the worker refuses, the time of the last log line about it.
type refusals struct {
	pause time.Duration

	mu     sync.Mutex
	logged map[string]time.Time
}

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

// refuse waits before a row is left to workers whose model and arithmetic are those of the batch's
// other answers.
func (w *Worker) refuse(ctx context.Context, d *queue.Delivery) {
	if w.refusals.due(d.Batch, time.Now()) {
		own := w.model.pin()
		w.log.Error("refused a row: its batch has answers of another model file, or with other sampling defaults or arithmetic: start this worker with the "+
			"same model file, program and settings, or enqueue the file of the batch again with --mix-models",
			"batch", d.Batch, "the batch has", queue.PinDifference(w.pinOf(ctx, d), own, "this worker"), "this worker", own)
	}
	select {
	case <-ctx.Done():
	case <-w.admission.closed.Done():
	case <-time.After(w.refusals.pause):
	}
}

// pinOf returns the pin of a row's batch, or "" if it cannot be read.
func (w *Worker) pinOf(ctx context.Context, d *queue.Delivery) string {
	s, err := w.queue.Status(ctx, d.Batch)
	for _, m := range s.Models {
		if err == nil && m.Alias == w.config.Alias {
			return m.Pin
		}
	}
	return ""
}

package worker

import (
	"context"
	"sync"
	"time"

	"github.com/ingot-run/ingot/queue"
)

// reportInterval is the time between two lines of the log about the rows of a worker.
const reportInterval = time.Minute

// tally counts the rows that a worker has recorded since the last report.
type tally struct {
	mu     sync.Mutex
	done   int
	failed int
}

func (t *tally) add(r queue.Result) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r.Failed {
		t.failed++
		return
	}
	t.done++
}

func (t *tally) take() (done, failed int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	done, failed = t.done, t.failed
	t.done, t.failed = 0, 0
	return done, failed
}

// report logs the rows of the last interval, at intervals until ctx is done. A worker without rows
// logs nothing.
func (w *Worker) report(ctx context.Context) {
	generated := w.snapshot().GeneratedTokens
	every(ctx, w.reportInterval, func(context.Context) {
		done, failed := w.tally.take()
		s := w.snapshot()
		rate := float64(s.GeneratedTokens-generated) / w.reportInterval.Seconds()
		generated = s.GeneratedTokens
		if done+failed > 0 || s.Running+s.Waiting > 0 {
			w.log.Info("rows", "answered", done, "failed", failed, "tokens_per_s", int(rate), "running", s.Running, "waiting", s.Waiting)
		}
	})
}

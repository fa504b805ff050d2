package local

import (
	"context"
	"time"

	"github.com/ingot-run/ingot/enqueue"
	"github.com/ingot-run/ingot/queue"
)

// collect writes each result when it is recorded, deletes it from the queue, and releases its room in the window.
func (r *run) collect(ctx context.Context, q queue.Queue) error {
	_, err := enqueue.Collect(ctx, q, r.out, enqueue.CollectOptions{
		Follow:    true,
		Immediate: true,
		Progress:  r.report,
		Written: func(rows []queue.Recording) error {
			if err := q.Drop(ctx, r.out.Batch(), rows); err != nil {
				return err
			}
			r.window.release(rows)
			return nil
		},
	})
	return err
}

func (r *run) report(s queue.Status) {
	r.progress.PromptTokens, r.progress.CompletionTokens = s.PromptTokens, s.CompletionTokens
	r.count()
	if r.options.Progress != nil {
		r.options.Progress(r.progress)
	}
}

// count updates the progress from the output.
func (r *run) count() {
	held, failed := r.out.Counts()
	p := &r.progress
	p.Kept = int(r.kept.Load())
	p.Total = max(0, r.total-int(r.others.Load()))
	p.Failed = failed - r.failed
	p.Done = held - r.held - p.Failed
	p.Elapsed = time.Since(r.start)
}

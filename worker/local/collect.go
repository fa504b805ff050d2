package local

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/ingot-run/ingot/enqueue"
	"github.com/ingot-run/ingot/job"
)

// counter is a number that one goroutine counts and another reads.
type counter struct{ n atomic.Int64 }

func (c *counter) add(n int) { c.n.Add(int64(n)) }
func (c *counter) read() int { return int(c.n.Load()) }

// collect writes results as they come, forgets them in the queue, and lets the next rows in.
func (r *run) collect(ctx context.Context, q *queue) error {
	store := job.NewStore(q.rdb)
	_, err := enqueue.Collect(ctx, q.rdb, r.out, enqueue.CollectOptions{
		Follow:   true,
		Progress: r.report,
		Written: func(rows []job.Recording) error {
			if err := store.Drop(ctx, Batch, rows); err != nil {
				return err
			}
			r.window.leave(rows)
			return nil
		},
	})
	return err
}

func (r *run) report(s job.Status) {
	p := &r.progress
	p.Kept = r.kept.read()
	p.Done, p.Failed = s.Done, s.Failed
	p.PromptTokens, p.CompletionTokens = s.PromptTokens, s.CompletionTokens
	p.Elapsed = time.Since(r.start)
	if r.options.Progress != nil {
		r.options.Progress(*p)
	}
}

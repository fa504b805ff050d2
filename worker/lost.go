package worker

import (
	"context"
	"time"
)

// lostInterval is the time between two searches for lost jobs.
const lostInterval = time.Minute

// watchForLost searches for lost jobs at once and then at intervals, until ctx is done.
func (w *Worker) watchForLost(ctx context.Context) {
	tick := time.NewTicker(lostInterval)
	defer tick.Stop()
	warned := map[string]bool{}
	for {
		if err := w.warnOfLost(ctx, warned); err != nil && ctx.Err() == nil {
			w.log.Warn("could not search for lost jobs", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// warnOfLost logs once which batches have rows that are neither recorded nor queued. Their bodies are in the batch's file only.
func (w *Worker) warnOfLost(ctx context.Context, warned map[string]bool) error {
	if s := w.snapshot(); s.Running+s.Waiting > 0 {
		return nil // the queues are not empty
	}
	batches, err := w.queue.Batches(ctx)
	if err != nil {
		return err
	}
	for _, b := range batches {
		if b.Alias != w.config.Alias || warned[b.Batch] {
			continue
		}
		n, err := w.queue.Lost(ctx, b)
		if err != nil {
			return err
		}
		if n > 0 {
			warned[b.Batch] = true
			w.log.Warn("rows are neither recorded nor queued: enqueue the file of the batch again with --batch", "batch", b.Batch, "rows", n)
		}
	}
	return nil
}

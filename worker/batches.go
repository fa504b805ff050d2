package worker

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/ingot-run/ingot/queue"
)

// watchInterval is the time between two checks of all batches.
const watchInterval = time.Minute

// watchBatches calls lookAtBatches at once and then at intervals, until ctx is done.
func (w *Worker) watchBatches(ctx context.Context) {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	warned := map[string]bool{}
	for {
		if err := w.lookAtBatches(ctx, warned); err != nil && ctx.Err() == nil {
			w.log.Warn("could not look for overdue and lost rows", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// lookAtBatches records the overdue rows of all batches as expired, including batches of models that no worker serves. It also logs lost
// rows. warned has the batches whose lost rows were logged.
func (w *Worker) lookAtBatches(ctx context.Context, warned map[string]bool) error {
	batches, err := w.queue.Batches(ctx)
	if err != nil {
		return err
	}
	var failed error // after an error in one batch, the other batches are still checked
	for _, b := range batches {
		if !b.Overdue() {
			continue
		}
		n, err := w.queue.Expire(ctx, b.Batch)
		failed = errors.Join(failed, err)
		if n > 0 {
			w.log.Warn("the deadline of a batch has passed: its rows are recorded as expired", "batch", b.Batch, "rows", n)
		}
	}
	return errors.Join(failed, w.warnOfLost(ctx, batches, warned))
}

// warnOfLost logs the batches that have lost rows. It logs each batch once: warned has the batches that were logged. A lost row is neither
// recorded nor queued, so its body exists only in the batch's file.
func (w *Worker) warnOfLost(ctx context.Context, batches []queue.Status, warned map[string]bool) error {
	if s := w.snapshot(); s.Running+s.Waiting > 0 {
		return nil // this worker's rows may still be in the queue
	}
	for _, b := range batches {
		if warned[b.Batch] || !slices.Contains(b.Aliases(), w.config.Alias) {
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

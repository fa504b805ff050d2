package worker

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/queue"
)

const inspectInterval = time.Minute

// inspector looks at all batches at once and then at intervals. It records overdue rows as expired,
// and logs missing rows.
type inspector struct {
	queue    queue.Queue
	alias    string
	snapshot func() engine.Snapshot
	log      *slog.Logger
	warned   map[string]bool // batches whose missing rows were logged
}

func newInspector(q queue.Queue, alias string, snapshot func() engine.Snapshot, log *slog.Logger) *inspector {
	return &inspector{queue: q, alias: alias, snapshot: snapshot, log: log, warned: map[string]bool{}}
}

func (i *inspector) run(ctx context.Context) {
	i.look(ctx)
	every(ctx, inspectInterval, i.look)
}

func (i *inspector) look(ctx context.Context) {
	if err := i.inspect(ctx); err != nil && ctx.Err() == nil {
		i.log.Warn("could not look for overdue and missing rows", "error", err)
	}
}

func (i *inspector) inspect(ctx context.Context) error {
	batches, err := i.queue.Batches(ctx)
	if err != nil {
		return err
	}
	return errors.Join(i.expire(ctx, batches), i.warnOfMissing(ctx, batches))
}

// expire records the overdue rows of all batches as expired, including batches of models that no
// worker serves.
func (i *inspector) expire(ctx context.Context, batches []queue.Status) (failed error) {
	for _, b := range batches { // after an error in one batch, the other batches are still checked
		if !b.Overdue() {
			continue
		}
		n, err := i.queue.Expire(ctx, b.Batch)
		failed = errors.Join(failed, err)
		if n > 0 {
			i.log.Warn("the deadline of a batch has passed: its rows are recorded as expired", "batch", b.Batch, "rows", n)
		}
	}
	return failed
}

// warnOfMissing logs each batch that misses rows once. Such a row is neither recorded nor queued,
// so its body exists only in the batch's file.
func (i *inspector) warnOfMissing(ctx context.Context, batches []queue.Status) error {
	if s := i.snapshot(); s.Running+s.Waiting > 0 {
		return nil // this worker's rows may still be in the queue
	}
	for _, b := range batches {
		if i.warned[b.Batch] || !slices.Contains(b.Aliases(), i.alias) {
			continue
		}
		n, err := i.queue.Missing(ctx, b)
		if errors.Is(err, queue.ErrNoBatch) {
			continue // it was deleted meanwhile
		}
		if err != nil {
			return err
		}
		if n > 0 {
			i.warned[b.Batch] = true
			i.log.Warn("rows are neither recorded nor queued: enqueue the file of the batch again with --batch", "batch", b.Batch, "rows", n)
		}
	}
	return nil
}

package enqueue

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/ingot-run/ingot/queue"
)

const (
	watchInterval  = time.Second      // time between two reads of the status of a batch that is watched
	expireInterval = 10 * time.Second // time between two attempts to expire the rows of a batch
)

// Watch calls onStatus with the progress of a batch, at once and then every second, until the batch
// has ended or ctx is done. If the batch's deadline has passed, Watch records the rows that are
// still in the queue as expired. It returns the rows of dead workers to the queue.
func Watch(ctx context.Context, q queue.Queue, batch string, onStatus func(queue.Status)) error {
	stop := watchWorkers(ctx, q)
	defer stop()
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	overdue := expirer{queue: q}
	for {
		s, err := read(ctx, func() (queue.Status, error) { return q.Status(ctx, batch) })
		if err != nil {
			return err
		}
		onStatus(s)
		if s.Ended() {
			return nil
		}
		if err := overdue.check(ctx, s); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// watchWorkers looks for dead workers until stop is called: the batch may wait for the last one.
func watchWorkers(ctx context.Context, q queue.Queue) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { q.WatchWorkers(ctx, slog.New(slog.DiscardHandler)) })
	return func() {
		cancel()
		watching.Wait()
	}
}

// expirer records rows as expired after the deadline of their batch, since there may be no worker
// that does so.
type expirer struct {
	queue queue.Queue
	next  time.Time
}

// check expires the rows of the batch if its deadline has passed and the last attempt was at least
// expireInterval ago.
func (e *expirer) check(ctx context.Context, s queue.Status) error {
	if !s.Overdue() || time.Now().Before(e.next) {
		return nil
	}
	e.next = time.Now().Add(expireInterval)
	return retry(ctx, func() error {
		_, err := e.queue.Expire(ctx, s.Batch)
		return err
	})
}

package enqueue

import (
	"context"
	"time"

	"github.com/ingot-run/ingot/queue"
)

// watchInterval is the time between two reads of the status of a batch that is watched.
const watchInterval = time.Second

// Watch calls the function show with the progress of a batch, at once and then every second, until the batch has ended or ctx is done. If
// the batch's deadline has passed, Watch records the rows that are still in the queue as expired.
func Watch(ctx context.Context, q queue.Queue, batch string, show func(queue.Status)) error {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	overdue := expirer{queue: q}
	for {
		var s queue.Status
		err := retry(ctx, func() (err error) {
			s, err = q.Status(ctx, batch)
			return err
		})
		if err != nil {
			return err
		}
		show(s)
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

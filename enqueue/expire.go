package enqueue

import (
	"context"
	"time"

	"github.com/ingot-run/ingot/queue"
)

// expireInterval is the time between two attempts to expire the rows of a batch.
const expireInterval = 10 * time.Second

// expirer records rows as expired after the deadline of their batch, since there may be no worker that does so.
type expirer struct {
	queue queue.Queue
	next  time.Time // time of the next attempt
}

// check expires the rows of the batch if its deadline has passed and the last attempt was at least expireInterval ago.
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

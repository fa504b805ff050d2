package enqueue

import (
	"context"
	"errors"
	"time"

	"github.com/ingot-run/ingot/queue"
)

// maxWait is the maximum time to wait for an unreachable Redis.
const maxWait = time.Minute

// retry calls f until Redis can be reached. It gives up after maxWait.
func retry(ctx context.Context, f func() error) error { return queue.Retry(ctx, maxWait, f) }

// retryUnlessFull is retry for a producer. It returns queue.ErrFull at once: somebody has to free memory in Redis, and that would take longer
// than maxWait.
func retryUnlessFull(ctx context.Context, f func() error) error {
	var full error
	err := retry(ctx, func() error {
		err := f()
		if errors.Is(err, queue.ErrFull) {
			full = err
			return nil
		}
		return err
	})
	if full != nil {
		return full
	}
	return err
}

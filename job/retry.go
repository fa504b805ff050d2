package job

import (
	"context"
	"errors"
	"time"
)

// Retry calls f again, with growing pauses, while f returns ErrUnavailable. It gives up after maxWait and returns the last error.
// With Retry, workers and collectors survive a restart of Redis, and workers survive a time in which Redis has no free memory.
func Retry(ctx context.Context, maxWait time.Duration, f func() error) error {
	deadline := time.Now().Add(maxWait)
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		err := f()
		if err == nil || !errors.Is(err, ErrUnavailable) || time.Now().Add(pause).After(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}

package job

import (
	"context"
	"errors"
	"time"
)

// Retry calls f until its error is not ErrUnavailable, with growing pauses. It gives up after maxWait. Workers and collectors therefore
// survive a restart of Redis, and workers also a time without free memory in Redis.
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

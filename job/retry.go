package job

import (
	"context"
	"errors"
	"time"
)

// Retry calls f again, with growing pauses, while f's error is ErrUnavailable, but for at most maxWait. With it, workers and
// collectors survive a restart of Redis and times in which Redis has no memory left.
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

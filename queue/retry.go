package queue

import (
	"context"
	"errors"
	"time"
)

// UntilAvailable calls f until it returns no error, or an error other than ErrUnavailable. Pauses
// between calls grow from 50 ms to 2 s. After maxWait, or when ctx is done, UntilAvailable returns
// f's last error. Workers and collectors use UntilAvailable to continue after a restart of Redis.
func UntilAvailable(ctx context.Context, maxWait time.Duration, f func() error) error {
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

package job

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
)

// Retry calls f again with growing pauses while its error may be temporary, for maxWait at most. With it, workers and
// collectors survive a restart of Redis, and times in which it has no memory left.
func Retry(ctx context.Context, maxWait time.Duration, f func() error) error {
	deadline := time.Now().Add(maxWait)
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		err := f()
		if err == nil || !transient(err) || time.Now().Add(pause).After(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}

// transient reports whether an error may go away when Redis is back or has memory again.
func transient(err error) bool {
	var network net.Error
	if errors.As(err, &network) || errors.Is(err, net.ErrClosed) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return true
	}
	// OOM: over maxmemory. MISCONF: it cannot write to its disk.
	for _, reply := range []string{"LOADING", "TRYAGAIN", "CLUSTERDOWN", "MASTERDOWN", "READONLY", "OOM", "MISCONF"} {
		if redis.HasErrorPrefix(err, reply) {
			return true
		}
	}
	return false
}

// Package queuetest runs tests on every implementation of queue.Queue. It has the suite that each
// of them must pass.
package queuetest

import (
	"log/slog"
	"testing"
	"time"

	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/memqueue"
	"github.com/ingot-run/ingot/queue/redisqueue"
	"github.com/ingot-run/ingot/queue/redistest"
)

// OnEach runs a test on each implementation: with a new queue in Redis, and with a new queue in
// memory.
func OnEach(t *testing.T, test func(t *testing.T, q queue.Queue)) {
	t.Helper()
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		test(t, OpenRedis(t))
	})
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		test(t, OpenMemory(t))
	})
}

// OpenRedis returns a new queue in Redis.
func OpenRedis(t *testing.T) queue.Queue {
	t.Helper()
	q := redisqueue.New(redistest.Start(t).Client)
	q.Leases.Poll = 5 * time.Millisecond
	return q
}

// OpenMemory returns a new queue in memory.
func OpenMemory(*testing.T) queue.Queue { return memqueue.New() }

// maxWait is the maximum time that a test waits for a condition.
const maxWait = time.Minute

var quiet = slog.New(slog.DiscardHandler)

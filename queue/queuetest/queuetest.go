// Package queuetest has the tests that every implementation of queue.Queue must pass, and what
// tests of other packages need to use a queue of each implementation.
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
		q := redisqueue.New(redistest.Start(t).Client)
		q.Leases.Poll = 5 * time.Millisecond
		test(t, q)
	})
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		test(t, memqueue.New())
	})
}

// maxWait is the maximum time that a test waits for a condition.
const maxWait = time.Minute

var quiet = slog.New(slog.DiscardHandler)

// Package memqueue is a queue inside a process, for `ingot run`. It holds jobs and results in
// memory, and they are lost when the process ends. It passes jobs to workers without encoding them.
package memqueue

import (
	"context"
	"sync"
	"time"

	"github.com/ingot-run/ingot/queue"
)

// Queue implements queue.Queue in memory.
type Queue struct {
	mu      sync.Mutex
	batches map[string]*batch
	aliases map[string]*alias
	servers []*server // in the order in which they started

	listeners []*listener
}

var _ queue.Queue = (*Queue)(nil)

// New returns an empty queue.
func New() *Queue {
	return &Queue{batches: map[string]*batch{}, aliases: map[string]*alias{}}
}

// weight returns a batch's share among the batches of the same priority; 1 if none is set.
func (q *Queue) weight(batch string) int {
	if b := q.batches[batch]; b != nil {
		return max(1, b.Weight)
	}
	return 1
}

// LastFetch implements queue.Queue. A worker can always reach this queue.
func (q *Queue) LastFetch() time.Time { return time.Now() }

// Ping implements queue.Queue.
func (q *Queue) Ping(ctx context.Context) error { return ctx.Err() }

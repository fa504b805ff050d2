// Package memqueue is a queue inside a process, for `ingot run`. It holds jobs and results in
// memory, and they are lost when the process ends. It passes jobs to workers without encoding them.
package memqueue

import (
	"context"
	"slices"
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

// listener is the state of one call of Listen.
type listener struct {
	channel   string
	onMessage func([]byte)
}

// Announce implements queue.Queue.
func (q *Queue) Announce(_ context.Context, channel string, message []byte) error {
	q.mu.Lock()
	listeners := slices.Clone(q.listeners)
	q.mu.Unlock()
	for _, l := range listeners {
		if l.channel == channel {
			l.onMessage(message)
		}
	}
	return nil
}

// Listen implements queue.Queue.
func (q *Queue) Listen(ctx context.Context, channel string, onReady func(), onMessage func(message []byte)) error {
	l := &listener{channel, onMessage}
	q.mu.Lock()
	q.listeners = append(q.listeners, l)
	q.mu.Unlock()
	onReady()
	<-ctx.Done()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.listeners = slices.DeleteFunc(q.listeners, func(other *listener) bool { return other == l })
	return nil
}

package memqueue

import (
	"context"
	"slices"
)

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

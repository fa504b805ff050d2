package batch

import (
	"context"
	"slices"
	"strings"
	"sync"
)

// turns lets a number of batches run at once. The others wait; the oldest is the next.
type turns struct {
	mu      sync.Mutex
	free    int
	waiting []waiter // in order of id, which is the order of creation
}

type waiter struct {
	batch string
	turn  chan struct{} // closed when it is the batch's turn
}

func newTurns(n int) *turns { return &turns{free: n} }

// take waits for a turn. If there is no error, the caller gives the turn back.
func (t *turns) take(ctx context.Context, batch string) error {
	w := waiter{batch, make(chan struct{})}
	t.mu.Lock()
	at, _ := slices.BinarySearchFunc(t.waiting, batch, func(w waiter, id string) int { return strings.Compare(w.batch, id) })
	t.waiting = slices.Insert(t.waiting, at, w)
	t.next()
	t.mu.Unlock()
	select {
	case <-w.turn:
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if at := slices.Index(t.waiting, w); at >= 0 {
		t.waiting = slices.Delete(t.waiting, at, at+1)
		return ctx.Err()
	}
	t.free++ // it was its turn at the same moment
	t.next()
	return ctx.Err()
}

// giveBack ends a turn.
func (t *turns) giveBack() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.free++
	t.next()
}

// next begins turns while there are free ones. t.mu is held.
func (t *turns) next() {
	for t.free > 0 && len(t.waiting) > 0 {
		t.free--
		close(t.waiting[0].turn)
		t.waiting = t.waiting[1:]
	}
}

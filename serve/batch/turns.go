package batch

import (
	"context"
	"slices"
	"strings"
	"sync"
)

// turns limits the number of batches that run at once. The other batches wait, and the oldest
// waiting batch is next.
type turns struct {
	mu      sync.Mutex
	free    int
	waiting []waiter // sorted by id, which is the order of creation
}

type waiter struct {
	batch string
	turn  chan struct{} // closed when the batch's turn begins
}

func newTurns(n int) *turns { return &turns{free: n} }

// take waits until a batch's turn begins. If it returns no error, the caller must call giveBack
// when the turn ends.
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
	t.free++ // the turn began at the same time as ctx was done
	t.next()
	return ctx.Err()
}

func (t *turns) giveBack() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.free++
	t.next()
}

// next begins the turns of waiting batches while turns are free. t.mu must be held.
func (t *turns) next() {
	for t.free > 0 && len(t.waiting) > 0 {
		t.free--
		close(t.waiting[0].turn)
		t.waiting = t.waiting[1:]
	}
}

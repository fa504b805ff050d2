package schedule

import (
	"sync"

	"github.com/ingot-run/ingot/generation"
)

// inbox passes calls from many goroutines to the loop.
type inbox struct {
	mu     sync.Mutex
	calls  []*call
	closed bool
	wake   chan struct{} // holds a value when a call has arrived or the inbox was closed
}

func newInbox() *inbox { return &inbox{wake: make(chan struct{}, 1)} }

// put adds a call, or fails with ErrClosed.
func (b *inbox) put(c *call) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return generation.ErrClosed
	}
	b.calls = append(b.calls, c)
	b.signal()
	return nil
}

// close refuses further calls.
func (b *inbox) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.signal()
}

func (b *inbox) signal() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// takeTo appends the sequences of all calls that have arrived to seqs, and reports whether the inbox is open.
func (b *inbox) takeTo(seqs []*sequence) (all []*sequence, open bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, c := range b.calls {
		seqs = append(seqs, c.seqs...)
		b.calls[i] = nil
	}
	b.calls = b.calls[:0]
	return seqs, !b.closed
}

// sequences is the number of sequences that the loop has not taken.
func (b *inbox) sequences() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, c := range b.calls {
		n += len(c.seqs)
	}
	return n
}

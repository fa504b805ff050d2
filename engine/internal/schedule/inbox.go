package schedule

import (
	"cmp"
	"sync"
	"sync/atomic"
)

// inbox passes requests from many goroutines to the loop.
type inbox struct {
	mu          sync.Mutex
	requests    []*request
	refusal     error         // error that put returns; nil while the inbox is open
	wake        chan struct{} // holds a value when a request has arrived or the inbox was closed
	interactive atomic.Bool   // whether an interactive request is in the inbox
}

// put adds a request. If the inbox is closed, it returns the error given to close.
func (b *inbox) put(r *request) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.refusal != nil {
		return b.refusal
	}
	b.requests = append(b.requests, r)
	if r.interactive {
		b.interactive.Store(true)
	}
	b.signal()
	return nil
}

// close makes put return an error. If close is called several times, the first error counts.
func (b *inbox) close(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refusal = cmp.Or(b.refusal, err)
	b.signal()
}

func (b *inbox) signal() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// take empties the inbox: it passes the sequences of each request to a function. It reports whether
// the inbox is open.
func (b *inbox) take(to func(seqs []*sequence)) (open bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, r := range b.requests {
		to(r.seqs)
		b.requests[i] = nil
	}
	b.requests = b.requests[:0]
	b.interactive.Store(false)
	return b.refusal == nil
}

func (b *inbox) sequences() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, r := range b.requests {
		n += len(r.seqs)
	}
	return n
}

package worker

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/ingot-run/ingot/generation"
)

// resultRoom is the memory for results with log-probabilities, from the end of a generation until its row is recorded. Other results
// are small.
type resultRoom struct {
	semaphore *semaphore.Weighted
	bytes     int64
}

func newResultRoom(bytes int64) *resultRoom {
	return &resultRoom{semaphore.NewWeighted(bytes), bytes}
}

// reservation is a row's part of the room.
type reservation struct {
	room *resultRoom

	mu      sync.Mutex
	results int64 // bytes of the row's results so far
	held    int64
}

// reserve waits until there is room for a result of the row, which has the given number of prompts. It is used as Reserve of a
// generation.Request. A row with several prompts takes the whole room for its first result. After that, it need not wait again, so
// that rows never wait for each other.
func (r *reservation) reserve(ctx context.Context, prompts int, bytes int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.results += bytes
	if r.results > r.room.bytes {
		return generation.BadRequest("the log-probabilities of its %d prompts take more memory than there is for rows: "+
			"ask for fewer prompts, choices, tokens or alternatives, or allow more memory", prompts)
	}
	if r.held > 0 {
		return nil
	}
	if prompts > 1 {
		bytes = r.room.bytes
	}
	if err := r.room.semaphore.Acquire(ctx, bytes); err != nil {
		return err
	}
	r.held = bytes
	return nil
}

// release frees the row's room.
func (r *reservation) release() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held > 0 {
		r.room.semaphore.Release(r.held)
		r.held = 0
	}
}

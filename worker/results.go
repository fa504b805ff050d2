package worker

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/ingot-run/ingot/engine/generation"
)

// resultRoom limits the memory for results with log-probabilities, from the end of a generation
// until its row is recorded. Other results are small and do not count.
type resultRoom struct {
	semaphore *semaphore.Weighted
	bytes     int64
}

func newResultRoom(bytes int64) *resultRoom {
	return &resultRoom{semaphore.NewWeighted(bytes), bytes}
}

type reservation struct {
	room *resultRoom

	mu       sync.Mutex
	results  int64 // bytes of the row's results so far
	reserved int64
}

// reserve waits until there is room for a result of the row. The engine calls it through
// generation.Request.Reserve. prompts is the row's number of prompts, bytes the size of the result.
// A row with several prompts reserves the whole room for its first result. Its other results then
// need not wait, so two such rows cannot block each other.
func (r *reservation) reserve(ctx context.Context, prompts int, bytes int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.results += bytes
	if r.results > r.room.bytes {
		return generation.BadRequest("the row's log-probabilities (number of prompts: %d) need more memory than a worker has for results: "+
			"ask for fewer prompts, choices, tokens or alternatives, or give the worker more memory with --memory", prompts)
	}
	if r.reserved > 0 {
		return nil
	}
	if prompts > 1 {
		bytes = r.room.bytes
	}
	if err := r.room.semaphore.Acquire(ctx, bytes); err != nil {
		return err
	}
	r.reserved = bytes
	return nil
}

func (r *reservation) release() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reserved > 0 {
		r.room.semaphore.Release(r.reserved)
		r.reserved = 0
	}
}

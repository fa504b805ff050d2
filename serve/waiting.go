package serve

import "sync"

// maxFurther is the limit of further answers, in multiples of the limit of requests.
const maxFurther = 4

// waiting counts what clients wait for: requests, and separately the answers of a request beyond
// its first one. So requests for many answers keep only their like waiting. The last request may
// exceed the second limit, so that none is too large for it.
type waiting struct {
	limit int64 // of requests

	mu       sync.Mutex
	requests int64
	further  int64 // answers
}

// enter counts a request for the given number of answers, unless a limit is reached. It returns the
// number of all answers before.
func (w *waiting) enter(answers int64) (before int64, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before = w.requests + w.further
	if w.requests >= w.limit || answers > 1 && w.further >= maxFurther*w.limit {
		return before, false
	}
	w.requests++
	w.further += answers - 1
	return before, true
}

func (w *waiting) leave(answers int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.requests--
	w.further -= answers - 1
}

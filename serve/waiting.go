package serve

import "sync"

// maxShare is the part of the limit that one request can take: an eighth. Its other answers count
// against a limit of their own, so that a request for very many answers keeps only its like
// waiting.
const maxShare = 8

// maxExcess is the limit of answers above the shares, in multiples of the limit.
const maxExcess = 4

// waiting counts the answers that clients wait for. The last request may exceed a limit, so that
// none is too large for it.
type waiting struct {
	limit int64

	mu     sync.Mutex
	shares int64 // answers within the shares of their requests
	excess int64 // the other answers
}

func (w *waiting) split(answers int64) (share, excess int64) {
	share = min(answers, max(1, w.limit/maxShare))
	return share, answers - share
}

// enter counts the answers of a request, unless a limit is reached. It returns the number of all
// answers before.
func (w *waiting) enter(answers int64) (before int64, ok bool) {
	share, excess := w.split(answers)
	w.mu.Lock()
	defer w.mu.Unlock()
	before = w.shares + w.excess
	if w.shares >= w.limit || excess > 0 && w.excess >= maxExcess*w.limit {
		return before, false
	}
	w.shares += share
	w.excess += excess
	return before, true
}

func (w *waiting) leave(answers int64) {
	share, excess := w.split(answers)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.shares -= share
	w.excess -= excess
}

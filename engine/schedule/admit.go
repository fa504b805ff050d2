package schedule

import (
	"slices"
	"time"
)

const (
	// maxScan is the number of waiting sequences that are searched for one that shares pages with those in the cache.
	maxScan = 256
	// maxSkips is how often other sequences may be admitted before a sequence out of order.
	maxSkips = 64
)

// admit admits waiting sequences in order of arrival, except that those whose prompt begins with pages in the cache go first,
// so that a shared prefix is used while it is there. A sequence is admitted if the cache has pages for what it and those that run are
// expected to need in the end. An idle engine has room for any.
func (q *queue) admit() {
	if len(q.waiting) == 0 {
		return
	}
	free := q.pool.Available()
	for _, s := range q.running {
		free -= q.missing(s)
	}
	for len(q.waiting) > 0 && len(q.running) < q.MaxSequences {
		i := q.choose()
		s := q.waiting[i]
		if need := q.pool.Needed(q.expected(s)); len(q.running) > 0 && need > free && need-q.held(s) > free {
			return
		}
		for _, skipped := range q.waiting[:i] {
			skipped.skips++
		}
		q.waiting = slices.Delete(q.waiting, i, i+1)
		free -= q.start(s)
	}
}

// start admits a sequence, and returns the number of pages that it takes and is expected to take.
func (q *queue) start(s *sequence) (pages int) {
	s.admit(q.pool.NewTable())
	if f := &s.call.figures; f.admitted.IsZero() {
		f.admitted = time.Now()
	}
	q.running = append(q.running, s)
	available := q.pool.Available()
	q.adoptPages(s) // so that nothing evicts them before its turn
	return available - q.pool.Available() + q.missing(s)
}

// missing is the number of further pages that a running sequence is expected to need.
func (q *queue) missing(s *sequence) int {
	return max(0, q.pool.Needed(q.expected(s))-len(s.Table.Pages()))
}

// expected is the length that a sequence is expected to have in the end. Its answer is taken for as long as recent ones, and one that
// is longer already for half as long again.
func (q *queue) expected(s *sequence) int {
	if s.call.promptOnly {
		return s.Length()
	}
	mean := q.stops.length()
	return min(s.Length()+max(mean-len(s.answer()), (mean+1)/2), s.call.limit)
}

// held is the number of pages of a waiting sequence that running ones hold. Its prompt is hashed once, however long it waits.
func (q *queue) held(s *sequence) int {
	if q.computesAll(s) {
		return 0
	}
	if s.prefix == nil {
		s.prefix = q.pool.Prefix(s.Tokens)
	}
	return q.pool.Held(s.prefix)
}

// choose is the index of the waiting sequence that is next.
func (q *queue) choose() int {
	first := q.waiting[0]
	if first.skips >= maxSkips || first.recomputed {
		return 0
	}
	for i, s := range q.waiting[:min(len(q.waiting), maxScan)] {
		if s.head == nil {
			s.head = q.pool.Prefix(s.Tokens[:min(s.Length(), q.pool.PageSize()+1)])
		}
		if q.pool.HasPrefix(s.head) {
			return i
		}
	}
	return 0
}

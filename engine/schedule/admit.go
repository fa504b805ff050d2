package schedule

import (
	"cmp"
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
// so that a shared prefix is used while it is there. A sequence is admitted if the pages are expected to suffice for it and for those
// that run, until they end. An idle engine has room for any.
func (q *queue) admit() {
	for len(q.waiting) > 0 && len(q.running) < q.MaxSequences {
		i := q.choose()
		s := q.waiting[i]
		if len(q.running) > 0 && !q.fits(s) {
			return
		}
		for _, skipped := range q.waiting[:i] {
			skipped.skips++
		}
		q.waiting = slices.Delete(q.waiting, i, i+1)
		s.admit(q.pool.NewTable())
		if f := &s.call.figures; f.admitted.IsZero() {
			f.admitted = time.Now()
		}
		q.running = append(q.running, s)
		q.adoptPages(s) // so that nothing evicts them before its turn
	}
}

// need is what a sequence is expected to take until it ends.
type need struct {
	steps int // until it ends
	now   int // positions that it has to have pages for
	has   int // pages that it has, or will find in tables of others
	frees int // of those it has, the ones that no other table can have
}

// fits reports whether pages are expected to suffice if a waiting sequence is admitted. Every sequence grows by a position per step
// and frees its pages when it ends, so pages are scarcest just before one ends.
func (q *queue) fits(s *sequence) bool {
	q.needs = append(q.needs[:0], need{steps: q.steps(s), now: s.Length(), has: q.held(s)})
	for _, r := range q.running {
		q.needs = append(q.needs, need{q.steps(r), r.Length(), len(r.Table.Pages()), len(r.Table.Pages()) - r.Table.Adopted()})
	}
	slices.SortFunc(q.needs, func(a, b need) int { return cmp.Compare(a.steps, b.steps) })
	size, available := q.pool.PageSize(), q.pool.Available()
	positions, has := 0, 0 // of the sequences that have not ended
	for _, n := range q.needs {
		positions, has = positions+n.now, has+n.has
	}
	for i, n := range q.needs {
		left := len(q.needs) - i
		if (positions+left*n.steps)/size+left-has > available { // each may have begun a page
			return false
		}
		positions, has, available = positions-n.now, has-n.has, available+n.frees
	}
	return true
}

// steps is the number of tokens that a sequence is expected to generate before it ends. Its answer is taken for as long as recent ones,
// and one that is longer already for half as long again.
func (q *queue) steps(s *sequence) int {
	if s.call.promptOnly {
		return 0
	}
	mean := q.stops.length()
	return min(max(mean-len(s.answer()), (mean+1)/2), s.call.limit-s.Length())
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

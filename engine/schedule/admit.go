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

// enqueue lets sequences wait, after those that wait already. Interactive ones wait before the others.
func (q *queue) enqueue(seqs []*sequence) {
	for _, s := range seqs {
		i := len(q.waiting)
		if s.call.interactive {
			i = q.interactiveWaiting()
		}
		q.waiting = slices.Insert(q.waiting, i, s)
	}
}

// requeue lets a sequence that ran wait again, before those of its class that wait already.
func (q *queue) requeue(s *sequence) {
	i := 0
	if !s.call.interactive {
		i = q.interactiveWaiting()
	}
	q.waiting = slices.Insert(q.waiting, i, s)
}

// interactiveWaiting is the number of interactive sequences that wait. They are the first.
func (q *queue) interactiveWaiting() int {
	n := slices.IndexFunc(q.waiting, func(s *sequence) bool { return !s.call.interactive })
	if n < 0 {
		return len(q.waiting)
	}
	return n
}

// admit admits waiting sequences in order of arrival, interactive ones first, except that those whose prompt begins with pages in the
// cache go before others of their class, so that a shared prefix is used while it is there. A sequence is admitted if there is a slot and
// the pages are expected to suffice for it and for those that run, until they end. An idle engine has room for any. For an interactive
// sequence, as many others are preempted as it takes.
func (q *queue) admit() {
	for len(q.waiting) > 0 {
		i, preempt, ok := q.next()
		if !ok {
			return
		}
		s := q.waiting[i]
		for _, skipped := range q.waiting[:i] {
			skipped.skips++
		}
		if n := q.interactiveWaiting(); i < n && n < len(q.waiting) {
			q.waiting[n].skips++
		}
		q.waiting = slices.Delete(q.waiting, i, i+1)
		for range preempt {
			q.preempt(q.youngest())
		}
		s.admit(q.pool.NewTable())
		if f := &s.call.figures; f.admitted.IsZero() {
			f.admitted = time.Now()
		}
		q.running = append(q.running, s)
		q.adoptPages(s) // so that nothing evicts them before its turn
		if s.call.interactive {
			q.people.arrived(q.Steps.Seconds(s.span(s.left())))
		}
	}
}

// next returns the index of the waiting sequence to admit, and the number of running ones to preempt for it. It is false if there is no
// room. Interactive sequences go first, but a sequence that too many of them have passed does as soon as there is room for it.
func (q *queue) next() (i, preempt int, ok bool) {
	n := q.interactiveWaiting()
	if n > 0 && n < len(q.waiting) && !q.waiting[n].yields() && q.fits(q.waiting[n], 0) {
		return n, 0, true
	}
	if n == 0 {
		i = q.choose(q.waiting)
		return i, 0, q.fits(q.waiting[i], 0)
	}
	i = q.choose(q.waiting[:n])
	for preempt <= q.yielding() {
		if q.fits(q.waiting[i], preempt) {
			return i, preempt, true
		}
		preempt++
	}
	return i, 0, false
}

// yields reports whether interactive sequences may take a sequence's slot and pages, and go before it. Too many of them never keep it
// from its end.
func (s *sequence) yields() bool { return !s.call.interactive && s.skips < maxSkips }

// yielding is the number of running sequences that yield.
func (q *queue) yielding() (n int) {
	for _, s := range q.running {
		if s.yields() {
			n++
		}
	}
	return n
}

// youngest is the index of the running sequence that is preempted first: the last that was admitted, of those that yield if there is one.
func (q *queue) youngest() int {
	for i := len(q.running) - 1; i >= 0; i-- {
		if q.running[i].yields() {
			return i
		}
	}
	return len(q.running) - 1
}

// preempt takes the slot and the pages of a running sequence. It is computed again, to the same tokens.
func (q *queue) preempt(i int) {
	s := q.running[i]
	s.preempt()
	q.running = slices.Delete(q.running, i, i+1)
	q.requeue(s)
	q.preemptions++
}

// need is what a sequence is expected to take until it ends.
type need struct {
	steps int // until it ends
	now   int // positions that it has to have pages for
	has   int // pages that it has, or will find in tables of others
	frees int // of those it has, the ones that no other table can have
}

// fits reports whether there is a slot for a waiting sequence, and pages are expected to suffice for it, once a number of running ones
// have been preempted. Every sequence grows by a position per step and frees its pages when it ends, so pages are scarcest just before
// one ends.
func (q *queue) fits(s *sequence, preempt int) bool {
	left := len(q.running) - preempt
	if left >= q.MaxSequences {
		return false
	}
	if left == 0 {
		return true
	}
	q.needs = append(q.needs[:0], need{steps: q.steps(s), now: s.Length(), has: q.held(s)})
	size, available := q.pool.PageSize(), q.pool.Available()
	for _, r := range slices.Backward(q.running) {
		pages := len(r.Table.Pages())
		if preempt > 0 && r.yields() {
			preempt--
			available += pages - r.Table.Adopted()
			continue
		}
		q.needs = append(q.needs, need{q.steps(r), r.Length(), pages, pages - r.Table.Adopted()})
	}
	slices.SortFunc(q.needs, func(a, b need) int { return cmp.Compare(a.steps, b.steps) })
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

// choose is the index of the sequence that is next, of some that wait.
func (q *queue) choose(waiting []*sequence) int {
	first := waiting[0]
	if first.skips >= maxSkips || first.recomputed {
		return 0
	}
	for i, s := range waiting[:min(len(waiting), maxScan)] {
		if s.head == nil {
			s.head = q.pool.Prefix(s.Tokens[:min(s.Length(), q.pool.PageSize()+1)])
		}
		if q.pool.HasPrefix(s.head) {
			return i
		}
	}
	return 0
}

package engine

import "slices"

// plan gives the running sequences their rows of the next step: first those that are generating, a row each and one a
// draft, then chunks of prompts with what is left of the step's budget, in the order of admission.
func (l *loop) plan() {
	left, heads := l.opts.StepTokens, promptOutputs
	for _, s := range l.running {
		s.rows = 0
		if s.decodes() {
			s.rows = 1 + len(s.draft.tokens)
			left -= s.rows
		}
	}
	for _, s := range l.running {
		if s.decodes() || left <= 0 || l.waitsForPages(s) {
			continue
		}
		s.rows = l.chunk(s, left, &heads)
		left -= s.rows
	}
	l.makeRoom()
	for _, s := range l.running {
		s.from = s.computed
	}
}

// waitsForPages takes the pages of a prompt that are in the cache already, and tells whether another sequence is computing
// the next of them.
func (l *loop) waitsForPages(s *sequence) bool {
	if l.opts.NoSharing || s.computed != len(s.table.Pages())*l.pool.PageSize() || s.isScored() {
		return false
	}
	positions, busy := s.table.Adopt(s.tokens)
	if s.choice == 0 && !s.again {
		s.call.figures.cached += positions - s.computed
	}
	if s.draft.filled == s.computed {
		s.draft.filled = positions // by the sequence that computed the pages
	}
	s.computed = positions
	return busy
}

// chunk is the number of rows of a prompt that go into a step of which left are free. A chunk ends with a page where more
// follows, so that what others have computed by then can be shared.
func (l *loop) chunk(s *sequence, left int, heads *int) int {
	size := l.pool.PageSize()
	n := min(left, l.opts.PrefillChunk, s.wanted()-s.computed)
	if end := s.computed + n; end < s.wanted() && end/size*size > s.computed {
		n = end/size*size - s.computed
	}
	for i := range n {
		if !s.scoresPrompt(s.computed + i) {
			continue
		}
		if *heads == 0 {
			return i
		}
		*heads--
	}
	return n
}

// makeRoom takes pages for all rows, oldest sequence first. Where they run out, the youngest sequences are put back: they
// wait at the head of the queue and are computed again, to the same tokens.
func (l *loop) makeRoom() {
	for i := 0; i < len(l.running); i++ {
		s := l.running[i]
		for s.table != nil && s.rows > 0 && !s.table.Grow(s.computed+s.rows) {
			last := len(l.running) - 1
			youngest := l.running[last]
			youngest.putBack()
			l.running[last] = nil
			l.running = l.running[:last]
			l.waiting = slices.Insert(l.waiting, 0, youngest)
			l.putBacks++
		}
	}
}

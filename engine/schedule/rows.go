package schedule

import "slices"

// maxPromptOutputs is the maximum number of prompt rows of a step that reach the output head, for their log-probabilities.
const maxPromptOutputs = 64

// plan gives the running sequences their rows of the next step: first those that are generating, a row each and one a
// draft, then chunks of prompts in the order of admission, up to the step's budget.
func (l *loop) plan() {
	left, outputs := l.Limits.Rows, maxPromptOutputs
	for _, s := range l.running {
		s.Rows = 0
		if s.decodes() {
			s.Rows = 1 + len(s.Drafts)
			left -= s.Rows
		}
	}
	for _, s := range l.running {
		if s.decodes() || left <= 0 || l.waitsForPages(s) {
			continue
		}
		s.Rows = l.chunk(s, left, &outputs)
		left -= s.Rows
	}
	l.reservePages()
	for _, s := range l.running {
		s.Start = s.Computed
	}
}

// waitsForPages takes the pages of a prompt that are in the cache already, and reports whether another sequence is computing
// the next one.
func (l *loop) waitsForPages(s *sequence) bool {
	if l.NoSharing || s.Computed != len(s.Table.Pages())*l.pool.PageSize() || s.needsEveryRow() {
		return false
	}
	positions, busy := s.Table.Adopt(s.Tokens)
	if s.choice == 0 && !s.recomputed {
		s.call.figures.cached += positions - s.Computed
	}
	s.Adopt(positions)
	return busy
}

// chunk is the number of rows of a prompt that go into a step with room for the given number. A chunk that does not end the
// prompt ends with a page, so that the next one can use pages that others have computed by then.
func (l *loop) chunk(s *sequence, room int, outputs *int) int {
	size := l.pool.PageSize()
	n := min(room, l.PrefillChunk, s.target()-s.Computed)
	if end := s.Computed + n; end < s.target() && end/size*size > s.Computed {
		n = end/size*size - s.Computed
	}
	for i := range n {
		if !s.scoresPrompt(s.Computed + i) {
			continue
		}
		if *outputs == 0 {
			return i
		}
		*outputs--
	}
	return n
}

// reservePages takes pages for all rows, oldest sequence first. If they run out, the youngest sequences are preempted: they
// wait at the head of the queue and are computed again, to the same tokens.
func (l *loop) reservePages() {
	for i := 0; i < len(l.running); i++ {
		s := l.running[i]
		for s.Table != nil && s.Rows > 0 && !s.Table.Grow(s.Computed+s.Rows) {
			last := len(l.running) - 1
			youngest := l.running[last]
			youngest.preempt()
			l.running[last] = nil
			l.running = l.running[:last]
			l.waiting = slices.Insert(l.waiting, 0, youngest)
			l.preemptions++
		}
	}
}

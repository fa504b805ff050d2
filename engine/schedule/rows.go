package schedule

import "slices"

// maxPromptOutputs is the maximum number of prompt rows of a step that reach the output head, for their log-probabilities.
const maxPromptOutputs = 64

// plan gives the running sequences their rows of the next step: first those that are generating, a row each and one a
// draft, then chunks of prompts in the order of admission, up to the step's budget.
func (q *queue) plan() {
	left, outputs := q.Limits.Rows, maxPromptOutputs
	for _, s := range q.running {
		s.Rows = 0
		if s.decodes() {
			s.Rows = 1 + len(s.Drafts)
			left -= s.Rows
		}
	}
	for _, s := range q.running {
		if s.decodes() || left <= 0 || q.adoptPages(s) {
			continue
		}
		s.Rows = q.chunk(s, left, &outputs)
		left -= s.Rows
	}
	q.reservePages()
	for _, s := range q.running {
		s.Start = s.Computed
	}
}

// adoptPages takes the pages of a prompt that are in the cache already, and reports whether another sequence is computing the
// next one, for which this one waits.
func (q *queue) adoptPages(s *sequence) (busy bool) {
	if q.NoSharing || s.Computed != len(s.Table.Pages())*q.pool.PageSize() || s.needsEveryRow() {
		return false
	}
	positions, busy := s.Table.Adopt(s.Tokens)
	if s.choice == 0 && !s.recomputed {
		n := len(s.call.prompt) // what follows is of an answer that goes on
		s.call.figures.cached += min(positions, n) - min(s.Computed, n)
	}
	s.Adopt(positions)
	return busy
}

// chunk is the number of rows of a prompt that go into a step with room for the given number. A chunk that does not end the
// prompt ends with a page, so that the next one can use pages that others have computed by then.
func (q *queue) chunk(s *sequence, room int, outputs *int) int {
	size := q.pool.PageSize()
	n := min(room, q.PrefillChunk, s.target()-s.Computed)
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
func (q *queue) reservePages() {
	for i := 0; i < len(q.running); i++ {
		s := q.running[i]
		for s.Table != nil && s.Rows > 0 && !s.Table.Grow(s.Computed+s.Rows) {
			last := len(q.running) - 1
			youngest := q.running[last]
			youngest.preempt()
			q.running[last] = nil
			q.running = q.running[:last]
			q.waiting = slices.Insert(q.waiting, 0, youngest)
			q.preemptions++
		}
	}
}

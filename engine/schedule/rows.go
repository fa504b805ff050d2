package schedule

import (
	"cmp"
	"slices"
	"sort"

	"github.com/ingot-run/ingot/engine/cost"
)

// maxPromptOutputs is the maximum number of prompt rows of a step that reach the output head, for their log-probabilities.
const maxPromptOutputs = 64

// plan gives the running sequences their rows of the next step: a row to each that is generating, then chunks of prompts for as
// long as the step may take, and then drafts.
func (q *queue) plan() {
	q.size, q.prompts = cost.Size{}, q.prompts[:0]
	for _, s := range q.running {
		s.Rows = 0
		if s.decodes() {
			s.Rows = 1
			q.size = q.size.Add(s.span(1))
		} else {
			q.prompts = append(q.prompts, s)
		}
	}
	limit := q.stepLimit(q.size)
	q.planPrompts(limit)
	q.planDrafts(limit)
	q.reservePages()
	for _, s := range q.running {
		s.Start = s.Computed
	}
	clear(q.prompts)
}

// fewestAlone is the number of rows that a prompt gets at least while nothing else runs. Far behind the beginning of a text, rows take
// long because each reads much of the cache, and that many read it together.
const fewestAlone = 32

// planPrompts gives prompts their rows, in the order of their turns, until the step would take longer than limit.
func (q *queue) planPrompts(limit float64) {
	for _, s := range q.prompts {
		q.adoptPages(s)
	}
	q.order()
	outputs, given, least := maxPromptOutputs, 0, fewestAlone
	if len(q.running) > 1 {
		least = 1
	}
	for _, s := range q.prompts {
		if q.size.Rows < q.Limits.Rows && !q.waitsForPage(s) {
			fits := q.fitting(s, limit)
			if given == 0 {
				fits = max(fits, min(least, s.left(), q.PrefillChunk, q.Limits.Rows-q.size.Rows)) // however long they take
			}
			s.Rows = q.chunk(s, fits, &outputs)
			q.size = q.size.Add(s.span(s.Rows))
			given += s.Rows
		}
		if s.Rows == 0 {
			s.Table.Unclaim() // its turn may come much later
		}
	}
}

// oldestTurn is how often the prompt that was admitted first is the first in turn: in each step of that number.
const oldestTurn = 4

// order puts the prompts in the order of their turns: those that need the fewest rows go first, and now and then the oldest, so that
// others delay it only so much.
func (q *queue) order() {
	if len(q.prompts) < 2 {
		return
	}
	q.turn++
	rest := q.prompts // in order of admission
	if q.turn%oldestTurn == 0 {
		rest = rest[1:]
	}
	slices.SortStableFunc(rest, func(a, b *sequence) int { return cmp.Compare(a.left(), b.left()) })
}

// fitting is the number of rows of a prompt with which the step takes no longer than limit.
func (q *queue) fitting(s *sequence, limit float64) int {
	room := min(q.Limits.Rows-q.size.Rows, q.PrefillChunk, s.left())
	return sort.Search(room, func(i int) bool { return q.Steps.Seconds(q.size.Add(s.span(i+1))) > limit })
}

// planDrafts adds the drafts that the step has room for after the prompts.
func (q *queue) planDrafts(limit float64) {
	for _, s := range q.running {
		if len(s.Drafts) == 0 {
			continue
		}
		n := min(len(s.Drafts), q.Limits.Rows-q.size.Rows)
		if len(q.prompts) > 0 {
			n = sort.Search(n, func(i int) bool { return q.Steps.Seconds(q.size.Add(s.draftSpan(i+1))) > limit })
		}
		s.Shorten(n)
		s.Rows += n
		q.size = q.size.Add(s.draftSpan(n))
	}
}

// expectedPromptRows is the number of rows of prompts in the next step, as far as is known.
func (q *queue) expectedPromptRows() int {
	var decoding cost.Size
	left, from := 0, 0
	for _, s := range q.running {
		switch {
		case s.ended():
		case s.decodes():
			decoding = decoding.Add(s.span(1))
		default:
			left += s.left()
			from = max(from, s.Computed)
		}
	}
	limit := q.stepLimit(decoding)
	return sort.Search(max(0, min(left, q.Limits.Rows-decoding.Rows)), func(i int) bool {
		return q.Steps.Seconds(decoding.Add(cost.Rows(from, from+i+1, 0))) > limit
	})
}

// adoptPages takes the pages of a prompt that are in the cache already.
func (q *queue) adoptPages(s *sequence) {
	if q.computesAll(s) || s.Computed != len(s.Table.Pages())*q.pool.PageSize() {
		return
	}
	positions := s.Table.Adopt(s.Tokens)
	if s.choice == 0 && !s.recomputed {
		n := len(s.call.prompt) // what follows is of an answer that goes on
		s.call.figures.cached += min(positions, n) - min(s.Computed, n)
	}
	s.Adopt(positions)
}

// waitsForPage reports whether another sequence is computing the next page of a prompt.
func (q *queue) waitsForPage(s *sequence) bool {
	return !q.computesAll(s) && s.Table.Claim(s.Tokens)
}

// computesAll reports whether a prompt uses no page that another sequence has computed.
func (q *queue) computesAll(s *sequence) bool { return q.NoSharing || s.needsEveryRow() }

// chunk is the number of rows of a prompt that go into a step with room for the given number. Next to other prompts, a chunk that does
// not end its prompt ends with a page, so that the next one can use pages that others have computed by then.
func (q *queue) chunk(s *sequence, n int, outputs *int) int {
	size := q.pool.PageSize()
	if end := s.Computed + n; len(q.prompts) > 1 && end < s.target() && end/size*size > s.Computed {
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

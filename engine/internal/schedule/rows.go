package schedule

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/ingot-run/ingot/engine/internal/cost"
)

// maxPromptOutputs is the maximum number of prompt rows of a step that reach the output head, for their log-probabilities.
const maxPromptOutputs = 64

// plan gives the running sequences their rows of the next step: one row to each generating sequence, then chunks of prompts until the
// step would take too long, and then drafts. While the prompt of an interactive sequence is computed, other sequences get only rows that
// cost little.
func (q *queue) plan(now time.Time) {
	q.size, q.prompts = cost.Size{}, q.prompts[:0]
	for _, s := range q.running {
		s.Rows = 0
		if s.call.interactive {
			q.people.last = now
		}
		if !s.decodes() {
			q.adoptPages(s)
			q.prompts = append(q.prompts, s)
		}
	}
	outputs := maxPromptOutputs
	urgent, others := q.order()
	var bound limit
	chats := q.planDecodes(true, math.Inf(1))
	if q.hurries(len(urgent) > 0) {
		for _, s := range others {
			s.Table.Unclaim() // interactive prompts must not wait for pages that batch prompts compute
		}
		q.planPrompts(urgent, q.urgentLimit(q.size), &outputs)
		bound.seconds = littleMore * q.Steps.Seconds(q.size)
		q.planDecodes(false, bound.seconds)
		q.planPrompts(others, bound, &outputs)
	} else {
		q.planDecodes(false, math.Inf(1))
		generating := q.size
		bound = q.batchLimit(generating, chats, now)
		q.planPrompts(others, bound, &outputs)
		q.planPrompts(urgent, q.urgentLimit(generating), &outputs)
	}
	q.people.rested++
	for _, s := range q.prompts {
		if s.Rows > 0 {
			q.people.rested = 0
		}
	}
	q.planDrafts(bound.seconds, now)
	q.reservePages()
	for _, s := range q.running {
		s.Start = s.Computed
	}
	clear(q.prompts)
}

const (
	// In one of every oldestTurn steps with several prompts, the prompt that was admitted first gets its rows first.
	oldestTurn = 4
	// Batch sequences may make a step with the prompt of an interactive sequence at most littleMore times as long. In one of every
	// othersTurn such steps, the batch sequences go first.
	littleMore, othersTurn = 1.1, 4
)

// planDecodes gives one row to each generating sequence of a class, interactive or batch, until the step would take longer than limit
// seconds. It returns the number of these rows.
func (q *queue) planDecodes(interactive bool, limit float64) (n int) {
	for _, s := range q.running {
		if s.call.interactive != interactive || !s.decodes() {
			continue
		}
		if size := q.size.Add(s.span(1)); size.Rows <= q.Limits.Rows && (math.IsInf(limit, 1) || q.Steps.Seconds(size) <= limit) {
			s.Rows, q.size = 1, size
			n++
		}
	}
	return n
}

// planPrompts gives prompts their rows, in the given order, until the step would take longer than bound allows. outputs is the number of
// prompt rows that may still reach the output head. planPrompts lowers it.
func (q *queue) planPrompts(prompts []*sequence, bound limit, outputs *int) {
	given := 0
	for _, s := range prompts {
		if q.size.Rows < q.Limits.Rows && !q.waitsForPage(s) {
			fits := q.fitting(s, bound.seconds)
			if fits < min(bound.worth, s.left()) {
				fits = 0
				if given == 0 {
					fits = min(bound.rows, s.left(), q.PrefillChunk, q.Limits.Rows-q.size.Rows)
				}
			}
			s.Rows = q.chunk(s, fits, outputs)
			q.size = q.size.Add(s.span(s.Rows))
			given += s.Rows
		}
		if s.Rows == 0 {
			s.Table.Unclaim() // its next rows may come much later, and other sequences need not wait for them
		}
	}
}

// hurries reports whether interactive prompts get their rows first in the next step. urgent reports whether there are such prompts. In one
// of every othersTurn steps, batch sequences get their rows first, so that they advance.
func (q *queue) hurries(urgent bool) bool {
	if !urgent {
		q.hurried = 0
		return false
	}
	q.hurried++
	return q.hurried%othersTurn != 0
}

// order returns the prompts of interactive sequences and the other prompts, each in the order in which they get rows. The prompt that needs
// the fewest rows is first. In one of every oldestTurn steps, the oldest prompt is first, so that others cannot delay it without limit.
func (q *queue) order() (urgent, others []*sequence) {
	slices.SortStableFunc(q.prompts, func(a, b *sequence) int { return cmp.Compare(b.urgency(), a.urgency()) })
	n := 0
	for _, s := range q.prompts {
		n += s.urgency()
	}
	urgent, others = q.prompts[:n], q.prompts[n:]
	if len(q.prompts) > 1 {
		q.turn++
	}
	for _, class := range [][]*sequence{urgent, others} {
		if len(class) > 0 && q.turn%oldestTurn == 0 {
			class = class[1:]
		}
		slices.SortStableFunc(class, func(a, b *sequence) int { return cmp.Compare(a.left(), b.left()) })
	}
	return urgent, others
}

// fitting returns how many rows of a prompt the step can have without taking longer than limit seconds.
func (q *queue) fitting(s *sequence, limit float64) int {
	room := min(q.Limits.Rows-q.size.Rows, q.PrefillChunk, s.left())
	return sort.Search(room, func(i int) bool { return q.Steps.Seconds(q.size.Add(s.span(i+1))) > limit })
}

// planDrafts adds as many drafts as the step has room for after the prompts. If the step has prompts, or while an interactive request may
// arrive, drafts do not make the step longer than limit seconds.
func (q *queue) planDrafts(limit float64, now time.Time) {
	bounded := len(q.prompts) > 0 || q.people.expected(now)
	for _, s := range q.running {
		if len(s.Drafts) == 0 {
			continue
		}
		n := 0
		if s.Rows > 0 {
			n = min(len(s.Drafts), q.Limits.Rows-q.size.Rows)
		}
		if bounded {
			n = sort.Search(n, func(i int) bool { return q.Steps.Seconds(q.size.Add(s.draftSpan(i+1))) > limit })
		}
		s.Shorten(n)
		s.Rows += n
		q.size = q.size.Add(s.draftSpan(n))
	}
}

// expectedPromptRows returns the expected number of rows of prompts in the next step.
func (q *queue) expectedPromptRows(now time.Time) int {
	var generating cost.Size
	left, from, chats := 0, 0, 0
	for _, s := range q.running {
		switch {
		case s.ended():
		case s.decodes():
			generating = generating.Add(s.span(1))
			chats += s.urgency()
		default:
			left += s.left()
			from = max(from, s.Computed)
		}
	}
	bound := q.batchLimit(generating, chats, now).seconds
	return sort.Search(max(0, min(left, q.Limits.Rows-generating.Rows)), func(i int) bool {
		return q.Steps.Seconds(generating.Add(cost.Rows(from, from+i+1, 0))) > bound
	})
}

// adoptPages gives a prompt its pages that are already in the cache.
func (q *queue) adoptPages(s *sequence) {
	if q.computesAll(s) || s.Computed != len(s.Table.Pages())*q.pool.PageSize() {
		return
	}
	positions := s.Table.Adopt(s.Tokens)
	if s.choice == 0 && !s.recomputed {
		n := len(s.call.prompt) // later positions belong to a resumed answer
		s.call.figures.cached += min(positions, n) - min(s.Computed, n)
	}
	s.Adopt(positions)
}

// waitsForPage reports whether another sequence is computing the next page of a prompt. If not, it announces that s will compute the page.
func (q *queue) waitsForPage(s *sequence) bool {
	return !q.computesAll(s) && s.Table.Claim(s.Tokens)
}

// computesAll reports whether a prompt must be computed in full, without pages from the cache.
func (q *queue) computesAll(s *sequence) bool { return q.NoSharing || s.needsEveryRow() }

// chunk returns the number of rows that a prompt gets in a step with room for n rows. Next to other prompts, a chunk that does not reach
// the end of its prompt ends at the end of a page, so that the next chunk can use pages that other sequences computed. outputs is the
// number of prompt rows that may still reach the output head. chunk lowers it.
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

// reservePages takes pages for all rows, oldest sequence first. If pages run out, it preempts the youngest sequences, interactive ones
// last.
func (q *queue) reservePages() {
	for i := 0; i < len(q.running); i++ {
		s := q.running[i]
		for s.Table != nil && s.Rows > 0 && !s.Table.Grow(s.Computed+s.Rows) {
			youngest := q.youngest()
			q.preempt(youngest)
			if youngest <= i {
				i--
			}
		}
	}
}

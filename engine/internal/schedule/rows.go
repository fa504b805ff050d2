package schedule

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/ingot-run/ingot/engine/internal/cost"
)

// maxPromptOutputs is the maximum number of prompt rows of a step that reach the output head, for
// their log-probabilities.
const maxPromptOutputs = 64

// plan gives the running sequences their rows of the next step: one row to each generating
// sequence, then chunks of prompts until the step would take too long, and then drafts. While the
// prompt of an interactive sequence is computed, other sequences get only rows that cost little.
func (p *planner) plan(now time.Time) {
	p.size, p.prompts = cost.Size{}, p.prompts[:0]
	for _, s := range p.running {
		s.rows = 0
		if s.request.interactive {
			p.arrivals.last = now
		}
		if !s.generates() {
			p.adoptPages(s)
		}
		if !s.generates() { // an answer whose pages others have computed generates at once
			p.prompts = append(p.prompts, s)
		}
	}
	outputs := maxPromptOutputs
	interactive, batch := p.order()
	var bound limit
	streams := p.planDecodes(true, math.Inf(1), &outputs)
	if p.interactiveFirst(len(interactive) > 0) {
		for _, s := range batch {
			p.unclaim(s) // interactive prompts must not wait for pages that batch prompts compute
		}
		p.planPrompts(interactive, p.interactiveLimit(p.size), &outputs)
		bound.seconds = maxBatchSlowdown * p.costs.Seconds(p.size)
		p.planDecodes(false, bound.seconds, &outputs)
		p.planPrompts(batch, bound, &outputs)
	} else {
		p.planDecodes(false, math.Inf(1), &outputs)
		generating := p.size
		bound = p.batchLimit(generating, streams, now)
		p.planPrompts(batch, bound, &outputs)
		p.planPrompts(interactive, p.interactiveLimit(generating), &outputs)
	}
	p.stepsSinceChunk++
	for _, s := range p.prompts {
		if s.rows > 0 {
			p.stepsSinceChunk = 0
		}
	}
	p.planDrafts(bound.seconds, now)
	p.reservePages()
	for _, s := range p.running {
		s.start = s.computed
	}
	clear(p.prompts)
}

const (
	// In one of every oldestTurn steps with several prompts, the prompt that was admitted first
	// gets its rows first.
	oldestTurn = 4
	// Batch sequences may make a step with the prompt of an interactive sequence at most
	// maxBatchSlowdown times as long. In one of every batchTurn such steps, the batch sequences go
	// first.
	maxBatchSlowdown, batchTurn = 1.1, 4
)

// planDecodes gives one row to each generating sequence of a class until the step would take longer
// than limit seconds. It then adds the rows of forced tokens. outputs is the number of rows whose
// next token is known that may still reach the output head.
func (p *planner) planDecodes(interactive bool, limit float64, outputs *int) (n int) {
	for _, s := range p.running {
		if s.request.interactive != interactive || !s.generates() {
			continue
		}
		if size := p.size.Add(s.span(1)); size.Rows <= p.limits.Rows && (math.IsInf(limit, 1) || p.costs.Seconds(size) <= limit) {
			s.rows, p.size = 1, size
			n++
		}
	}
	for _, s := range p.running {
		if s.request.interactive == interactive && s.rows == 1 && s.left() > 1 {
			p.planForced(s, limit, outputs)
		}
	}
	return n
}

// planForced adds the rows of a sequence's forced tokens to the row of the token before them.
func (p *planner) planForced(s *sequence, limit float64, outputs *int) {
	before := p.size
	more := func(rows int) cost.Size {
		z := before.Add(cost.Rows(s.computed+1, s.computed+rows, 0))
		z.Outputs += s.span(rows).Outputs
		return z
	}
	fits := min(s.left(), 1+p.limits.Rows-before.Rows)
	if !math.IsInf(limit, 1) {
		fits = 1 + sort.Search(fits-1, func(i int) bool { return p.costs.Seconds(more(i+2)) > limit })
	}
	s.rows = p.withOutputs(s, fits, outputs)
	p.size = more(max(s.rows, 1))
}

// withOutputs returns how many of the next n rows of a sequence can be computed if only a number of
// rows whose next token is known may reach the output head. It lowers this number.
func (p *planner) withOutputs(s *sequence, n int, outputs *int) int {
	for i := range n {
		if !s.scored(s.computed + i) {
			continue
		}
		if *outputs == 0 {
			return i
		}
		*outputs--
	}
	return n
}

// planPrompts gives prompts their rows, in the given order, until the step would take longer than
// bound allows. outputs is the number of prompt rows that may still reach the output head.
// planPrompts lowers it.
func (p *planner) planPrompts(prompts []*sequence, bound limit, outputs *int) {
	given := 0
	for _, s := range prompts {
		if p.size.Rows < p.limits.Rows && !p.waitsForPage(s) {
			fits := p.fitting(s, bound.seconds)
			if fits < min(bound.minRows, s.left()) {
				fits = 0
				if given == 0 {
					fits = min(bound.firstRows, s.left(), p.prefillChunk, p.limits.Rows-p.size.Rows)
				}
			}
			if given == 0 {
				fits = min(p.states.least(s, fits), p.limits.Rows-p.size.Rows)
			}
			s.rows = p.chunk(s, fits, outputs)
			p.size = p.size.Add(s.span(s.rows))
			given += s.rows
		}
		if s.rows == 0 && (p.states == nil || s.computed == 0) {
			p.unclaim(s) // its next rows may come much later, and other sequences need not wait for them
		}
	}
}

// interactiveFirst reports whether interactive prompts, if there are any, get their rows first in
// the next step. In one of every batchTurn steps, batch sequences get theirs first, so that they
// advance.
func (p *planner) interactiveFirst(waiting bool) bool {
	if !waiting {
		p.interactiveSteps = 0
		return false
	}
	p.interactiveSteps++
	return p.interactiveSteps%batchTurn != 0
}

// order returns the prompts of interactive sequences and the other prompts, each in the order in
// which they get rows. The prompt that needs the fewest rows is first. In one of every oldestTurn
// steps, the oldest prompt is first, so that batch cannot delay it without limit.
func (p *planner) order() (interactive, batch []*sequence) {
	slices.SortStableFunc(p.prompts, func(a, b *sequence) int { return cmp.Compare(b.urgency(), a.urgency()) })
	n := 0
	for _, s := range p.prompts {
		n += s.urgency()
	}
	interactive, batch = p.prompts[:n], p.prompts[n:]
	if len(p.prompts) > 1 {
		p.turn++
	}
	for _, class := range [][]*sequence{interactive, batch} {
		if len(class) > 0 && p.turn%oldestTurn == 0 {
			class = class[1:]
		}
		slices.SortStableFunc(class, func(a, b *sequence) int { return cmp.Compare(a.left(), b.left()) })
	}
	return interactive, batch
}

func (p *planner) fitting(s *sequence, limit float64) int {
	room := min(p.limits.Rows-p.size.Rows, p.prefillChunk, s.left())
	return sort.Search(room, func(i int) bool { return p.costs.Seconds(p.size.Add(s.span(i+1))) > limit })
}

// planDrafts adds as many drafts as the step has room for after the prompts. If the step has
// prompts, or while an interactive request may arrive, drafts do not make the step longer than
// limit seconds.
func (p *planner) planDrafts(limit float64, now time.Time) {
	bounded := len(p.prompts) > 0 || p.arrivals.expected(now)
	for _, s := range p.running {
		n := 0
		if s.rows > 0 {
			n = p.states.maxDrafts(min(len(s.draft.Drafts), p.limits.Rows-p.size.Rows))
		}
		if bounded {
			n = sort.Search(n, func(i int) bool { return p.costs.Seconds(p.size.Add(s.draftSpan(i+1))) > limit })
		}
		s.draft.Shorten(n)
		s.rows += n
		p.size = p.size.Add(s.draftSpan(n))
	}
}

func (p *planner) expectedPromptRows(now time.Time) int {
	var generating cost.Size
	left, from, streams := 0, 0, 0
	for _, s := range p.running {
		switch {
		case s.ended():
		case s.decodes():
			generating = generating.Add(s.span(1))
			streams += s.urgency()
		default:
			left += s.left()
			from = max(from, s.computed)
		}
	}
	bound := p.batchLimit(generating, streams, now).seconds
	return sort.Search(max(0, min(left, p.limits.Rows-generating.Rows)), func(i int) bool {
		return p.costs.Seconds(generating.Add(cost.Rows(from, from+i+1, 0))) > bound
	})
}

func (p *planner) adoptPages(s *sequence) {
	if p.computesAll(s) || s.computed != len(s.table.Pages())*p.pool.PageSize() {
		return
	}
	text := s.shareable()
	if p.states != nil {
		position, c := p.states.best(s, min(len(s.request.prompt), len(text)), p.pool)
		if c == nil {
			return
		}
		p.states.use(s, c)
		text = text[:position+1]
	}
	positions := s.table.Adopt(text)
	if s.choice == 0 && !s.recomputed {
		n := len(s.request.prompt) // later positions belong to a resumed answer
		s.request.figures.cached += min(positions, n) - min(s.computed, n)
	}
	s.adopt(positions)
}

// waitsForPage reports whether another sequence is computing the next page of a prompt or, if the
// model has recurrent states, a snapshot. If not, it announces that s will compute it.
func (p *planner) waitsForPage(s *sequence) bool {
	if p.states != nil {
		return !p.computesAll(s) && p.states.waits(s)
	}
	return !p.computesAll(s) && s.table.Claim(s.shareable())
}

// unclaim withdraws the announcements of waitsForPage.
func (p *planner) unclaim(s *sequence) {
	s.table.Unclaim()
	p.states.unclaim(s)
}

// shareable returns the tokens whose pages may be taken from the cache. Rows with outputs that are
// still needed must be computed.
func (s *sequence) shareable() []int32 {
	if s.lacksScores() {
		return s.tokens[:len(s.request.prompt)+len(s.scores.ids)]
	}
	return s.tokens
}

func (p *planner) computesAll(s *sequence) bool { return p.noSharing || s.needsEveryRow() }

// chunk returns the number of rows that a prompt gets in a step with room for n rows. Next to other
// prompts, a chunk that does not reach the end of its prompt ends at the end of a page, so that the
// next chunk can use pages that other sequences computed. With recurrent states, it ends as
// states.cut requires. outputs is the number of prompt rows that may still reach the output head.
// chunk lowers it.
func (p *planner) chunk(s *sequence, n int, outputs *int) int {
	size := p.pool.PageSize()
	if end := s.computed + n; p.states == nil && len(p.prompts) > 1 && end < s.target() && end/size*size > s.computed {
		n = end/size*size - s.computed
	}
	before := *outputs
	n = p.withOutputs(s, n, outputs)
	if cut := p.states.cut(s, n); cut < n {
		n, *outputs = cut, before
		n = p.withOutputs(s, n, outputs)
	}
	return n
}

// reservePages takes pages for all rows, oldest sequence first. If pages run out, it preempts the
// youngest sequences.
func (p *planner) reservePages() {
	for i := 0; i < len(p.running); i++ {
		s := p.running[i]
		for s.table != nil && !s.table.Grow(s.computed+s.rows) {
			youngest := p.youngest()
			p.preempt(youngest)
			if youngest <= i {
				i--
			}
		}
	}
}

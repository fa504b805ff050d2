package schedule

import (
	"slices"
	"time"
)

// inFlight returns the maximum number of steps of the next run: the steps between two waits for
// everything in flight. There are enough free pages for all of them. top is the maximum number of
// highest logits that a step can return for a row. masked reports whether the tokens of a step
// decide how those of the next one are drawn; see loop.prepare.
//
// The number is 1 while a sequence computes a part of its prompt, needs the results of each step
// for drafting, or needs more logits than the step finds. It is low while an interactive request
// may arrive, because such a request would have to wait for the whole run.
//
// Without masks, all steps exclude the same tokens, and tokens are known only after the run. So the
// number is also 1 while a sequence waits to be admitted or computes its prompt, and low while
// answers are short, because rows after the end of an answer are wasted. A run with masks ends when
// it wastes too many.
func (p *planner) inFlight(top int, now time.Time) (n int, masked bool) {
	masked = slices.ContainsFunc(p.running, func(s *sequence) bool { return s.guide != nil && !s.guide.independent() })
	return p.maxRun(top, now, masked), masked
}

// A run with masks has more steps than can be in flight, because the loop reads the tokens of each
// step while the next one runs. Requests that arrive wait for at most its end, and text reaches
// streams at its end, so it is limited to about maxMaskedTime seconds.
const maxMaskedSteps, maxMaskedTime = 32, 0.1

func (p *planner) maxRun(top int, now time.Time, masked bool) int {
	n := p.maxInFlight
	switch {
	case !masked:
		n = min(n, p.stops.maxInFlight())
	case n > 1:
		n = max(n, min(maxMaskedSteps, int(maxMaskedTime/max(p.costs.Seconds(p.size), 1e-6))))
	}
	if n > 1 && p.speculator != nil {
		n = min(n, p.speculator.MaxInFlight())
	}
	if n == 1 || len(p.waiting) > 0 && (!masked || p.waiting[0].request.interactive) {
		return 1
	}
	for _, s := range p.running {
		if p.states != nil && !masked && s.guide != nil {
			return 1 // if its constraint begins within the run, its state must not be that after later steps
		}
		if ready := s.decodes() || masked && s.completes(); !ready || s.tops(s.length()-1) > top {
			return 1
		}
		if missing := s.request.minTokens - len(s.answer()); !masked && missing > 0 && len(s.request.stopIDs) > 0 {
			n = min(n, missing)
		}
		if p.speculator != nil && p.speculator.Waits(&s.draft) {
			return 1
		}
		if masked {
			n = min(n, p.limits.Context-s.length())
		} else {
			n = min(n, s.request.limit-s.length())
		}
	}
	if p.arrivals.expected(now) {
		for n > 1 && float64(n)*p.costs.Seconds(p.size) > p.arrivals.prompt {
			n--
		}
	}
	for n > 1 && p.missingPages(n) > p.pool.Available() {
		n--
	}
	return n
}

// reserveInFlight takes the pages for n steps in flight. plan has taken those of a single step.
func (p *planner) reserveInFlight(n int) {
	if n == 1 {
		return
	}
	for _, s := range p.running {
		s.table.Grow(s.computed + s.rows + n - 1)
	}
}

func (p *planner) missingPages(n int) (pages int) {
	for _, s := range p.running {
		pages += s.table.Missing(s.computed + s.rows + n - 1)
	}
	return pages
}

// completes reports whether the planned step computes all known tokens of the sequence, such as its
// prompt or tokens that the constraint has forced, and has one output of it.
func (s *sequence) completes() bool {
	if s.rows == 0 || s.rows < s.left() || s.reason != "" || s.request.promptOnly || s.needsEveryRow() {
		return false
	}
	return !s.lacksScores()
}

type stopRate struct{ tokens, stopped int }

const (
	// expectedStop is the expected length of an answer, in tokens, before any token was generated.
	expectedStop = 128
	// stopMemory is the number of tokens after which the counts are halved, so that recent answers
	// count more.
	stopMemory = 4096
	// The number of steps in flight is limited to about 1/stopShare of the expected length of an
	// answer. On average, a stop wastes half of the steps in flight, so about 1 row in 32 is
	// wasted.
	stopShare = 16
)

func (s *stopRate) add(stopped bool) {
	s.tokens++
	if stopped {
		s.stopped++
	}
	if s.tokens == stopMemory {
		s.tokens, s.stopped = s.tokens/2, s.stopped/2
	}
}

func (s *stopRate) length() int { return (s.tokens + expectedStop) / (s.stopped + 1) }

func (s *stopRate) maxInFlight() int { return 1 + s.length()/stopShare }

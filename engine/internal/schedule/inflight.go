package schedule

import "time"

// inFlight returns the number of steps to submit before a wait. There are enough free pages for all
// of them. top is the maximum number of highest logits that a step can return for a row.
//
// The number is 1 while a sequence waits to be admitted, computes its prompt, needs the results of
// each step for drafting, or needs more logits than the step finds. It is low while answers are
// short, because rows after the end of an answer are wasted. It is also low while an interactive
// request may arrive, because such a request would have to wait for all steps in flight. All steps
// in flight exclude the same tokens.
func (p *planner) inFlight(top int, now time.Time) int {
	n := min(p.maxInFlight, p.stops.maxInFlight())
	if n > 1 && p.speculator != nil {
		n = min(n, p.speculator.MaxInFlight())
	}
	if n == 1 || len(p.waiting) > 0 {
		return 1
	}
	for _, s := range p.running {
		if !s.decodes() || s.tops(s.length()-1) > top {
			return 1
		}
		if missing := s.request.minTokens - len(s.answer()); missing > 0 && len(s.request.stopIDs) > 0 {
			n = min(n, missing)
		}
		if p.speculator != nil && p.speculator.Waits(&s.draft) {
			return 1
		}
		n = min(n, s.request.limit-s.length())
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
		s.table.Grow(s.computed + n)
	}
}

func (p *planner) missingPages(n int) (pages int) {
	for _, s := range p.running {
		pages += s.table.Missing(s.computed + n)
	}
	return pages
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

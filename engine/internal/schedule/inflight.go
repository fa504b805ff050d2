package schedule

import (
	"time"
)

// The loop reads the tokens of each step of a run while the next one runs, so a run may have more
// steps than can be in flight. Text reaches streams at its end, so it is limited to about
// maxRunTime seconds, or to as many steps as can be in flight.
const maxRunSteps, maxRunTime = 32, 0.1

// runLength returns the maximum number of steps of the next run: the steps between two pauses of
// the device. There are enough free pages for all of them. top is the maximum number of highest
// logits that a step can return for a row.
//
// The number is 1 while a sequence computes a part of its prompt that is not the last, needs the
// results of each step for drafting, or needs more logits than the step finds. It is low while an
// interactive request may arrive, because such a request would have to wait for a step that has
// been submitted.
func (p *planner) runLength(top int, now time.Time) (n int) {
	if n = p.maxInFlight; n > 1 {
		n = max(n, min(maxRunSteps, int(maxRunTime/max(p.costs.Seconds(p.size), 1e-6))))
	}
	if n > 1 && p.speculator != nil {
		n = min(n, p.speculator.MaxRun())
	}
	if n == 1 || len(p.waiting) > 0 && p.waiting[0].request.interactive {
		return 1
	}
	for _, s := range p.running {
		if ready := s.decodes() || s.completes(); !ready || s.tops(s.length()-1) > top {
			return 1
		}
		if p.speculator != nil && p.speculator.Waits(&s.draft) {
			return 1
		}
		n = min(n, p.limits.Context-s.length())
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

// reserveRun takes the pages for a run of n steps. plan has taken those of a single step.
func (p *planner) reserveRun(n int) {
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

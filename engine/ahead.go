package engine

import "fmt"

// ahead is how many steps are computed before anybody looks at their tokens: more than one where each running sequence
// takes the likeliest token next, so that the device can go on by itself, nothing is drafted, and nothing waits for a place.
// A sequence that turns out to have stopped in between has its later rows dropped, so the steps are fewer where answers are
// short. The pages for all of them are taken.
func (l *loop) ahead() int {
	n := min(l.depth, l.stops.ahead())
	if n > 1 && l.spec != nil {
		n = min(n, l.spec.ahead(l.running))
	}
	if n == 1 || len(l.waiting) > 0 {
		return 1
	}
	for _, s := range l.running {
		if !s.decodes() || s.needs(0, l.top) == 0 || !s.sampler.Greedy() {
			return 1
		}
		n = min(n, s.call.limit-s.length())
	}
	for n > 1 && l.missingPages(n) > l.pool.Available() {
		n--
	}
	if n > 1 {
		for _, s := range l.running {
			s.table.Grow(s.computed + n)
		}
	}
	return n
}

// ahead is how many steps can do without a look for drafts: the more, the longer there were none. It is 1 while a drafting
// layer or model follows one of the sequences, since it takes in every step.
func (sp *speculation) ahead(running []*sequence) int {
	if sp.fixed > 0 {
		return 1
	}
	for _, s := range running {
		if len(s.draft.tokens) > 0 || sp.chain != nil && sp.chain.reaches(s) {
			return 1
		}
	}
	return max(1, sp.quiet/2)
}

// stopRate is how often answers stopped of late, at a stop id or a stop string, which nobody can foresee.
type stopRate struct{ tokens, stopped int }

const (
	// expectedStop is after how many tokens answers are taken to stop before any did.
	expectedStop = 128
	// stopMemory is how many tokens count in full.
	stopMemory = 4096
	// stopShare makes about one row in 32 be computed in vain: a run of n steps has n/2 of them beyond a stop.
	stopShare = 16
)

// note takes in a token, and whether its answer stopped with it.
func (s *stopRate) note(stopped bool) {
	s.tokens++
	if stopped {
		s.stopped++
	}
	if s.tokens == stopMemory {
		s.tokens, s.stopped = s.tokens/2, s.stopped/2
	}
}

// ahead is how many steps can be computed before anybody looks for stops, without much that is in vain.
func (s *stopRate) ahead() int { return 1 + (s.tokens+expectedStop)/(s.stopped+1)/stopShare }

// missingPages is how many more pages the running sequences take for n steps.
func (l *loop) missingPages(n int) (pages int) {
	for _, s := range l.running {
		pages += max(0, l.pool.Needed(s.computed+n)-len(s.table.Pages()))
	}
	return pages
}

// compute runs the batch, and n-1 steps that follow it. It returns all logits where n is 1.
func (l *loop) compute(n int) ([][]float32, error) {
	b := &l.batch.Batch
	if n == 1 {
		logits, err := l.model.Forward(b)
		if err != nil {
			return nil, fmt.Errorf("compute a step of %d rows: %w", len(b.Tokens), err)
		}
		return logits, nil
	}
	if err := l.model.Decode(b, n); err != nil {
		return nil, fmt.Errorf("compute %d steps of %d rows: %w", n, len(b.Tokens), err)
	}
	return nil, nil
}

// follow makes the batch, in which each sequence decodes, the step after it, of the sequences that go on. It returns false
// where there is none.
func (b *batch) follow() bool {
	n := 0
	for _, o := range b.outputs {
		s := o.seq
		if s.reason != "" || s.call.err != nil {
			continue
		}
		o.position++
		s.from = s.computed
		b.seqs[n], b.outputs[n] = s, o
		n++
	}
	clear(b.seqs[n:])
	clear(b.outputs[n:])
	b.seqs, b.outputs = b.seqs[:n], b.outputs[:n]
	return n > 0
}

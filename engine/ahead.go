package engine

// ahead is how many steps are computed before anybody looks at their tokens: more than one where each running sequence
// takes the likeliest token next, so that the device can go on by itself, nothing is drafted, and nothing waits for a place.
// A sequence that turns out to have ended in between has its later rows dropped. The pages for all these steps are taken.
func (l *loop) ahead() int {
	n := l.depth
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

// missingPages is how many more pages the running sequences take for n steps.
func (l *loop) missingPages(n int) (pages int) {
	for _, s := range l.running {
		pages += max(0, l.pool.Needed(s.computed+n)-len(s.table.Pages()))
	}
	return pages
}

// compute runs the batch, and n-1 steps that follow it. It returns all logits where n is 1.
func (l *loop) compute(n int) ([][]float32, error) {
	if n > 1 {
		return nil, l.model.Decode(&l.batch.Batch, n)
	}
	return l.model.Forward(&l.batch.Batch)
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

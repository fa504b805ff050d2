package draft

// Next describes the next step.
type Next struct {
	Running int         // number of running sequences
	Decode  []*Sequence // the sequences that generate; each has one row, and one more per draft
	Others  int         // number of rows of the other sequences
}

// Draft drafts for the sequences that generate in the next step. step lists the sequences of the
// last step that have not ended. The MTP layer or small model processes their tokens.
func (sp *Speculator) Draft(step []*Sequence, next Next) error {
	if !sp.drafts() {
		return nil
	}
	for _, s := range step {
		s.wanted = 0
	}
	sp.planner.Reads = meanLength(next.Decode)
	sp.gather(next.Decode)
	sp.searchText(next.Decode)
	sp.plan(next)
	if sp.chain == nil {
		return nil
	}
	if next.Running > 0 {
		sp.judge(next)
	}
	return sp.chain.run(step, sp.catchesUp(), &sp.planner.Pass, sp.gates())
}

func meanLength(seqs []*Sequence) int {
	sum := 0
	for _, s := range seqs {
		sum += s.Length()
	}
	return sum / max(len(seqs), 1)
}

// gather makes a candidate for drafts by passes for each sequence. It is empty if the chain cannot
// draft for the sequence.
func (sp *Speculator) gather(decode []*Sequence) {
	sp.candidates = sp.candidates[:0]
	for _, s := range decode {
		var c candidate
		if sp.chain != nil && sp.chain.canCatchUp(s) {
			c = candidate{Limit: s.room(), chances: sp.learned[s.kind()].pass.chances(&s.passRecord)}
		}
		sp.candidates = append(sp.candidates, c)
	}
}

// drafts reports whether the next step may have drafts.
func (sp *Speculator) drafts() bool { return sp.fixed > 0 || sp.trials.allows() }

// searchText drafts from the texts of the sequences, where that is expected to yield as much as
// drafts by passes.
func (sp *Speculator) searchText(decode []*Sequence) {
	if !sp.ngram {
		return
	}
	for i, s := range decode {
		if s.ngrams == nil {
			s.ngrams = newNGrams()
		}
		s.Drafts = s.ngrams.Draft(s.Drafts[:0], s.Tokens, s.room())
		c := candidate{chances: sp.learned[s.kind()].ngram.chances(&s.ngramRecord), Limit: len(s.Drafts), Free: true}
		if c.Limit > 0 && c.Yield(c.Limit) >= sp.candidates[i].Yield(sp.candidates[i].Limit) {
			sp.candidates[i], s.byNGram = c, true
		} else {
			s.Drafts = s.Drafts[:0]
		}
	}
}

// plan decides how many tokens to draft for each sequence, and shortens n-gram drafts, which exist
// already.
func (sp *Speculator) plan(next Next) {
	left := min(sp.room, max(0, sp.limits.Rows-len(next.Decode)-next.Others))
	sp.planner.Room = max(left, 1)
	if sp.fixed > 0 {
		for i := range sp.candidates {
			sp.candidates[i].Length = min(sp.fixed, sp.candidates[i].Limit)
		}
	} else if len(next.Decode) > 0 {
		sp.planner.Slow = sp.trials.relative()
		if sp.planner.Plan(sp.candidates, next.Others) == 0 {
			sp.rest()
		}
	}
	for k := range sp.learned {
		g := &sp.learned[k].gate
		g.Token, g.Row = sp.planner.Token, sp.planner.Row
	}
	share := left / max(len(next.Decode), 1)
	for i, s := range next.Decode {
		c := &sp.candidates[i]
		n := c.Length
		if sp.fixed == 0 && n > 0 && !c.Free {
			n = max(n, min(c.Limit, share)) // as many as there is room for; the gate decides after each pass
		}
		n = min(n, left)
		if !s.Table.Grow(s.Length() + n) {
			n = max(0, min(n, s.Table.Positions()-s.Length()))
		}
		left -= n
		if s.byNGram {
			s.Drafts = s.Drafts[:n]
		} else {
			s.wanted = n
		}
	}
}

// judge updates sp.unprofitable: it estimates whether drafting by passes would be worth its cost.
func (sp *Speculator) judge(next Next) {
	sp.fresh = sp.fresh[:0]
	for i := range next.Running {
		kind := 0
		if n := len(next.Decode); n > 0 {
			kind = next.Decode[i%n].kind() // the others are assumed to be of the same kinds
		}
		sp.fresh = append(sp.fresh, candidate{chances: sp.learned[kind].pass.chances(&record{}), Limit: MaxTokens})
	}
	p := sp.planner
	if p.Plan(sp.fresh, 0) > 0 {
		sp.unprofitable = max(0, sp.unprofitable-forgives)
	} else {
		sp.unprofitable = min(sp.unprofitable+1, maxUnprofitable)
	}
}

// Speculator.unprofitable counts the steps in which drafting was not worth its cost. The constant
// forgives is the number by which a step in which drafting was worth its cost reduces the count.
// When the count is maxUnprofitable, the MTP layer or small model stops processing tokens.
const maxUnprofitable, forgives = 16, 4

// catchesUp reports whether the MTP layer or small model also processes the tokens of sequences
// that draft nothing. This costs passes. The passes continue for a few unprofitable steps, because
// an MTP layer that misses a step of a sequence can draft for this sequence only from the next page
// on, without the text before that page.
//
// Nothing is processed while there may be no drafts, so that steps are as fast as without a
// drafter.
func (sp *Speculator) catchesUp() bool {
	return sp.fixed > 0 || sp.trials.allows() && sp.unprofitable < maxUnprofitable
}

package engine

import (
	"time"

	"github.com/ingot-run/ingot/engine/cache"
	"github.com/ingot-run/ingot/engine/draft"
)

// draftOutputs is the most drafts of a step; each reaches the output head.
const draftOutputs = 64

// speculation drafts tokens for the sequences that generate, and learns from what became of them. The next step verifies
// the drafts: each row's token is drawn as if nothing had been drafted, and counts where all drafts before it were right.
// So drafting cannot change a token, and keeps the model's distribution: a draft is accepted with the probability that the
// model gives it.
type speculation struct {
	pool    *cache.Pool
	meter   *meter
	rows    int // most rows of a step
	vocab   int
	fixed   int    // tokens to draft for each sequence; 0 leaves it to the planner
	looksUp bool   // in the sequence's own text
	chain   *chain // drafts by passes of an MTP layer or a small model; nil where there is neither
	planner draft.Planner
	lookUps draft.Acceptance
	passes  draft.Acceptance
	gate    draft.Gate // of passes
	quiet   int        // steps since something was drafted

	seqs       []*sequence       // that generate in the next step
	candidates []draft.Candidate // [seqs]
	fresh      []draft.Candidate // of sequences without a history, to see whether drafting pays at all
}

// fill lets the drafting layer or model take in the prompts of a step that has been computed but not handed out.
func (sp *speculation) fill(b *batch, running int) error {
	if sp.chain == nil || !b.hasPrompts() || !sp.keepsUp(running) {
		return nil
	}
	return sp.chain.fill(b)
}

// draft notes what became of the drafts of a step, the last of some that took so long together, and drafts for the next.
func (sp *speculation) draft(b *batch, running []*sequence, steps int, took time.Duration) error {
	sp.planner.Verify.Observe(len(b.Tokens), took.Seconds()/float64(steps))
	if sp.learn(b.seqs) > 0 {
		sp.quiet = 0
	} else {
		sp.quiet += steps
	}
	others := sp.gather(running)
	sp.lookUp()
	sp.plan(others)
	if sp.chain == nil {
		return nil
	}
	gate := &sp.gate
	if sp.fixed > 0 {
		gate = nil
	}
	return sp.chain.run(b, sp.keepsUp(len(running)), &sp.planner.Pass, gate)
}

// learn records which drafts were right, forgets them, and returns how many there were.
func (sp *speculation) learn(seqs []*sequence) (drafted int) {
	accepted := 0
	for _, s := range seqs {
		d := &s.draft
		n, tried := len(d.tokens), len(d.tokens)
		if d.cut {
			tried++ // what was not worth a row counts as wrong where it would have been next
		}
		if tried > 0 {
			d.tried().Observe(tried, d.accepted)
			sp.acceptance(d.looked).Observe(tried, d.accepted)
		}
		if n > 0 && !d.looked {
			d.filled += sp.chain.kept(n, d.accepted)
			for i, sure := range d.sure[:min(n, d.accepted+1)] {
				sp.gate.Observe(sure, i < d.accepted)
			}
		}
		s.call.figures.drafted += n
		s.call.figures.accepted += d.accepted
		drafted, accepted = drafted+n, accepted+d.accepted
		d.tokens, d.sure, d.accepted, d.looked, d.cut = d.tokens[:0], d.sure[:0], 0, false, false
	}
	sp.meter.update(func(s *Snapshot) {
		s.DraftTokens += uint64(drafted)
		s.AcceptedTokens += uint64(accepted)
	})
	return drafted
}

func (sp *speculation) acceptance(looked bool) *draft.Acceptance {
	if looked {
		return &sp.lookUps
	}
	return &sp.passes
}

// gather lists the sequences that generate in the next step, as candidates for passes, and returns the rows that others
// will take there.
func (sp *speculation) gather(running []*sequence) (others int) {
	clear(sp.seqs)
	sp.seqs, sp.candidates = sp.seqs[:0], sp.candidates[:0]
	for _, s := range running {
		s.draft.wanted = 0
		if s.reason != "" || s.call.err != nil {
			continue
		}
		if !s.decodes() {
			others += s.wanted() - s.computed
			continue
		}
		c := draft.Candidate{Limit: min(s.call.limit-s.length()-1, draft.MaxTokens)}
		if sp.chain == nil || !sp.chain.reaches(s) {
			c.Limit = 0
		} else {
			c.Chances = sp.passes.Chances(&s.draft.passes)
		}
		sp.seqs, sp.candidates = append(sp.seqs, s), append(sp.candidates, c)
	}
	return others
}

// lookUp drafts from the sequences' own texts where that promises more than passes.
func (sp *speculation) lookUp() {
	if !sp.looksUp {
		return
	}
	for i, s := range sp.seqs {
		if s.draft.ngram == nil {
			s.draft.ngram = draft.NewNGram(s.call.limit)
		}
		most := min(s.call.limit-s.length()-1, draft.MaxTokens)
		s.draft.tokens = s.draft.ngram.Draft(s.draft.tokens[:0], s.tokens, most)
		c := draft.Candidate{Chances: sp.lookUps.Chances(&s.draft.lookUps), Limit: len(s.draft.tokens), Free: true}
		if c.Limit > 0 && c.Yield(c.Limit) >= sp.candidates[i].Yield(sp.candidates[i].Limit) {
			sp.candidates[i], s.draft.looked = c, true
		} else {
			s.draft.tokens = s.draft.tokens[:0]
		}
	}
}

// plan settles how much each sequence drafts: looked-up drafts are cut to it, passes still have to be made.
func (sp *speculation) plan(others int) {
	if sp.fixed > 0 {
		for i := range sp.candidates {
			sp.candidates[i].Length = min(sp.fixed, sp.candidates[i].Limit)
		}
	} else if len(sp.seqs) > 0 && sp.planner.Plan(sp.candidates, others) == 0 {
		sp.lookUps.Rest()
		sp.passes.Rest()
	}
	sp.gate.Token, sp.gate.Row = sp.planner.Token, sp.planner.Row
	left := min(draftOutputs, sp.rows-len(sp.seqs))
	share := left / max(len(sp.seqs), 1)
	for i, s := range sp.seqs {
		c := &sp.candidates[i]
		n := c.Length
		if sp.fixed == 0 && n > 0 && !c.Free {
			n = max(n, min(c.Limit, share)) // the gate ends it
		}
		n = min(n, left)
		if !s.table.Grow(s.length() + n) {
			n = max(0, min(n, len(s.table.Pages())*sp.pool.PageSize()-s.length()))
		}
		left -= n
		if s.draft.looked {
			s.draft.tokens = s.draft.tokens[:n]
		} else {
			s.draft.wanted = n
		}
	}
}

// keepsUp tells whether the drafting layer or model follows the sequences' tokens: not where drafting would not pay for
// so many sequences, since following costs too.
func (sp *speculation) keepsUp(running int) bool {
	if sp.fixed > 0 || running == 0 {
		return true
	}
	sp.fresh = sp.fresh[:0]
	chances := sp.passes.Chances(&draft.Record{})
	for range running {
		sp.fresh = append(sp.fresh, draft.Candidate{Chances: chances, Limit: draft.MaxTokens})
	}
	return sp.planner.Plan(sp.fresh, 0) > 0
}

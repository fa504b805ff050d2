package schedule

import (
	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/internal/sample"
	"github.com/ingot-run/ingot/engine/model"
)

// drawer reads the tokens that a step has chosen, and their log-probabilities.
type drawer struct {
	model model.Model

	step   int         // the step that is being delivered: its index among the steps in flight
	top    int         // Batch.Top of the step
	drawn  [][]float32 // [outputs] the chosen tokens; nil until an output needs them
	best   [][]float32 // [outputs] the highest logits; nil until an output needs them
	logits [][]float32 // [outputs][vocabulary]; nil until an output needs them
}

type output struct {
	seq      *sequence
	position int
	drafts   int  // number of drafts up to the row's position, including it
	row      int  // index among the outputs of a step
	top      int  // number of highest logits that the sequence needs from the row, for log-probabilities; 0 for none
	edited   bool // whether the row's logits are changed before the draw
}

// knows reports whether the token after an output is known: it is one of the prompt or of those
// that the constraint has forced.
func (s *sequence) knows(o output) bool { return o.position+1 < s.length() }

// next returns how the step chooses the token after an output. If the next token is known, the step
// only finds its log-probability. With a constraint, the draw has
// a mask that the guides compute later.
func (s *sequence) next(o output, memory *[]compute.Edit, guides *guides) compute.Draw {
	if s.knows(o) {
		return compute.Draw{Given: true, Token: s.tokens[o.position+1]}
	}
	excluded := guides.excluded[:0]
	if !s.mayEnd(o.drafts) {
		excluded = append(excluded, s.request.stopIDs...)
	}
	var mask []uint32
	if g := s.guide; g != nil {
		p := &g.ahead[o.drafts]
		switch {
		case len(p.forced) > 0:
			return compute.Draw{Given: true, Token: p.forced[0]}
		case !p.masked():
			excluded = g.excluded(excluded, p)
		case !p.ended:
			mask = guides.mask()
			g.slots[o.drafts] = mask
		}
	}
	guides.excluded = excluded
	d := s.sampler.Next(o.position+1, s.draft.Drafts[:o.drafts], excluded, memory)
	d.Mask = mask
	return d
}

// tops returns how many of the highest logits are needed for the log-probabilities of an output's
// token and of its alternatives; 0 if none are requested.
func (s *sequence) tops(position int) int {
	switch {
	case s.scoresPrompt(position):
		return max(1, s.request.promptScores.top)
	case s.request.scores:
		return max(1, s.scores.top)
	}
	return 0
}

func (d *drawer) begin(step, top int) {
	d.step, d.top, d.drawn, d.best, d.logits = step, top, nil, nil, nil
}

// tokenOf returns the token of an output. Those of all outputs are read together, since some
// devices take long for each read.
func (d *drawer) tokenOf(o output) (sample.Drawn, error) {
	if d.drawn == nil {
		d.drawn = d.model.Drawn(d.step)
	}
	return sample.ReadDrawn(d.drawn[o.row])
}

// take uses an output: it records the log-probability of the next token, if it is known, or
// generates the answer's next token.
func (d *drawer) take(o output) error {
	s, r := o.seq, o.seq.request
	token, err := d.tokenOf(o)
	if err != nil {
		return err
	}
	if s.scoresPrompt(o.position) {
		r.count(1 + r.promptScores.top)
		return d.score(&r.promptScores, token, o)
	}
	known := s.knows(o)
	if r.scores {
		r.count(1 + s.scores.top)
		if err := d.score(&s.scores, token, o); err != nil {
			return err
		}
	}
	if !known {
		s.accept(token.ID, s.mayEnd(0))
	}
	return nil
}

// score records the log-probability of an output's token. If it needs more logits than the batch
// has found, it reads all logits.
func (d *drawer) score(to *scores, token sample.Drawn, o output) error {
	if o.top <= d.top {
		if d.best == nil {
			d.best = d.model.Best(d.step)
		}
		return to.addBest(token.ID, token.Logit, sample.ReadBest(d.best[o.row], d.top))
	}
	if o.edited {
		return generation.BadRequest("top_logprobs above %d cannot be combined with penalties, logit_bias, min_tokens or a constraint", model.MaxTop)
	}
	if d.logits == nil {
		d.logits = d.model.Logits()
	}
	return to.add(token.ID, d.logits[o.row])
}

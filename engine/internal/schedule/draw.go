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

// next returns how the step chooses the token after an output. An output of the prompt has the
// prompt's next token.
func (s *sequence) next(o output, memory *[]compute.Edit) compute.Draw {
	if s.scoresPrompt(o.position) {
		return compute.Draw{Given: true, Token: s.request.prompt[o.position+1]}
	}
	var excluded []int32
	if !s.mayEnd(o.drafts) {
		excluded = s.request.stopIDs
	}
	return s.sampler.Next(o.position+1, s.draft.Drafts[:o.drafts], excluded, memory)
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

// take uses an output: it records the log-probability of the prompt's next token, or generates the
// answer's next token.
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
	if r.scores {
		r.count(1 + s.scores.top)
		if err := d.score(&s.scores, token, o); err != nil {
			return err
		}
	}
	s.accept(token.ID, s.mayEnd(0))
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
		return generation.BadRequest("top_logprobs above %d cannot be combined with penalties, logit_bias or min_tokens", model.MaxTop)
	}
	if d.logits == nil {
		d.logits = d.model.Logits()
	}
	return to.add(token.ID, d.logits[o.row])
}

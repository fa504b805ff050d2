package schedule

import (
	"github.com/ingot-run/ingot/engine/internal/sample"
	"github.com/ingot-run/ingot/engine/model"
)

// drawer turns the logits of a step into tokens. It is the only place that reads logits and
// samples: a backend that draws tokens itself replaces draw.
type drawer struct {
	model   model.Model
	scratch sample.Scratch

	step   int         // the step that is being delivered: its index among the steps in flight
	top    int         // Batch.Top of the step
	logits [][]float32 // [outputs][vocabulary]; nil until an output needs them
	best   [][]float32 // [outputs] the highest logits; nil until an output needs them
}

type output struct {
	seq      *sequence
	position int
	drafts   int // number of drafts up to the row's position, including it
	row      int // index among the outputs of a step
	top      int // number of highest logits that the sequence needs from the row; 0 for all logits
}

// needs returns how many of the highest logits suffice to choose the token after the given number
// of drafts and to report its log-probabilities. It returns 0 if all logits are needed, or if more
// than limit are needed.
func (s *sequence) needs(drafts, limit int) int {
	if !s.mayEnd(drafts) && len(s.request.stopIDs) > 0 {
		return 0
	}
	n := s.sampler.Needs()
	if n > 0 && s.request.scores {
		n = max(n, s.scores.top)
	}
	if n > limit {
		return 0
	}
	return n
}

func (d *drawer) begin(step, top int) { d.step, d.top, d.logits, d.best = step, top, nil, nil }

// allLogits returns all logits of an output. Few outputs need them, and some devices are slow to
// return them, so they are read when the first output of a step needs them. They are not available
// if several steps are in flight.
func (d *drawer) allLogits(o output) []float32 {
	if d.logits == nil {
		d.logits = d.model.Logits()
	}
	return d.logits[o.row]
}

// bestLogits returns the highest logits of an output. Those of all outputs are read together, since
// some devices take long for each read.
func (d *drawer) bestLogits(o output) sample.Best {
	if d.best == nil {
		d.best = d.model.Best(d.step)
	}
	return sample.ReadBest(d.best[o.row], d.top)
}

// take uses an output: it records the log-probability of the prompt's next token, or generates the
// answer's next token.
func (d *drawer) take(o output) error {
	s, r := o.seq, o.seq.request
	if s.scoresPrompt(o.position) {
		r.count(1 + r.promptScores.top)
		return r.promptScores.add(r.prompt[o.position+1], d.allLogits(o))
	}
	if r.scores {
		r.count(1 + s.scores.top)
	}
	mayEnd := s.mayEnd(0)
	if !mayEnd {
		s.sampler.Exclude(r.stopIDs)
		defer s.sampler.Exclude(nil)
	}
	id, err := d.draw(o)
	if err == nil {
		s.accept(id, mayEnd)
	}
	return err
}

// draw samples the next token and records its log-probability. Only the request decides whether all
// logits or the highest ones are used, so the reported log-probabilities do not depend on the rest
// of the batch.
func (d *drawer) draw(o output) (id int32, err error) {
	s := o.seq
	if o.top == 0 {
		if id, err = s.sampler.Sample(d.allLogits(o), s.length(), &d.scratch); err == nil && s.request.scores {
			err = s.scores.add(id, d.allLogits(o))
		}
		return id, err
	}
	best := d.bestLogits(o)
	index, ok, err := s.sampler.SampleBest(best, s.length(), &d.scratch)
	if err != nil {
		return 0, err
	}
	var logit float32
	if ok {
		id, logit = best.ID(index), best.Logit(index)
	} else if id, err = s.sampler.Sample(d.allLogits(o), s.length(), &d.scratch); err == nil {
		logit = d.allLogits(o)[id]
	}
	if err == nil && s.request.scores {
		err = s.scores.addBest(id, logit, best)
	}
	return id, err
}

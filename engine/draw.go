package engine

import "github.com/ingot-run/ingot/engine/sample"

// given is what a step gives for an output.
type given struct {
	logits []float32   // all of them; nil where steps ran without a look at their tokens in between
	best   sample.Best // the highest, where the output needs no more
}

// given is what the given one of the steps that were computed together has for an output. logits are of a single step.
func (l *loop) given(o output, logits [][]float32, step int) (g given) {
	if logits != nil {
		g.logits = logits[o.row]
	}
	if o.needs > 0 {
		g.best = sample.ReadBest(l.model.Best(step)[o.row], l.batch.Top)
	}
	return g
}

// needs is how many of the highest logits settle the token after the known ones and some drafts, and what is told of it; 0
// where it takes all logits, or more than most.
func (s *sequence) needs(drafts, most int) int {
	s.bar(drafts)
	n := s.sampler.Needs()
	if n == 0 {
		return 0
	}
	if s.call.scores {
		n = max(n, s.scores.top)
	}
	if n > most {
		return 0
	}
	return n
}

// bar rules out what would end the answer where it is too short for that, drafts counted in, and tells whether it may end.
func (s *sequence) bar(drafts int) (free bool) {
	if len(s.answer())+drafts < s.call.minTokens {
		s.sampler.Bar(s.call.stopIDs)
		return false
	}
	s.sampler.Bar(nil)
	return true
}

// draw draws the next token and scores it. What is told of a token depends on its request alone: either the highest logits
// are used for it, in whatever company, or all are.
func (s *sequence) draw(o output, g given, w *sample.Scratch) (id int32, err error) {
	if o.needs == 0 {
		if id, err = s.sampler.Sample(g.logits, s.length(), w); err == nil && s.call.scores {
			err = s.scores.add(id, g.logits)
		}
		return id, err
	}
	place, ok, err := s.sampler.SampleBest(g.best, s.length(), w)
	if err != nil {
		return 0, err
	}
	var logit float32
	if ok {
		id, logit = g.best.ID(place), g.best.Logit(place)
	} else if id, err = s.sampler.Sample(g.logits, s.length(), w); err == nil {
		logit = g.logits[id]
	}
	if err == nil && s.call.scores {
		err = s.scores.addBest(id, logit, g.best)
	}
	return id, err
}

package schedule

import "github.com/ingot-run/ingot/engine/sample"

// result is what a step gives for an output.
type result struct {
	logits []float32   // all of them; nil if the step was one of several in flight
	best   sample.Best // the highest, if the output needs no more
}

// result is what the given one of the steps that were computed together gives for an output. logits are of a single step.
func (l *loop) result(o output, logits [][]float32, step int) (r result) {
	if logits != nil {
		r.logits = logits[o.row]
	}
	if o.top > 0 {
		r.best = sample.ReadBest(l.Model.Best(step)[o.row], l.batch.Top)
	}
	return r
}

// needs is how many of the highest logits decide the token after the known ones and some drafts, and its reported
// log-probabilities; 0 if that takes all logits, or more than limit.
func (s *sequence) needs(drafts, limit int) int {
	s.exclude(drafts)
	n := s.sampler.Needs()
	if n == 0 {
		return 0
	}
	if s.call.scores {
		n = max(n, s.scores.top)
	}
	if n > limit {
		return 0
	}
	return n
}

// exclude rules out the stop ids while the answer, drafts included, is shorter than the request wants. It reports whether the
// answer may end.
func (s *sequence) exclude(drafts int) (mayEnd bool) {
	if len(s.answer())+drafts < s.call.minTokens {
		s.sampler.Exclude(s.call.stopIDs)
		return false
	}
	s.sampler.Exclude(nil)
	return true
}

// draw draws the next token and scores it. Whether the highest logits or all of them are used depends on the request alone,
// so that what is reported about a token does not depend on the batch.
func (s *sequence) draw(o output, r result, w *sample.Scratch) (id int32, err error) {
	if o.top == 0 {
		if id, err = s.sampler.Sample(r.logits, s.Length(), w); err == nil && s.call.scores {
			err = s.scores.add(id, r.logits)
		}
		return id, err
	}
	index, ok, err := s.sampler.SampleBest(r.best, s.Length(), w)
	if err != nil {
		return 0, err
	}
	var logit float32
	if ok {
		id, logit = r.best.ID(index), r.best.Logit(index)
	} else if id, err = s.sampler.Sample(r.logits, s.Length(), w); err == nil {
		logit = r.logits[id]
	}
	if err == nil && s.call.scores {
		err = s.scores.addBest(id, logit, r.best)
	}
	return id, err
}

package schedule

import (
	"slices"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/internal/sample"
)

// output is a row that reaches the output head.
type output struct {
	seq      *sequence
	position int
	drafts   int // number of drafts up to the row's position, including it
	row      int // index among the outputs of a step
	top      int // number of highest logits that the sequence needs from the row; 0 for all logits
}

// needs returns how many of the highest logits suffice to choose the token after the given number of drafts and to report its
// log-probabilities. It returns 0 if all logits are needed, or if more than limit are needed.
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

// exclude forbids the stop ids while the answer with the given number of drafts is shorter than the request's minimum. It reports whether
// the answer may end.
func (s *sequence) exclude(drafts int) (mayEnd bool) {
	if len(s.answer())+drafts < s.call.minTokens {
		s.sampler.Exclude(s.call.stopIDs)
		return false
	}
	s.sampler.Exclude(nil)
	return true
}

// take uses the result of an output: it records the log-probability of the prompt's next token, or generates the answer's next token.
func (s *sequence) take(o output, r result, w *sample.Scratch) error {
	if s.scoresPrompt(o.position) {
		s.call.count(1 + s.call.promptScores.top)
		return s.call.promptScores.add(s.call.prompt[o.position+1], r.logits())
	}
	if s.call.scores {
		s.call.count(1 + s.scores.top)
	}
	mayEnd := s.exclude(0)
	id, err := s.draw(o, r, w)
	if err != nil {
		return err
	}
	s.accept(id, mayEnd)
	return nil
}

// accept adds a token to the answer. mayEnd reports whether the answer is long enough to end with this token.
func (s *sequence) accept(id int32, mayEnd bool) {
	s.sampler.Accept(id)
	s.Tokens = append(s.Tokens, id)
	s.extend(id, mayEnd)
}

// draw samples the next token and records its log-probability. Only the request decides whether all logits or the highest ones are used, so
// the reported log-probabilities do not depend on the rest of the batch.
func (s *sequence) draw(o output, r result, w *sample.Scratch) (id int32, err error) {
	if o.top == 0 {
		if id, err = s.sampler.Sample(r.logits(), s.Length(), w); err == nil && s.call.scores {
			err = s.scores.add(id, r.logits())
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
	} else if id, err = s.sampler.Sample(r.logits(), s.Length(), w); err == nil {
		logit = r.logits()[id]
	}
	if err == nil && s.call.scores {
		err = s.scores.addBest(id, logit, r.best)
	}
	return id, err
}

// extend adds a token to the text and decides whether the sequence ends with it. mayEnd is false while the answer is shorter than the
// request's minimum.
func (s *sequence) extend(id int32, mayEnd bool) {
	if mayEnd && slices.Contains(s.call.stopIDs, id) {
		s.end(generation.FinishStop)
		return
	}
	s.text.text = s.decoder.Append(s.text.text, id)
	if i := s.text.findStop(mayEnd); i >= 0 {
		s.reason, s.stopReason = generation.FinishStop, string(s.text.stops[i])
		return
	}
	if s.Length() == s.call.limit {
		s.end(generation.FinishLength)
	}
}

// end ends the sequence. If the decoder holds the bytes of an unfinished character, they become text.
func (s *sequence) end(reason generation.FinishReason) {
	s.reason = reason
	s.text.text = append(s.text.text, s.decoder.Flush()...)
}

package schedule

import (
	"context"
	"slices"
	"time"

	"github.com/ingot-run/ingot/engine/draft"
	"github.com/ingot-run/ingot/engine/sample"
	"github.com/ingot-run/ingot/engine/tokenizer"
	"github.com/ingot-run/ingot/generation"
)

// call is one call of Generate. Its first part is set before it is given to the loop, and is only read from then on; the
// second belongs to the loop until done is closed. It holds nothing of the caller's, who may return before the loop notices.
type call struct {
	ctx          context.Context
	prompt       []int32
	limit        int // maximum number of tokens of a sequence, the prompt's included
	minTokens    int
	stopIDs      []int32
	choices      int
	scores       bool // of the answers' tokens
	scoresPrompt bool
	promptOnly   bool
	timed        bool
	start        time.Time
	done         chan struct{} // closed once all sequences have ended, or err is set and none is left

	seqs         []*sequence // one a choice; one in all if nothing is generated
	open         int         // sequences that have not ended
	err          error       // why the call failed
	promptScores scores      // of the prompt's tokens from the second on
	figures      figures
}

// answerRoom is the number of tokens of an answer for which memory is set aside at once.
const answerRoom = 1024

// newCall makes the sequences of a request. It copies the prompt.
func (s *Scheduler) newCall(ctx context.Context, start time.Time, prompt []int32, req *generation.Request) (*call, error) {
	limit, err := s.limit(req, len(prompt))
	if err != nil {
		return nil, err
	}
	c := &call{
		ctx: ctx, start: start, done: make(chan struct{}),
		prompt: slices.Clone(prompt), limit: limit, minTokens: req.MinTokens, choices: req.NumChoices(),
		scores: req.Logprobs, scoresPrompt: req.PromptLogprobs, promptOnly: req.PromptOnly, timed: req.Timed,
	}
	if !req.IgnoreEOS {
		c.stopIDs = append(c.stopIDs, s.stopIDs...)
	}
	c.stopIDs = append(c.stopIDs, req.StopIDs...)
	c.promptScores.top = req.TopLogprobs

	n := c.choices
	if c.promptOnly {
		n = 1
	}
	for i := range n {
		tokens := append(make([]int32, 0, min(limit, len(prompt)+answerRoom)), prompt...)
		c.seqs = append(c.seqs, &sequence{
			Sequence: draft.Sequence{Tokens: tokens, Limit: limit, StopIDs: c.stopIDs},
			call:     c,
			choice:   i,
			sampler:  sample.New(req.Sampling, i, c.prompt),
			decoder:  continuation(s.tokenizer, c.prompt),
			text:     newAnswerText(req.Stop),
			scores:   scores{top: req.TopLogprobs},
		})
	}
	if !c.promptOnly || c.scoresPrompt && len(c.prompt) > 1 {
		c.open = n // otherwise there is nothing to compute
	}
	return c, nil
}

// limit is the maximum number of tokens of each sequence of a request, the prompt's included.
func (s *Scheduler) limit(req *generation.Request, prompt int) (int, error) {
	switch {
	case prompt > s.context:
		return 0, generation.BadRequest("the prompt has %d tokens; the context holds %d", prompt, s.context)
	case req.PromptOnly:
		return prompt, nil
	case prompt == s.context:
		return 0, generation.BadRequest("the prompt has %d tokens and fills the context, so that nothing can be generated", prompt)
	case req.MaxTokens == 0 || req.MaxTokens > s.context-prompt:
		return s.context, nil
	}
	return prompt + req.MaxTokens, nil
}

// continuation returns a decoder of what follows a prompt: a space that begins it is part of the text.
func continuation(t *tokenizer.Tokenizer, prompt []int32) *tokenizer.Decoder {
	d := t.NewDecoder()
	for _, id := range slices.Backward(prompt) {
		if len(t.Bytes(id)) > 0 {
			d.Next(id)
			break
		}
	}
	return d
}

// fail ends the call with an error; the first one counts.
func (c *call) fail(err error) {
	if c.err == nil {
		c.err = err
	}
}

// completion is the outcome of a call that is done.
func (c *call) completion(t *tokenizer.Tokenizer) generation.Completion {
	out := generation.Completion{PromptTokens: c.prompt, Choices: make([]generation.Choice, c.choices), Stats: c.stats()}
	if c.scoresPrompt {
		out.PromptLogprobs = append(out.PromptLogprobs, named(t, c.prompt[0]))
		out.PromptLogprobs = append(out.PromptLogprobs, c.promptScores.logprobs(t)...)
	}
	for i := range out.Choices {
		if c.promptOnly {
			out.Choices[i].FinishReason = generation.FinishLength
			continue
		}
		s := c.seqs[i]
		out.Choices[i] = generation.Choice{Text: string(s.text.text), Tokens: s.answer(), FinishReason: s.reason, StopReason: s.stopReason, Times: s.times}
		if c.scores {
			out.Choices[i].Logprobs = s.scores.logprobs(t)
		}
	}
	return out
}

// stats is the figures of a call that is done.
func (c *call) stats() generation.Stats {
	f := &c.figures
	s := generation.Stats{PromptTokens: len(c.prompt), CachedTokens: f.cached, Total: time.Since(c.start), Steps: f.steps}
	for _, seq := range c.seqs {
		s.CompletionTokens += len(seq.answer())
		s.DraftTokens += seq.Total.Drafted
		s.AcceptedTokens += seq.Total.Accepted
	}
	if !f.first.IsZero() {
		s.TTFT = f.first.Sub(c.start)
		s.Prefill = f.first.Sub(f.admitted)
		s.Decode = f.last.Sub(f.first)
	}
	if f.steps > 0 {
		s.BatchMean = float64(f.batchSizes) / float64(f.steps)
	}
	return s
}

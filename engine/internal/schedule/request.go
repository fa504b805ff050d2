package schedule

import (
	"context"
	"slices"
	"time"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/internal/draft"
	"github.com/ingot-run/ingot/engine/internal/sample"
	"github.com/ingot-run/ingot/engine/tokenizer"
)

// answerRoom is the number of tokens of an answer for which memory is set aside at once.
const answerRoom = 1024

// request is a call of Generate.
type request struct {
	call
	seqs []*sequence // one per choice, or a single one if nothing is generated
}

// newRequest makes a request and its sequences. It copies prompt, which has the prompt's ids. context is the maximum number of positions of
// a sequence, and start is when Generate was called.
func newRequest(ctx context.Context, t *tokenizer.Tokenizer, context int, start time.Time, prompt []int32, req *generation.Request) (*request, error) {
	limit, err := lengthLimit(context, len(prompt), req)
	if err != nil {
		return nil, err
	}
	r := &request{call: call{
		ctx: ctx, start: start, done: make(chan struct{}),
		prompt: slices.Clone(prompt), limit: limit, minTokens: req.MinTokens, choices: req.NumChoices(),
		scores: req.Logprobs, scoresPrompt: req.PromptLogprobs, promptOnly: req.PromptOnly, timed: req.Timed, interactive: req.Interactive,
	}}
	c := &r.call
	if !req.IgnoreEOS {
		c.stopIDs = append(c.stopIDs, t.StopIDs()...)
	}
	c.stopIDs = append(c.stopIDs, req.StopIDs...)
	c.promptScores.top = req.TopLogprobs

	n := c.choices
	if c.promptOnly {
		n = 1
	}
	r.addSequences(t, n, req)
	if !c.promptOnly || c.scoresPrompt && len(c.prompt) > 1 {
		c.open = n // stays 0 if there is nothing to compute
	}
	if p := req.Resume; p != nil && req.Resumable() && !r.resume(p) {
		r.addSequences(t, n, req)
	}
	if to := req.Progress.To; to != nil && req.Resumable() {
		c.reportEvery, c.nextReport = req.Progress.Every, start.Add(req.Progress.Every)
		c.report = func() { to(r.progress()) }
	}
	if req.Stream != nil {
		c.stream = newStream(r.seqs, t)
	}
	return r, nil
}

// addSequences makes the n sequences of a request, without answers.
func (r *request) addSequences(t *tokenizer.Tokenizer, n int, req *generation.Request) {
	c := &r.call
	sampler := sample.New(req.Sampling, 0, c.prompt)
	r.seqs = r.seqs[:0]
	for i := range n {
		r.seqs = append(r.seqs, &sequence{
			Sequence: draft.Sequence{Tokens: slices.Clip(c.prompt), Limit: c.limit, StopIDs: c.stopIDs},
			call:     c,
			choice:   i,
			sampler:  sampler.ForChoice(i),
			decoder:  continuation(t, c.prompt),
			text:     newAnswerText(req.Stop),
			scores:   scores{top: req.TopLogprobs},
		})
	}
}

// lengthLimit returns the maximum number of tokens of each sequence of a request, prompt included.
func lengthLimit(context, prompt int, req *generation.Request) (int, error) {
	switch {
	case prompt > context:
		return 0, generation.BadRequest("the prompt has %d tokens; the context holds %d", prompt, context)
	case req.PromptOnly:
		return prompt, nil
	case prompt == context:
		return 0, generation.BadRequest("the prompt has %d tokens and fills the context, so that nothing can be generated", prompt)
	case req.MaxTokens == 0 || req.MaxTokens > context-prompt:
		return context, nil
	}
	return prompt + req.MaxTokens, nil
}

// continuation returns a decoder for the tokens after a prompt. Unlike a decoder at the start of a text, it does not drop a leading space.
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

// completion returns the answers and statistics of a finished request.
func (r *request) completion(t *tokenizer.Tokenizer) generation.Completion {
	n := newNames(t)
	out := generation.Completion{PromptTokens: r.prompt, Choices: make([]generation.Choice, r.choices), Stats: r.stats()}
	if r.scoresPrompt {
		out.PromptLogprobs = append(out.PromptLogprobs, n.of(r.prompt[0]))
		out.PromptLogprobs = append(out.PromptLogprobs, r.promptScores.logprobs(n)...)
	}
	for i := range out.Choices {
		if r.promptOnly {
			out.Choices[i].FinishReason = generation.FinishLength
			continue
		}
		s := r.seqs[i]
		out.Choices[i] = generation.Choice{Text: string(s.text.text), Tokens: s.answer(), FinishReason: s.reason, StopReason: s.stopReason, Times: s.times}
		if r.scores {
			out.Choices[i].Logprobs = s.scores.logprobs(n)
		}
	}
	return out
}

// stats returns the figures of a finished request.
func (r *request) stats() generation.Stats {
	f := &r.figures
	s := generation.Stats{PromptTokens: len(r.prompt), CachedTokens: f.cached, ResumedTokens: r.resumed, Total: time.Since(r.start), Steps: f.steps}
	for _, seq := range r.seqs {
		s.CompletionTokens += len(seq.answer())
		s.DraftTokens += seq.Total.Drafted
		s.AcceptedTokens += seq.Total.Accepted
	}
	if !f.first.IsZero() {
		s.TTFT = f.first.Sub(r.start)
		s.Prefill = f.first.Sub(f.admitted)
		s.Decode = f.last.Sub(f.first)
	}
	if f.steps > 0 {
		s.BatchMean = float64(f.batchSizes) / float64(f.steps)
	}
	return s
}

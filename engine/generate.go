package engine

import (
	"context"

	"github.com/ingot-run/ingot/generation"
)

// Generate answers a request. It is safe to call from many goroutines, whose requests share steps; none changes another's
// tokens. It returns ctx's error as soon as ctx is done, an error that wraps ErrBadRequest where the request can never be
// answered, and ErrClosed where the engine was closed before it was done.
func (e *Engine) Generate(ctx context.Context, req generation.Request) (generation.Completion, error) {
	if err := ctx.Err(); err != nil {
		return generation.Completion{}, err
	}
	c, err := e.newCall(ctx, &req)
	if err != nil {
		return generation.Completion{}, err
	}
	if c.open > 0 {
		if err := e.inbox.put(c); err != nil {
			return generation.Completion{}, err
		}
		select {
		case <-c.done:
		case <-ctx.Done():
			return generation.Completion{}, ctx.Err()
		}
	}
	if c.err != nil {
		return generation.Completion{}, c.err
	}
	return e.completion(c, &req), nil
}

// completion gathers what a call that is done has become.
func (e *Engine) completion(c *call, req *generation.Request) generation.Completion {
	out := generation.Completion{PromptTokens: c.prompt, Choices: make([]generation.Choice, req.NumChoices())}
	if c.scoresPrompt {
		out.PromptLogprobs = append(out.PromptLogprobs, named(e.tokenizer, c.prompt[0]))
		out.PromptLogprobs = append(out.PromptLogprobs, c.promptScores.logprobs(e.tokenizer)...)
	}
	for i := range out.Choices {
		if c.promptOnly {
			out.Choices[i].FinishReason = generation.FinishLength
			continue
		}
		s := c.seqs[i]
		out.Choices[i] = generation.Choice{Text: string(s.text.text), Tokens: s.answer(), FinishReason: s.reason, StopReason: s.stopReason, Times: s.times}
		if c.scores {
			out.Choices[i].Logprobs = s.scores.logprobs(e.tokenizer)
		}
	}
	out.Stats = c.stats()
	return out
}

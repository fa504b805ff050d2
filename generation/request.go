// Package generation has the nouns of generating text: what a caller asks of the engine and what comes back. It imports no
// engine, so that producers and the wire format can use it.
package generation

import (
	"errors"
	"fmt"
	"time"

	"github.com/ingot-run/ingot/ordered"
)

// Errors that a caller decides on. A request that wraps ErrBadRequest will fail the same way however often it is tried.
var (
	// ErrBadRequest says that the request itself cannot be answered: an empty prompt, an id outside the vocabulary, a
	// prompt longer than the context, a template that refuses the messages, a setting out of range.
	ErrBadRequest = errors.New("bad request")
	// ErrClosed says that the engine was closed before the request was done.
	ErrClosed = errors.New("engine is closed")
)

// Request is one prompt and how to answer it. Exactly one of Chat, Text and Tokens is the prompt.
type Request struct {
	// Chat is the context of the model's chat template: "messages", and optionally "tools" and whatever else the template
	// reads. The engine adds bos_token and eos_token and, where absent, add_generation_prompt (true), tools and documents
	// (none). It is not changed.
	Chat   *ordered.Object
	Text   string  // a prompt as text; BOS is added where the model wants it
	Tokens []int32 // a prompt as ids, used as they are
	// Date is the day that a chat template prints; zero for today. A caller that may try again gives the same one again.
	Date time.Time

	Sampling  Sampling
	N         int      // choices to generate; 0 is 1
	MaxTokens int      // tokens a choice; 0 for as many as the context holds
	MinTokens int      // tokens before which no stop is taken: stop ids cannot be drawn, stop strings are passed over
	Stop      []string // strings that end a choice; they are left out of its text
	StopIDs   []int32  // ids that end a choice, beside the model's own
	IgnoreEOS bool     // the model's own stop ids do not end a choice

	// Logprobs asks for each generated token's log-probability and that of the TopLogprobs most likely ones.
	Logprobs    bool
	TopLogprobs int
	// PromptLogprobs asks the same of the prompt's tokens.
	PromptLogprobs bool
	// Timed asks for the time of each generated token.
	Timed bool
	// PromptOnly generates nothing: the choices are empty, and their finish reason is FinishLength.
	PromptOnly bool
}

// maxChoices bounds N.
const maxChoices = 128

// Validate reports the first setting that is out of range for a vocabulary of the given size. It does not look at the prompt.
func (r *Request) Validate(vocab int) error {
	switch {
	case r.N < 0 || r.N > maxChoices:
		return BadRequest("n is %d; it must be from 1 to %d", r.N, maxChoices)
	case r.MaxTokens < 0:
		return BadRequest("max_tokens is %d; it must be at least 1", r.MaxTokens)
	case r.MinTokens < 0:
		return BadRequest("min_tokens is %d; it must be at least 0", r.MinTokens)
	case r.MaxTokens > 0 && r.MinTokens > r.MaxTokens:
		return BadRequest("min_tokens is %d, more than max_tokens, %d", r.MinTokens, r.MaxTokens)
	case r.TopLogprobs < 0 || r.TopLogprobs > vocab:
		return BadRequest("top_logprobs is %d; the vocabulary has %d tokens", r.TopLogprobs, vocab)
	}
	for i, s := range r.Stop {
		if s == "" {
			return BadRequest("stop string %d is empty", i+1)
		}
	}
	for _, id := range r.StopIDs {
		if id < 0 || int(id) >= vocab {
			return BadRequest("stop token %d is not in the vocabulary, which has ids 0 to %d", id, vocab-1)
		}
	}
	if err := r.Sampling.Validate(vocab); err != nil {
		return fmt.Errorf("%w: %w", ErrBadRequest, err)
	}
	return nil
}

// NumChoices is the number of choices asked for.
func (r *Request) NumChoices() int { return max(r.N, 1) }

// BadRequest returns an error that wraps ErrBadRequest.
func BadRequest(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrBadRequest}, args...)...)
}

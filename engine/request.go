package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/ingot-run/ingot/engine/jinja"
	"github.com/ingot-run/ingot/engine/sample"
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
	Chat   *jinja.Object
	Text   string  // a prompt as text; BOS is added where the model wants it
	Tokens []int32 // a prompt as ids, used as they are
	// Date is the day that a chat template prints; zero for today. A caller that may try again gives the same one again.
	Date time.Time

	Sampling  sample.Params
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

// check reports the first setting that is out of range, whatever the prompt.
func (r *Request) check(vocab int) error {
	switch {
	case r.N < 0 || r.N > maxChoices:
		return badRequest("n is %d; it must be from 1 to %d", r.N, maxChoices)
	case r.MaxTokens < 0:
		return badRequest("max_tokens is %d; it must be at least 1", r.MaxTokens)
	case r.MinTokens < 0:
		return badRequest("min_tokens is %d; it must be at least 0", r.MinTokens)
	case r.MaxTokens > 0 && r.MinTokens > r.MaxTokens:
		return badRequest("min_tokens is %d, more than max_tokens, %d", r.MinTokens, r.MaxTokens)
	case r.TopLogprobs < 0 || r.TopLogprobs > vocab:
		return badRequest("top_logprobs is %d; the vocabulary has %d tokens", r.TopLogprobs, vocab)
	}
	for i, s := range r.Stop {
		if s == "" {
			return badRequest("stop string %d is empty", i+1)
		}
	}
	for _, id := range r.StopIDs {
		if id < 0 || int(id) >= vocab {
			return badRequest("stop token %d is not in the vocabulary, which has ids 0 to %d", id, vocab-1)
		}
	}
	if err := r.Sampling.Validate(vocab); err != nil {
		return fmt.Errorf("%w: %w", ErrBadRequest, err)
	}
	return nil
}

// choices is the number of choices asked for.
func (r *Request) choices() int { return max(r.N, 1) }

func badRequest(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrBadRequest}, args...)...)
}

// FinishReason is why a choice ended, in OpenAI's words.
type FinishReason string

// The finish reasons.
const (
	FinishStop   FinishReason = "stop"   // a stop id or a stop string
	FinishLength FinishReason = "length" // MaxTokens or the end of the context
)

// Completion is what a request became.
type Completion struct {
	PromptTokens []int32
	// PromptLogprobs has one entry a prompt token, where asked for. The first has neither Logprob nor Top, since nothing
	// comes before it.
	PromptLogprobs []TokenLogprob
	Choices        []Choice // Request.N
	Stats          Stats
}

// Choice is one generated answer.
type Choice struct {
	Text         string
	Tokens       []int32 // all generated ids, among them a stop id and those of a stop string, which Text leaves out
	FinishReason FinishReason
	// StopReason is the stop string that ended the choice. Empty after FinishStop, the last of Tokens is a stop id.
	StopReason string
	Logprobs   []TokenLogprob // one a token of Tokens, where asked for
	Times      []time.Time    // likewise; tokens of one step have one time, and steps that are waited for together share it evenly
}

// TokenLogprob is a token with its log-probability under the model, before bias, penalties and temperature.
type TokenLogprob struct {
	ID      int32
	Text    string // may hold U+FFFD where the token is part of a character; Bytes is exact
	Bytes   []byte // the text's, or those of the name of a control token
	Logprob float64
	Top     []TokenLogprob // most likely first, without Top of their own
}

// Stats is a request's figures.
type Stats struct {
	PromptTokens     int
	CachedTokens     int           // prompt tokens that were found in the cache and not computed
	CompletionTokens int           // over all choices
	TTFT             time.Duration // from the call of Generate to the first generated token
	Total            time.Duration // of the call
	Prefill          time.Duration // from admission to the first generated token
	Decode           time.Duration // from the first generated token to the last
	Steps            int           // steps that the request took part in
	DraftTokens      int
	AcceptedTokens   int
	BatchMean        float64 // mean number of sequences in its steps, its own among them
}

// Package engine turns prompts into text: it tokenises requests, runs many of them at once through a model in batched
// steps, samples, and finishes each with its figures.
package engine

import (
	"errors"
	"time"

	"github.com/ingot-run/ingot/engine/chat"
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
	// reads. The engine adds bos_token, eos_token and, where absent, add_generation_prompt. It is not changed.
	Chat   *chat.Object
	Text   string  // a prompt as text; BOS is added where the model wants it
	Tokens []int32 // a prompt as ids, used as they are

	Sampling  sample.Params
	N         int      // choices to generate, at least 1
	MaxTokens int      // tokens a choice; 0 for as many as the context holds
	MinTokens int      // tokens before which no stop is taken
	Stop      []string // strings that end a choice; they are left out of its text
	StopIDs   []int32  // ids that end a choice, beside the model's own
	IgnoreEOS bool     // the model's own stop ids do not end a choice

	// Logprobs asks for each generated token's log-probability and that of the TopLogprobs most likely ones.
	Logprobs    bool
	TopLogprobs int
	// PromptLogprobs asks the same of the prompt's tokens. The first has none, since nothing comes before it.
	PromptLogprobs bool
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
	PromptTokens   []int32
	PromptLogprobs []TokenLogprob // one a prompt token, where asked for
	Choices        []Choice
	Stats          Stats
}

// Choice is one generated answer.
type Choice struct {
	Text         string
	Tokens       []int32 // all generated ids, the stop id included
	FinishReason FinishReason
	StopReason   string         // the stop string that ended it, or empty
	Logprobs     []TokenLogprob // one a token of Text, where asked for
}

// TokenLogprob is a token with its log-probability under the model, before temperature and penalties.
type TokenLogprob struct {
	ID      int32
	Text    string // may hold U+FFFD where the token is part of a character; Bytes is exact
	Bytes   []byte
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
	BatchMean        float64 // mean number of sequences in its steps
}

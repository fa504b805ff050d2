// Package generation defines requests to the engine and their completions. It does not import the
// engine, so that the wire format and producers do not depend on an engine.
package generation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ingot-run/ingot/internal/ordered"
)

// Errors that callers distinguish. If an error wraps ErrBadRequest, the request would fail in the
// same way at every attempt.
var (
	// ErrBadRequest means that the request itself cannot be answered: an empty prompt, an id
	// outside the vocabulary, a prompt longer than the context, messages that the chat template
	// refuses, a setting out of range.
	ErrBadRequest = errors.New("bad request")
	// ErrClosed means that the engine was closed before the request was done.
	ErrClosed = errors.New("engine is closed")
	// ErrEngineFailed means that the engine failed and stopped, because its state cannot be trusted
	// any more. The request is not necessarily the cause: another process should try it.
	ErrEngineFailed = errors.New("engine has failed")
	// ErrNotFinite means that a logit is a NaN or +Inf, or that all are -Inf. Usually, the model
	// file is broken or a step of the device failed. Single logits of -Inf are those of tokens that
	// are never generated.
	ErrNotFinite = errors.New("logits are not finite")
)

// Request is a prompt with the settings for its answer. Exactly one of Chat, Text and Tokens is the
// prompt.
type Request struct {
	// Chat has the variables of the model's chat template: "messages" and others that the template
	// reads. The engine adds bos_token, eos_token, the Tools and, if absent, add_generation_prompt
	// (true), tools and documents (none). The engine does not modify the object.
	Chat *ordered.Object
	Text string // a prompt as text; the engine adds BOS if the model expects it
	// Literal encodes the texts of control tokens in Text, or in messages, like other text.
	// LiteralParts does so in parts of Text: pairs of offsets in bytes, in ascending order.
	Literal      bool
	LiteralParts [][2]int
	// Prefix makes a prompt as text begin with a token that is not part of it, even if the model
	// expects no BOS: with BOS, or with EOS if the model has no BOS. The first token of the text
	// then has a log-probability too.
	Prefix bool
	Tokens []int32 // a prompt as token ids; the engine adds nothing
	// Date is the day that a chat template prints; zero means today. A retry of the request should
	// set the same date, so that the prompt stays the same.
	Date time.Time

	// Interactive means that a person waits for the answer. An interactive request is admitted and
	// computed before others. If too many sequences run or too few pages are free, other requests
	// are preempted for it. They keep their tokens and compute their part of the KV cache again.
	Interactive bool

	Sampling  Sampling
	N         int      // number of choices to generate, at most 128; 0 means 1
	MaxTokens int      // maximum number of tokens of a choice; 0 for as many as fit into the context
	MinTokens int      // until a choice has this many tokens, stop tokens are not sampled and stop strings are ignored
	Stop      []string // strings that end a choice; the text does not include them
	StopIDs   []int32  // ids of tokens that end a choice, in addition to the model's stop tokens
	IgnoreEOS bool     // the model's stop tokens do not end a choice

	// Constraint is the form that the answer must have; nil for none. It applies after the
	// reasoning of a model that reasons first.
	Constraint *Constraint

	// Tools are the functions that the answer to a chat may call. The model's chat template gets
	// them, so Chat must not have "tools". The engine finds the calls in the answer. It constrains
	// the answer if calls are required, if at most one is allowed, or if a tool is strict. It then
	// combines a schema in Constraint with the tools: the answer has either calls or that form.
	Tools      []Tool
	ToolChoice ToolChoice

	// Shown are control tokens whose names the text includes. Otherwise, they have no text.
	Shown []int32

	// Logprobs requests the log-probability of each generated token, and of the TopLogprobs most
	// likely tokens at its position.
	Logprobs    bool
	TopLogprobs int
	// PromptLogprobs requests the log-probability of each prompt token, and of the TopLogprobs most
	// likely tokens at its position.
	PromptLogprobs bool
	// Reserve, if not nil, reserves memory for a completion with log-probabilities. The engine
	// calls it before it makes the completion. bytes is the memory of the completion and of the
	// JSON made from it. Reserve waits until there is room, or returns an error, which ends the
	// request.
	Reserve func(ctx context.Context, bytes int64) error
	// Timed requests the time of each generated token: Choice.Times.
	Timed bool
	// PromptOnly computes the prompt and generates nothing. The choices are empty and have the
	// finish reason FinishLength.
	PromptOnly bool

	// Resume is the progress of an earlier attempt, from which the request continues. With nil, the
	// request starts after the prompt. Resume is ignored if it is the progress of a different
	// request, or if this request is not Resumable. Stats.ResumedTokens is the number of tokens
	// taken from it.
	Resume *Progress
	// Progress requests reports of the generated tokens, if Progress.To is not nil and the request
	// is Resumable.
	Progress Reporting
	// Stream, if not nil, receives the choices while they are generated, including tokens from
	// Resume. It is called on the goroutine that called Generate, and never after Generate has
	// returned. The engine does not wait for Stream: the next piece has everything that was
	// generated meanwhile. An error ends the request, and Generate returns it.
	Stream func(Piece) error
}

// Resumable reports whether another attempt can continue from the generated tokens alone. This is
// not possible if the completion also has log-probabilities or times.
func (r *Request) Resumable() bool {
	return !r.Logprobs && !r.PromptLogprobs && !r.Timed && !r.PromptOnly
}

const maxChoices = 128

// Validate returns an error for the first setting that is out of range for a vocabulary of the
// given size. It does not check the prompt.
func (r *Request) Validate(vocab int) error {
	switch {
	case r.N < 0 || r.N > maxChoices:
		return BadRequest("n is %d; it must be from 1 to %d", r.N, maxChoices)
	case r.MaxTokens < 0:
		return BadRequest("max_tokens is %d; it must be at least 1", r.MaxTokens)
	case r.MinTokens < 0:
		return BadRequest("min_tokens is %d; it must be at least 0", r.MinTokens)
	case r.MaxTokens > 0 && r.MinTokens > r.MaxTokens:
		return BadRequest("min_tokens is %d, which is more than max_tokens (%d)", r.MinTokens, r.MaxTokens)
	case r.TopLogprobs < 0 || r.TopLogprobs > vocab:
		return BadRequest("top_logprobs is %d; it must be from 0 to %d, the size of the vocabulary", r.TopLogprobs, vocab)
	}
	for i, s := range r.Stop {
		if s == "" {
			return BadRequest("string %d of stop is empty", i+1)
		}
	}
	for _, id := range r.StopIDs {
		if id < 0 || int(id) >= vocab {
			return BadRequest("stop_token_ids has id %d, but the vocabulary has ids 0 to %d", id, vocab-1)
		}
	}
	if err := r.Sampling.Validate(vocab); err != nil {
		return badRequestError{err}
	}
	if err := r.validateTools(); err != nil {
		return err
	}
	if r.Constraint != nil && r.IgnoreEOS {
		return BadRequest("ignore_eos cannot be combined with a constraint, whose answers end with a stop token")
	}
	if r.Constraint != nil {
		return r.Constraint.validate()
	}
	return nil
}

// NumChoices returns the number of requested choices.
func (r *Request) NumChoices() int { return max(r.N, 1) }

// BadRequest returns an error that matches ErrBadRequest in errors.Is. Its text is only the given
// reason, since results report the kind of error as a code.
func BadRequest(format string, args ...any) error {
	return badRequestError{fmt.Errorf(format, args...)}
}

type badRequestError struct{ error }

func (b badRequestError) Unwrap() error { return b.error }

func (badRequestError) Is(target error) bool { return target == ErrBadRequest }

// ErrPrompt means that a request cannot be answered because of its prompt, and ErrForm that it
// cannot be because of the form that its answer, or the arguments of a call, must have. Their
// errors match ErrBadRequest too.
var (
	ErrPrompt = errors.New("the prompt cannot be used")
	ErrForm   = errors.New("the form of the answer cannot be kept")
)

// BadPrompt is BadRequest for errors that also match ErrPrompt.
func BadPrompt(format string, args ...any) error {
	return causedError{badRequestError{fmt.Errorf(format, args...)}, ErrPrompt}
}

// BadForm is BadRequest for errors that also match ErrForm.
func BadForm(format string, args ...any) error {
	return causedError{badRequestError{fmt.Errorf(format, args...)}, ErrForm}
}

type causedError struct {
	badRequestError
	cause error
}

func (e causedError) Is(target error) bool { return target == e.cause || target == ErrBadRequest }

// ErrTooLong means that a prompt does not fit into the engine's context. Its errors match
// ErrBadRequest and ErrPrompt too.
var ErrTooLong = errors.New("the prompt is too long for the context")

// TooLong is BadRequest for errors that also match ErrTooLong.
func TooLong(format string, args ...any) error {
	return tooLongError{badRequestError{fmt.Errorf(format, args...)}}
}

type tooLongError struct{ badRequestError }

func (tooLongError) Is(target error) bool {
	return target == ErrTooLong || target == ErrPrompt || target == ErrBadRequest
}

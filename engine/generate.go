package engine

import (
	"context"
	"time"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/internal/chat"
	"github.com/ingot-run/ingot/engine/tokenizer"
)

const (
	// Of prompts with at least largeText bytes, at most maxLargeTexts are tokenised at once,
	// because tokenising takes much memory.
	largeText     = 64 << 10
	maxLargeTexts = 2
)

// Generate answers a request. It is safe for concurrent use. Concurrent requests share steps, but
// no request changes the tokens of another. Generate returns ctx's error as soon as ctx is done. It
// returns errors of req.Stream and req.Reserve unchanged. Other errors wrap
// generation.ErrBadRequest if the request can never be answered, generation.ErrClosed if the engine
// was closed before the request was done, generation.ErrEngineFailed if the engine failed and
// stopped, and generation.ErrNotFinite if logits are not finite. An error that wraps none of these
// comes from a failed step. Another attempt may succeed.
func (e *Engine) Generate(ctx context.Context, req generation.Request) (generation.Completion, error) {
	start := time.Now()
	if err := ctx.Err(); err != nil {
		return generation.Completion{}, err
	}
	if err := req.Validate(e.files.config.Vocab); err != nil {
		return generation.Completion{}, err
	}
	calls, err := e.toolCalls(&req)
	if err != nil {
		return generation.Completion{}, err
	}
	prompt, err := e.prompt(ctx, &req)
	if err != nil {
		return generation.Completion{}, err
	}
	if p := req.Resume; p != nil && !p.Fits(prompt, req.NumChoices(), e.files.config.Vocab) {
		req.Resume = nil
	}
	calls.begin(&req, prompt)
	reasoning := e.reasoning(&req, prompt)
	form, err := e.forms.form(ctx, &req, reasoning)
	if err != nil {
		return generation.Completion{}, err
	}
	done, err := e.scheduler.Generate(ctx, start, prompt, &req, form)
	if err == nil {
		reasoning.split(&done)
		calls.read(&done)
	}
	return done, err
}

// prompt returns the token ids of a request's prompt. It returns an error if the prompt is empty,
// or if an id is not in the vocabulary.
func (e *Engine) prompt(ctx context.Context, req *generation.Request) ([]int32, error) {
	given := 0
	for _, is := range []bool{req.Chat != nil, req.Text != "", len(req.Tokens) > 0} {
		if is {
			given++
		}
	}
	switch {
	case given == 0:
		return nil, generation.BadPrompt("the prompt is empty")
	case given > 1:
		return nil, generation.BadPrompt("more than one of messages, a text and token ids is given as the prompt: give one of them")
	case req.Chat != nil:
		return e.chat(ctx, req)
	case req.Text != "":
		ids, err := e.encode(ctx, req.Text, tokenizer.EncodeOptions{Special: !req.Literal, Literal: req.LiteralParts, BOS: e.files.tokenizer.AddsBOS()})
		if err != nil || !req.Prefix {
			return ids, err
		}
		return e.prefixed(ids)
	}
	vocab := e.files.config.Vocab
	for i, id := range req.Tokens {
		if id < 0 || int(id) >= vocab {
			return nil, generation.BadPrompt("token %d of the prompt has id %d, but the vocabulary has ids 0 to %d", i+1, id, vocab-1)
		}
	}
	return req.Tokens, nil
}

// chat returns the token ids of the prompt of a chat.
func (e *Engine) chat(ctx context.Context, req *generation.Request) (ids []int32, err error) {
	messages, mark := req.Chat, ""
	if req.Literal {
		if messages, mark, err = chat.Literal(ctx, req.Chat, e.files.tokenizer); err != nil {
			return nil, err
		}
	}
	text, err := e.template.Render(ctx, messages, req.Tools, req.Date)
	if err != nil {
		return nil, err
	}
	text, literal := chat.CutMarks(text, mark)
	return e.encode(ctx, text, tokenizer.EncodeOptions{Special: true, Literal: literal})
}

// prefixed returns ids with the token of generation.Request.Prefix before them.
func (e *Engine) prefixed(ids []int32) ([]int32, error) {
	t := e.files.tokenizer
	id, ok := t.BOS()
	if !ok {
		id, ok = t.EOS()
	}
	switch {
	case t.AddsBOS() || ok && ids[0] == id && len(ids) > 1:
		return ids, nil
	case !ok:
		return nil, generation.BadPrompt("the first token of the prompt cannot be scored: the model has neither a BOS nor an EOS token to precede it")
	}
	return append([]int32{id}, ids...), nil
}

// encode tokenises a prompt. Tokenising takes up to a hundred times the memory of the text. encode
// therefore refuses a text that cannot fit into the context before tokenising it, and tokenises
// only a few large texts at once.
func (e *Engine) encode(ctx context.Context, text string, o tokenizer.EncodeOptions) ([]int32, error) {
	t := e.files.tokenizer
	if n := t.MinTokens(text); n > e.fit.Context {
		return nil, generation.TooLong("the prompt has %d bytes, which are at least %d tokens; the context holds %d",
			len(text), n, e.fit.Context)
	}
	if len(text) >= largeText {
		select {
		case e.large <- struct{}{}:
			defer func() { <-e.large }()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	ids, err := t.EncodeContext(ctx, text, o)
	if err != nil {
		return nil, err
	}
	if len(ids) == 0 {
		return nil, generation.BadPrompt("the prompt is empty")
	}
	return ids, nil
}

// Prompt returns the token ids of a request's prompt. It makes all checks that Generate makes
// before it computes anything.
func (e *Engine) Prompt(ctx context.Context, req generation.Request) ([]int32, error) {
	if err := req.Validate(e.files.config.Vocab); err != nil {
		return nil, err
	}
	if _, err := e.toolCalls(&req); err != nil {
		return nil, err
	}
	prompt, err := e.prompt(ctx, &req)
	if err != nil {
		return nil, err
	}
	if _, err := e.forms.form(ctx, &req, e.reasoning(&req, prompt)); err != nil {
		return nil, err
	}
	return prompt, e.scheduler.Check(len(prompt), &req)
}

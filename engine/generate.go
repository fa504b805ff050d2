package engine

import (
	"context"
	"time"

	"github.com/ingot-run/ingot/engine/tokenizer"
	"github.com/ingot-run/ingot/generation"
)

// Generate answers a request. It is safe to call from many goroutines, whose requests share steps; none changes another's
// tokens. It returns ctx's error as soon as ctx is done, an error that wraps generation.ErrBadRequest if the request can never
// be answered, generation.ErrClosed if the engine was closed before the request was done, and generation.ErrEngineFailed if it
// ended itself.
func (e *Engine) Generate(ctx context.Context, req generation.Request) (generation.Completion, error) {
	start := time.Now()
	if err := ctx.Err(); err != nil {
		return generation.Completion{}, err
	}
	if err := req.Validate(e.files.config.Vocab); err != nil {
		return generation.Completion{}, err
	}
	prompt, err := e.prompt(&req)
	if err != nil {
		return generation.Completion{}, err
	}
	return e.scheduler.Generate(ctx, start, prompt, &req)
}

// prompt is the ids of a request's prompt: at least one, all in the vocabulary.
func (e *Engine) prompt(req *generation.Request) ([]int32, error) {
	given := 0
	for _, is := range []bool{req.Chat != nil, req.Text != "", len(req.Tokens) > 0} {
		if is {
			given++
		}
	}
	switch {
	case given == 0:
		return nil, generation.BadRequest("the prompt is empty")
	case given > 1:
		return nil, generation.BadRequest("more than one of messages, a text and token ids is given as the prompt")
	case req.Chat != nil:
		text, err := e.template.Render(req.Chat, req.Date)
		if err != nil {
			return nil, err
		}
		return e.encode(text, false)
	case req.Text != "":
		return e.encode(req.Text, e.files.tokenizer.AddsBOS())
	}
	vocab := e.files.config.Vocab
	for i, id := range req.Tokens {
		if id < 0 || int(id) >= vocab {
			return nil, generation.BadRequest("id %d, number %d of the prompt, is not in the vocabulary, which has ids 0 to %d", id, i+1, vocab-1)
		}
	}
	return req.Tokens, nil
}

func (e *Engine) encode(text string, bos bool) ([]int32, error) {
	ids := e.files.tokenizer.Encode(text, tokenizer.EncodeOptions{Special: true, BOS: bos})
	if len(ids) == 0 {
		return nil, generation.BadRequest("the prompt is empty")
	}
	return ids, nil
}

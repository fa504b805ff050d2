package engine

import (
	"context"
	"slices"
	"time"

	"github.com/ingot-run/ingot/generation"

	"github.com/ingot-run/ingot/engine/sample"
	"github.com/ingot-run/ingot/engine/tokenizer"
)

// call is one call of Generate. Its first part is set before it is handed to the loop and is only read from then on; the
// second belongs to the loop until done is closed. It holds nothing of the caller's, who may be gone before the loop
// notices.
type call struct {
	ctx          context.Context
	prompt       []int32
	limit        int // tokens of a sequence, the prompt's among them
	minTokens    int
	stopIDs      []int32
	scores       bool // of the answers' tokens
	scoresPrompt bool
	promptOnly   bool
	timed        bool
	start        time.Time
	done         chan struct{} // closed once all sequences have ended, or err is set and none is left

	seqs         []*sequence // one a choice; one in all where nothing is generated
	open         int         // sequences that have not ended
	err          error       // why the call failed
	promptScores scores      // of the prompt's tokens from the second on
	figures      figures
}

// answerRoom is the tokens of an answer for which memory is set aside at once.
const answerRoom = 1024

// newCall turns a request into sequences.
func (e *Engine) newCall(ctx context.Context, req *generation.Request) (*call, error) {
	c := &call{ctx: ctx, start: time.Now(), done: make(chan struct{})}
	if err := req.Validate(e.config.Vocab); err != nil {
		return nil, err
	}
	var err error
	if c.prompt, err = e.prompt(req); err != nil {
		return nil, err
	}
	if c.limit, err = e.limit(req, len(c.prompt)); err != nil {
		return nil, err
	}
	c.minTokens = req.MinTokens
	if !req.IgnoreEOS {
		c.stopIDs = append(c.stopIDs, e.stopIDs...)
	}
	c.stopIDs = append(c.stopIDs, req.StopIDs...)
	c.scores, c.scoresPrompt, c.promptOnly = req.Logprobs, req.PromptLogprobs, req.PromptOnly
	c.timed = req.Timed
	c.promptScores.top = req.TopLogprobs

	n := req.NumChoices()
	if c.promptOnly {
		n = 1
	}
	stops := slices.Clone(req.Stop)
	for i := range n {
		c.seqs = append(c.seqs, &sequence{
			call:    c,
			choice:  i,
			tokens:  append(make([]int32, 0, min(c.limit, len(c.prompt)+answerRoom)), c.prompt...),
			sampler: sample.New(req.Sampling, i, c.prompt),
			decoder: e.decoder(c.prompt),
			text:    newAnswerText(stops),
			scores:  scores{top: req.TopLogprobs},
		})
	}
	if !c.promptOnly || c.scoresPrompt && len(c.prompt) > 1 {
		c.open = n // and otherwise there is nothing to compute
	}
	return c, nil
}

// prompt is the ids of a request's prompt, which are in the vocabulary and at least one.
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
		text, err := e.render(req.Chat, req.Date)
		if err != nil {
			return nil, err
		}
		return e.encode(text, false)
	case req.Text != "":
		return e.encode(req.Text, e.tokenizer.AddsBOS())
	}
	for i, id := range req.Tokens {
		if id < 0 || int(id) >= e.config.Vocab {
			return nil, generation.BadRequest("id %d, number %d of the prompt, is not in the vocabulary, which has ids 0 to %d", id, i+1, e.config.Vocab-1)
		}
	}
	return slices.Clone(req.Tokens), nil
}

// decoder decodes what follows a prompt, as the middle of a text: a space that begins it is part of it.
func (e *Engine) decoder(prompt []int32) *tokenizer.Decoder {
	d := e.tokenizer.NewDecoder()
	for _, id := range slices.Backward(prompt) {
		if len(e.tokenizer.Bytes(id)) > 0 {
			d.Next(id)
			break
		}
	}
	return d
}

func (e *Engine) encode(text string, bos bool) ([]int32, error) {
	ids := e.tokenizer.Encode(text, tokenizer.EncodeOptions{Special: true, BOS: bos})
	if len(ids) == 0 {
		return nil, generation.BadRequest("the prompt is empty")
	}
	return ids, nil
}

// limit is the most tokens of each sequence of a request, the prompt's among them.
func (e *Engine) limit(req *generation.Request, prompt int) (int, error) {
	context := e.opts.Context
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

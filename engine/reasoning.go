package engine

import (
	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/internal/chat"
	"github.com/ingot-run/ingot/engine/tokenizer"
)

// reasoning separates the reasoning of the answers to a chat from their content. It is nil, and
// does nothing, if the template has no tags for reasoning or the prompt is not a chat.
type reasoning struct {
	tokenizer *tokenizer.Tokenizer
	tags      chat.TagPair
	end       string           // text of the prompt's last promptEnd tokens
	splitters []*chat.Splitter // [choices] for pieces that are streamed
}

// promptEnd is the number of tokens at the end of a prompt that are searched for the opening tag of
// reasoning.
const promptEnd = 8

// reasoning prepares the separation for a request. It replaces req.Stream by a function that also
// separates the streamed pieces.
func (e *Engine) reasoning(req *generation.Request, prompt []int32) *reasoning {
	if req.Chat == nil || !e.template.Reasons() {
		return nil
	}
	t := e.files.tokenizer
	r := &reasoning{tokenizer: t, tags: e.template.Tags(), end: endOf(t, prompt), splitters: make([]*chat.Splitter, req.NumChoices())}
	req.Shown = append(req.Shown, e.control(r.tags.Open, r.tags.Close)...)
	for i := range r.splitters {
		r.splitters[i] = chat.NewSplitter(r.tags, r.end)
	}
	if to := req.Stream; to != nil {
		req.Stream = func(p generation.Piece) error {
			p.Reasoning, p.Text = r.splitters[p.Choice].Next(p.Text, p.FinishReason != "")
			return to(p)
		}
	}
	return r
}

// endOf returns the text of a prompt's last promptEnd tokens.
func endOf(t *tokenizer.Tokenizer, prompt []int32) (text string) {
	for _, id := range prompt[max(0, len(prompt)-promptEnd):] {
		text += textOf(t, id)
	}
	return text
}

// textOf returns the text of a token. For a control token, this is its name: in some models, tags
// are control tokens.
func textOf(t *tokenizer.Tokenizer, id int32) string {
	if b := t.Bytes(id); b != nil {
		return string(b)
	}
	return t.Token(id)
}

// split separates the reasoning of finished choices, and adds the number of its tokens to
// Stats.ReasoningTokens.
func (r *reasoning) split(c *generation.Completion) {
	if r == nil {
		return
	}
	for i := range c.Choices {
		choice := &c.Choices[i]
		choice.Reasoning, choice.Text = chat.NewSplitter(r.tags, r.end).Next(choice.Text, true)
		c.Stats.ReasoningTokens += r.count(choice)
	}
}

func (r *reasoning) count(c *generation.Choice) int {
	if c.Reasoning == "" {
		return 0
	}
	s := chat.NewSplitter(r.tags, r.end)
	began := s.Reasoning()
	for i, id := range c.Tokens {
		s.Next(textOf(r.tokenizer, id), false)
		if began && !s.Reasoning() {
			return i + 1
		}
		began = began || s.Reasoning()
	}
	return len(c.Tokens)
}

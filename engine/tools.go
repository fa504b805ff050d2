package engine

import (
	"crypto/sha256"
	"encoding/json"
	"sync"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/engine/grammar"
	"github.com/ingot-run/ingot/engine/internal/chat"
	"github.com/ingot-run/ingot/engine/internal/chat/tools"
	"github.com/ingot-run/ingot/engine/tokenizer"
)

// DescribeTools describes how a model gets tools and in which form it calls them. It returns an
// empty text if the file has no chat template.
func DescribeTools(meta *gguf.Metadata) string { return chat.DescribeTools(meta) }

// toolCalls finds the tool calls in the answers to a chat. It is nil, and does nothing, if the
// request has no tools and the model's format does not mark reasoning either.
type toolCalls struct {
	tokenizer *tokenizer.Tokenizer
	format    *tools.Format
	set       *tools.Set
	named     bool // the request names the tool, and answers end as without tools
	trusted   bool // the answers are constrained
	end       string
	id        func(choice, call int) string
	parsers   []*tools.Parser // [choices] for pieces that are streamed
}

// toolCalls prepares a request: it sets the constraint of the answers, and lets the text of answers
// to a chat include the marks of calls. Without tools, they are a part of the content.
func (e *Engine) toolCalls(req *generation.Request) (*toolCalls, error) {
	format := e.template.ToolFormat()
	if len(req.Tools) > 0 && req.Chat == nil {
		return nil, generation.BadRequest("tools need messages, not a text or token ids as the prompt")
	}
	if req.Chat == nil {
		return nil, nil
	}
	req.Shown = append(req.Shown, e.control(format.Marks()...)...)
	if len(req.Tools) == 0 && !format.Reasons() {
		return nil, nil
	}
	c := &toolCalls{tokenizer: e.files.tokenizer, format: format, set: tools.NewSet(req), named: req.ToolChoice.Mode == generation.ToolsNamed}
	constraint, err := e.callForms.get(req, func() (*generation.Constraint, error) {
		return format.Constraint(c.set, req.Constraint, controlTokens{e.files.tokenizer}, checkSchema)
	})
	if err != nil {
		return nil, generation.BadForm("%w", err)
	}
	if constraint != nil && req.IgnoreEOS {
		return nil, generation.BadRequest("ignore_eos cannot be combined with calls that must have a form")
	}
	v, _ := req.Chat.Get("continue_final_message")
	if continues, _ := v.(bool); continues && constraint != nil && format.Reasons() {
		return nil, generation.BadRequest("continue_final_message cannot be combined with an answer that must have a form: the model's messages end there")
	}
	c.trusted, req.Constraint = constraint != nil, constraint
	return c, nil
}

// control returns the ids of those texts that are control tokens.
func (e *Engine) control(texts ...string) (ids []int32) {
	for _, text := range texts {
		if id, ok := e.files.tokenizer.Lookup(text); ok && e.files.tokenizer.Bytes(id) == nil {
			ids = append(ids, id)
		}
	}
	return ids
}

// controlTokens refers to control tokens in grammars.
type controlTokens struct{ *tokenizer.Tokenizer }

// Special returns the name of the control token with the given text.
func (t controlTokens) Special(text string) (reference string, ok bool) {
	id, ok := t.Lookup(text)
	if !ok || t.Bytes(id) != nil {
		return "", false
	}
	return tools.Reference(text), true
}

// begin sets the prompt whose answers are read. It replaces req.Stream by a function that also
// finds the calls in streamed pieces.
func (c *toolCalls) begin(req *generation.Request, prompt []int32) {
	if c == nil {
		return
	}
	c.end = endOf(c.tokenizer, prompt)
	hash, seed := generation.HashPrompt(prompt), req.Sampling.Seed
	c.id = func(choice, call int) string { return c.format.NewID(hash, seed, choice, call) }
	to := req.Stream
	if to == nil {
		return
	}
	for i := range req.NumChoices() {
		c.parsers = append(c.parsers, c.parser(i))
	}
	req.Stream = func(p generation.Piece) error {
		parser := c.parsers[p.Choice]
		out := parser.Next(p.Text, p.FinishReason != "")
		p.Text, p.Reasoning, p.ToolCalls = out.Text, p.Reasoning+out.Reasoning, out.Calls
		p.FinishReason = c.reason(p.FinishReason, parser.Calls())
		return to(p)
	}
}

func (c *toolCalls) parser(choice int) *tools.Parser {
	return c.format.NewParser(c.set, c.end, c.trusted, func(call int) string { return c.id(choice, call) })
}

// reason returns the finish reason of a choice, given the number of its calls.
func (c *toolCalls) reason(r generation.FinishReason, calls int) generation.FinishReason {
	if r == generation.FinishStop && calls > 0 && !c.named {
		return generation.FinishToolCalls
	}
	return r
}

// read finds the calls of finished choices.
func (c *toolCalls) read(done *generation.Completion) {
	if c == nil {
		return
	}
	for i := range done.Choices {
		choice := &done.Choices[i]
		parser := c.parser(i)
		out := parser.Next(choice.Text, true)
		choice.Text, choice.Reasoning = out.Text, choice.Reasoning+out.Reasoning
		for _, d := range out.Calls {
			choice.ToolCalls = append(choice.ToolCalls, generation.ToolCall{ID: d.ID, Name: d.Name, Arguments: d.Arguments})
		}
		choice.FinishReason = c.reason(choice.FinishReason, parser.Calls())
		if out.Reasoning != "" {
			done.Stats.ReasoningTokens += c.reasoningTokens(choice.Tokens)
		}
	}
}

// reasoningTokens returns the number of tokens up to the end of the reasoning.
func (c *toolCalls) reasoningTokens(tokens []int32) (n int) {
	p := c.parser(0)
	for i, id := range tokens {
		before := p.Reasoning()
		p.Next(textOf(c.tokenizer, id), false)
		if before || p.Reasoning() {
			n = i + 1
		}
	}
	return n
}

// callForms has the constraints of the last requests with tools. Rows of a file often have the
// same tools.
type callForms struct {
	mu   sync.Mutex
	made map[[sha256.Size]byte]madeConstraint
}

type madeConstraint struct {
	constraint *generation.Constraint
	err        error
}

const maxCallForms = 64

// get returns the constraint of a request. It calls build unless a request with the same tools was
// among the last ones.
func (c *callForms) get(req *generation.Request, build func() (*generation.Constraint, error)) (*generation.Constraint, error) {
	hash := sha256.New()
	e := json.NewEncoder(hash)
	for _, v := range []any{req.Tools, req.ToolChoice, req.Constraint} {
		if err := e.Encode(v); err != nil {
			return nil, err
		}
	}
	key := [sha256.Size]byte(hash.Sum(nil))
	c.mu.Lock()
	m, ok := c.made[key]
	c.mu.Unlock()
	if ok {
		return m.constraint, m.err
	}
	m.constraint, m.err = build()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.made == nil || len(c.made) >= maxCallForms {
		c.made = map[[sha256.Size]byte]madeConstraint{}
	}
	c.made[key] = m
	return m.constraint, m.err
}

// checkSchema returns an error if the arguments of a call cannot be kept to a JSON Schema in full.
func checkSchema(schema string) error {
	return grammar.Check(&generation.Constraint{Schema: schema})
}

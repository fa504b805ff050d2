package engine

import (
	"context"
	"runtime"
	"slices"
	"sync"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/grammar"
	"github.com/ingot-run/ingot/engine/internal/chat"
	"github.com/ingot-run/ingot/engine/internal/chat/tools"
	"github.com/ingot-run/ingot/engine/internal/schedule"
	"github.com/ingot-run/ingot/engine/tokenizer"
)

// constraints compiles the constraints of requests for a model. What it needs of the vocabulary is
// made for the first of them.
type constraints struct {
	tokenizer *tokenizer.Tokenizer
	vocab     int // number of logits
	reasoning chat.TagPair

	once     sync.Once
	compiler *grammar.Compiler
	tags     *chat.Tags

	compiling chan struct{} // has a value for each constraint that is being compiled
}

func newConstraints(t *tokenizer.Tokenizer, vocab int, reasoning chat.TagPair) *constraints {
	return &constraints{tokenizer: t, vocab: vocab, reasoning: reasoning, compiling: make(chan struct{}, runtime.GOMAXPROCS(0))}
}

func (c *constraints) prepare() {
	t := c.tokenizer
	special := func(id int32) string {
		if t.Bytes(id) != nil {
			return ""
		}
		return tools.Reference(t.Token(id))
	}
	c.compiler = grammar.NewCompiler(grammar.NewVocabulary(c.vocab, t.Bytes, special, t.StopIDs()), grammar.Limits{})
	c.tags = chat.NewTags(t, c.reasoning)
}

// form compiles the constraint of a request. It returns nil if the request has none. reasoning is
// that of the request.
func (c *constraints) form(ctx context.Context, req *generation.Request, r *reasoning) (*schedule.Form, error) {
	if req.Constraint == nil {
		return nil, nil
	}
	f := &schedule.Form{Encode: func(text string) []int32 {
		return c.tokenizer.Encode(text, tokenizer.EncodeOptions{Continues: true})
	}}
	if err := c.ends(f, req); err != nil {
		return nil, err
	}
	select {
	case c.compiling <- struct{}{}:
		defer func() { <-c.compiling }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	c.once.Do(c.prepare)
	if r != nil {
		f.Thinking = c.tags.Begin(r.end)
	}
	var err error
	if f.Grammar, err = c.compiler.Compile(ctx, req.Constraint); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, generation.BadForm("compile the constraint: %w", err)
	}
	return f, nil
}

// ends sets the tokens that may follow a complete text: the model's stop tokens, and those of the
// request that are control tokens. Other stop tokens of the request are part of texts, which they
// cut.
func (c *constraints) ends(f *schedule.Form, req *generation.Request) error {
	f.Ends = c.tokenizer.StopIDs()
	for _, id := range req.StopIDs {
		if c.tokenizer.Bytes(id) == nil && !slices.Contains(f.Ends, id) {
			f.Further = append(f.Further, id)
		}
	}
	f.Ends = append(f.Ends, f.Further...)
	slices.Sort(f.Ends)
	f.Ends = slices.Compact(f.Ends)
	if len(f.Ends) == 0 {
		return generation.BadRequest("the model has no stop token, so that an answer in a given form cannot end: name a control token in stop_token_ids")
	}
	f.End = f.Ends[0]
	if eos, ok := c.tokenizer.EOS(); ok && slices.Contains(f.Ends, eos) {
		f.End = eos
	}
	return nil
}

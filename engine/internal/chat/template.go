// Package chat turns the messages of a chat into the prompt of a model, with the chat template of
// the model's file.
package chat

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/engine/internal/chat/tools"
	"github.com/ingot-run/ingot/engine/jinja"
	"github.com/ingot-run/ingot/engine/tokenizer"
	"github.com/ingot-run/ingot/internal/ordered"
)

// TemplateKey is the metadata key of the template in a GGUF file. Errors use it as the name of the
// template.
const TemplateKey = "tokenizer.chat_template"

// toolUseKey is the metadata key of a template for chats with tools, which some files have besides
// the other.
const toolUseKey = TemplateKey + ".tool_use"

// Template is the chat template of a model. It is safe for use from many goroutines.
type Template struct {
	program   *jinja.Template
	toolUse   *jinja.Template // for chats with tools; nil if program is for these too
	err       error           // why there is no usable template; nil if there is one
	developer bool            // the template handles the role "developer"
	reasons   bool            // the template contains the tags of reasoning
	tags      TagPair         // the tags of reasoning
	format    *tools.Format   // how the template writes tool calls; nil if it does not, or in an unknown format
	tokens    []variable      // bos_token and eos_token, if the model has them
}

type variable struct {
	name  string
	value ordered.Value
}

// New reads the template from the metadata of a model file. If there is no usable template, Render
// returns an error with the reason. The model can then still answer plain prompts.
func New(meta *gguf.Metadata, tokens *tokenizer.Tokenizer) *Template {
	source, err := meta.String(TemplateKey)
	if errors.Is(err, gguf.ErrMissing) {
		return &Template{err: errors.New("the model file has no chat template: give a prompt instead of messages")}
	}
	if err != nil {
		return &Template{err: fmt.Errorf("the model file's chat template cannot be read: %w", err)}
	}
	t := parse(source)
	if more, err := meta.String(toolUseKey); err == nil && t.err == nil && t.format == nil {
		if u := parse(more); u.format != nil {
			t.toolUse, t.format = u.program, u.format
		}
	}
	if id, ok := tokens.BOS(); ok {
		t.tokens = append(t.tokens, variable{"bos_token", tokens.Token(id)})
	}
	if id, ok := tokens.EOS(); ok {
		t.tokens = append(t.tokens, variable{"eos_token", tokens.Token(id)})
	}
	return t
}

func parse(source string) *Template {
	program, err := jinja.Parse(TemplateKey, source)
	if err != nil {
		return &Template{err: fmt.Errorf("the model file's chat template cannot be used: %w", err)}
	}
	t := &Template{program: program, developer: strings.Contains(source, "developer"), format: tools.Find(source)}
	t.tags, t.reasons = reasoningTags(source)
	return t
}

// defaults are the values of variables that a chat does not set. As in Hugging Face transformers,
// tools and documents are none by default, not undefined.
var defaults = []variable{{"tools", nil}, {"documents", nil}, {"add_generation_prompt", true}}

// Render makes the prompt of a chat with tools. The fields of chat are the variables of the
// template: messages, and any other variables that the template reads. Render does not change chat.
// The prompt contains the BOS token if the template writes it. The template function strftime_now
// prints date or, if date is zero, the current time.
//
// If the template does not render tools, Render writes them, calls and results into the texts of
// messages.
//
// If the variable continue_final_message is true, the prompt ends with the last message, so that
// the answer continues this message.
//
// Render stops and returns ctx's error soon after ctx is done. Any other error wraps
// generation.ErrBadRequest, because the same chat would fail again. It also wraps a
// *jinja.RaiseError if the template refuses the messages.
func (t *Template) Render(ctx context.Context, chat *ordered.Object, list []generation.Tool, date time.Time) (string, error) {
	if t.err != nil {
		return "", generation.BadPrompt("%w", t.err)
	}
	if date.IsZero() {
		date = time.Now()
	}
	vars := chat.Clone()
	for _, v := range defaults {
		if _, ok := vars.Get(v.name); !ok {
			vars.Set(v.name, v.value)
		}
	}
	for _, v := range t.tokens {
		vars.Set(v.name, v.value)
	}
	if !t.developer {
		developerAsSystem(vars)
	}
	continues := continueLast(vars)
	prompt, err := t.renderTools(ctx, vars, list, date)
	if done := ctx.Err(); err != nil && done != nil {
		return "", done
	}
	if continues && err == nil {
		prompt, err = cutContinued(prompt)
	}
	if refused := (*jinja.RaiseError)(nil); errors.As(err, &refused) {
		return "", generation.BadPrompt("the chat template refuses the messages: %w", refused)
	}
	if err != nil {
		return "", generation.BadPrompt("render the chat template: %w", err)
	}
	return prompt, nil
}

// developerAsSystem replaces the role "developer", OpenAI's newer name for "system", by "system".
// Otherwise, templates without the role "developer" would leave out the message, and the model
// would answer without its instructions.
func developerAsSystem(vars *ordered.Object) {
	v, _ := vars.Get("messages")
	given, ok := v.([]ordered.Value)
	if !ok {
		return
	}
	messages := make([]ordered.Value, len(given))
	for i, v := range given {
		messages[i] = v
		m, ok := v.(*ordered.Object)
		if !ok {
			continue
		}
		if role, _ := m.Get("role"); role == "developer" {
			m = m.Clone()
			m.Set("role", "system")
			messages[i] = m
		}
	}
	vars.Set("messages", messages)
}

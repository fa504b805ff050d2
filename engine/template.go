package engine

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ingot-run/ingot/generation"
	"github.com/ingot-run/ingot/ordered"

	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/engine/jinja"
)

// template is a model's chat template.
type template struct {
	*jinja.Template
	developer bool // it knows messages of that role
}

// readTemplate reads the chat template. A model without one still answers prompts that are not chats.
func readTemplate(f *gguf.File) (*template, error) {
	const key = "tokenizer.chat_template"
	source, err := f.Meta().String(key)
	if errors.Is(err, gguf.ErrMissing) {
		return nil, errors.New("the model file has no chat template, so it takes prompts and no messages")
	}
	if err != nil {
		return nil, fmt.Errorf("the model file's chat template cannot be read: %w", err)
	}
	t, err := jinja.Parse(key, source)
	if err != nil {
		return nil, fmt.Errorf("the model file's chat template cannot be used: %w", err)
	}
	return &template{t, strings.Contains(source, "developer")}, nil
}

// templateDefaults is what a template finds where the request says nothing: like Hugging Face transformers, tools and
// documents are defined, and none.
var templateDefaults = []struct {
	name  string
	value ordered.Value
}{
	{"tools", nil},
	{"documents", nil},
	{"add_generation_prompt", true},
}

// render makes the prompt of a chat. A template begins with BOS itself where its model wants it.
func (e *Engine) render(messages *ordered.Object, date time.Time) (string, error) {
	if e.template == nil {
		return "", generation.BadRequest("%w", e.templateErr)
	}
	if date.IsZero() {
		date = time.Now()
	}
	vars := messages.Clone()
	for _, absent := range templateDefaults {
		if _, ok := vars.Get(absent.name); !ok {
			vars.Set(absent.name, absent.value)
		}
	}
	if id, ok := e.files.tokenizer.BOS(); ok {
		vars.Set("bos_token", e.files.tokenizer.Token(id))
	}
	if id, ok := e.files.tokenizer.EOS(); ok {
		vars.Set("eos_token", e.files.tokenizer.Token(id))
	}
	if !e.template.developer {
		instructAsSystem(vars)
	}
	text, err := e.template.Render(vars, date)
	if raised := (*jinja.RaiseError)(nil); errors.As(err, &raised) {
		return "", generation.BadRequest("the chat template refuses the messages: %w", raised)
	}
	if err != nil {
		return "", fmt.Errorf("%w: render the chat template: %w", generation.ErrBadRequest, err)
	}
	return text, nil
}

// instructAsSystem gives messages of the role "developer", OpenAI's newer name for "system", the older one. A template that
// does not know a role leaves its messages out, and the model would answer without its instructions.
func instructAsSystem(vars *ordered.Object) {
	v, _ := vars.Get("messages")
	given, _ := v.([]ordered.Value)
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
	if given != nil {
		vars.Set("messages", messages)
	}
}

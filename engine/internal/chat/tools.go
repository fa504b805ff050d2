package chat

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/engine/internal/chat/tools"
	"github.com/ingot-run/ingot/engine/jinja"
	"github.com/ingot-run/ingot/internal/ordered"
)

// ToolFormat returns the form in which the model's answers have tool calls.
func (t *Template) ToolFormat() *tools.Format {
	if t.format == nil {
		return tools.Hermes
	}
	return t.format
}

// DescribeTools describes how the chat template of a file has tools. It returns an empty text if
// there is no template.
func DescribeTools(meta *gguf.Metadata) string {
	source, err := meta.String(TemplateKey)
	if err != nil {
		return ""
	}
	format := tools.Find(source)
	if more, err := meta.String(toolUseKey); err == nil && format == nil {
		format = tools.Find(more)
	}
	if format == nil {
		return tools.Hermes.Name + ", written by Ingot: the chat template has no tools, or a form of calls that is not known"
	}
	return format.Name + ", written by the chat template"
}

// renderTools renders a chat with tools.
func (t *Template) renderTools(ctx context.Context, vars *ordered.Object, list []generation.Tool, date time.Time) (string, error) {
	v, _ := vars.Get("messages")
	messages, ok := v.([]ordered.Value)
	if !ok {
		return t.program.RenderContext(ctx, vars, date)
	}
	messages = tools.Prepare(t.format, messages, list)
	vars.Set("messages", messages)
	if t.format == nil && (len(list) > 0 || tools.Used(messages)) {
		return t.renderOwn(ctx, vars, messages, list, date)
	}
	program := t.program
	if len(list) > 0 {
		vars.Set("tools", tools.Definitions(t.format, list))
		if t.toolUse != nil {
			program = t.toolUse
		}
	}
	return program.RenderContext(ctx, vars, date)
}

// renderOwn renders a chat with tools by a template that does not know them. If the template leaves
// out or refuses a system message, the tools are in the first message of the user.
func (t *Template) renderOwn(ctx context.Context, vars *ordered.Object, messages []ordered.Value, list []generation.Tool, date time.Time) (string, error) {
	vars.Set("tools", nil)
	vars.Set("messages", tools.Own(messages, list, tools.InSystem))
	prompt, err := t.program.RenderContext(ctx, vars, date)
	refused := (*jinja.RaiseError)(nil)
	if len(list) == 0 || err == nil && strings.Contains(prompt, "<tools>") || err != nil && !errors.As(err, &refused) {
		return prompt, err
	}
	vars.Set("messages", tools.Own(messages, list, tools.InUser))
	return t.program.RenderContext(ctx, vars, date)
}

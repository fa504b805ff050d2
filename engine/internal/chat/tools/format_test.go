package tools

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFind recognises forms by the parts of templates that write tools and calls, as the makers'
// templates have them.
func TestFind(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ template, want string }{
		"Granite 3.0": {`{%- if tools %}{{- '<|start_of_role|>available_tools<|end_of_role|>' }}{% endif %}` +
			`{%- elif message['role'] == 'assistant_tool_call' %}{{- '<|start_of_role|>assistant<|end_of_role|><|tool_call|>' + message['content'] }}`, "Granite 3"},
		"Granite 3.3": {`{%- if tools and not available_tools -%} respond only with <|tool_call|> followed by a JSON list of tools used.`, "Granite 3"},
		"Granite 4": {`{%- set tools = available_tools %}<tool_call>\n{\"name\": <function-name>, \"arguments\": <args-json-object>}\n</tool_call>.` +
			`{%- if message.tool_calls %}{{- '<tool_call>\n{"name": "' }}`, "Hermes"},
		"Phi-4-mini":            {`{% if 'tools' in message and message['tools'] is not none %}{{ '<|tool|>' + message['tools'] + '<|/tool|>' + '<|end|>' }}`, "Phi-4-mini"},
		"Phi-4":                 {`{{'<|im_start|>user<|im_sep|>' + message['content'] + '<|im_end|>'}}`, ""},
		"GLM-4-0414":            {`{%- if tools -%}<|system|># 可用工具{%- set meta = message.get("metadata", "") %}<|assistant|>{{ meta }}`, "GLM-4-0414"},
		"glm-4-9b-chat":         {`{% if item['tools'] is defined %}<|system|># 可用工具{% set tools = item['tools'] %}{{ item['metadata'] }}`, ""},
		"calls without tools":   {`{%- for tool in message['tool_calls'] %}<｜tool▁call▁begin｜>{{ tool['type'] }}<｜tool▁sep｜>`, ""},
		"tools without a form":  {`{% for t in tools %}{{ t }}{% endfor %}{{ message.tool_calls }}`, ""},
		"no tools, and no form": {`{{ message.content }}`, ""},
	} {
		got := ""
		if f := Find(c.template); f != nil {
			got = f.Name
		}
		require.Equal(t, c.want, got, name)
	}
}

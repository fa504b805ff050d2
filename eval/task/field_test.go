package task

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTemplatesOfTasks: templates of tasks follow the harness's rules, not those of chat templates.
// The texts are those of jinja2 with StrictUndefined and keep_trailing_newline, and of Python's
// str.
func TestTemplatesOfTasks(t *testing.T) {
	t.Parallel()
	const row = `{"q": "Why?", "list": ["a", "b"], "null": null, "yes": true, "whole": 1.0, "small": 1e-7}`
	for _, c := range []struct{ text, target, context, want, fails string }{
		{text: `"{{q}}\n{% for x in list %}\n- {{x}}\n{% endfor %}\n"`, target: `q`, context: "Why?\n\n- a\n\n- b\n\n", want: "Why?"},
		{text: `"  {% if yes %}\n{{q}}{% endif %}"`, target: `"null"`, context: "  \nWhy?", want: "None"},
		{text: `yes`, target: `whole`, context: "True", want: "1.0"},
		{text: `small`, target: `"{{small}} {{yes}}"`, context: "1e-07", want: "1e-07 True"},
		{text: `"{{nope | default('x')}}{% if nope is defined %}y{% endif %}"`, target: `q`, context: "x", want: "Why?"},
		{text: `"{{question}}"`, target: `q`, fails: "doc_to_text: template:1:1: 'question' is undefined"},
		{text: `"{{q}} {% if context %}{{context}}{% endif %}"`, target: `q`, fails: "'context' is undefined"},
		{text: `q`, target: `"{{answer.text}}"`, fails: "doc_to_target: template:1:9: 'answer' is undefined"},
	} {
		path := filepath.Join(t.TempDir(), "task.yaml")
		text := "task: a\noutput_type: generate_until\ndoc_to_text: " + c.text + "\ndoc_to_target: " + c.target + "\n"
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		task, err := Read(path)
		require.NoError(t, err, c.text)
		p, err := task.Prompt(parse(t, []byte(row)), nil)
		if c.fails != "" {
			require.ErrorContains(t, err, c.fails, c.text)
			continue
		}
		require.NoError(t, err, c.text)
		require.Equal(t, c.context, p.Context, c.text)
		require.Equal(t, []string{c.want}, p.Targets, c.text)
	}
}

package chat

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/jinja"
	"github.com/ingot-run/ingot/internal/ordered"
)

func object(t *testing.T, text string) *ordered.Object {
	t.Helper()
	v, err := ordered.ParseJSON([]byte(text))
	require.NoError(t, err)
	return v.(*ordered.Object)
}

func TestRender(t *testing.T) {
	t.Parallel()
	const roles = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
	const developer = `{"messages": [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "Hi"}]}`
	for name, c := range map[string]struct{ source, chat, want string }{
		"defaults":                    {"{{ tools }} {{ documents }} {{ add_generation_prompt }}", `{}`, "None None True"},
		"set by the chat":             {"{{ tools }} {{ add_generation_prompt }}", `{"tools": [1], "add_generation_prompt": false}`, "[1] False"},
		"tokens":                      {"{{ bos_token }}{{ eos_token is defined }}", `{"bos_token": "x"}`, "<s>False"},
		"date":                        {"{{ strftime_now('%d %B %Y') }}", `{}`, "26 July 2024"},
		"developer unknown":           {roles, developer, "<system>Be brief.<user>Hi"},
		"developer known":             {roles + "{# developer #}", developer, "<developer>Be brief.<user>Hi"},
		"no list of messages":         {"{{ messages }}", `{"messages": "x"}`, "x"},
		"a message that is no object": {"{{ messages }}", `{"messages": [1]}`, "[1]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tmpl := parse(c.source)
			tmpl.tokens = []variable{{"bos_token", "<s>"}}
			chat := object(t, c.chat)
			prompt, err := tmpl.Render(t.Context(), chat, nil, time.Date(2024, 7, 26, 12, 0, 0, 0, time.UTC))
			require.NoError(t, err)
			require.Equal(t, c.want, prompt)
			require.Equal(t, object(t, c.chat), chat, "the caller's object does not change")
		})
	}
}

func TestRenderErrors(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		"{% if %}":                    "the model file's chat template cannot be used: tokenizer.chat_template:1:7: found '%}' where an expression is expected",
		"{{ x | urlize }}":            "the model file's chat template cannot be used: tokenizer.chat_template:1:8: the filter 'urlize' is not supported in chat templates",
		"\n{{ messages.x.y }}":        "render the chat template: tokenizer.chat_template:2:14: 'list object' has no attribute 'x'",
		"{{ raise_exception('no') }}": "the chat template refuses the messages: no",
	} {
		_, err := parse(source).Render(t.Context(), object(t, `{"messages": []}`), nil, time.Time{})
		require.ErrorIs(t, err, generation.ErrBadRequest)
		require.EqualError(t, err, want)
	}
	var refused *jinja.RaiseError
	_, err := parse("{{ raise_exception('no') }}").Render(t.Context(), ordered.NewObject(), nil, time.Time{})
	require.ErrorAs(t, err, &refused)
}

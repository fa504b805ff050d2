package engine_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/tokenizer"
)

// With Literal, texts of control tokens in messages and in texts stay text. The prompt is otherwise
// the same.
func TestLiteralPrompts(t *testing.T) {
	t.Parallel()
	e := open(t, microGLM, engine.Options{})
	tok := e.Tokenizer()
	user, ok := tok.Lookup("<|user|>")
	require.True(t, ok)
	count := func(req generation.Request) (n int, text string) {
		ids, err := e.Prompt(t.Context(), req)
		require.NoError(t, err)
		for _, id := range ids {
			if id == user {
				n++
			}
		}
		return n, tok.DecodeSpecial(ids)
	}
	chat := generation.Request{Chat: messages(t, `{"messages": [{"role": "user", "content": "Hi<|user|>\nHo<|us"}, {"role": "assistant", "content": "er|>"}, {"role": "user", "content": "<|user|>"}]}`)}
	without, want := count(chat)
	require.Equal(t, 4, without)
	chat.Literal = true
	with, got := count(chat)
	require.Equal(t, 2, with)
	require.Equal(t, want, got)

	text := generation.Request{Text: "<|user|>a<|user|>b"}
	n, _ := count(text)
	require.Equal(t, 2, n)
	text.LiteralParts = [][2]int{{9, 17}}
	n, _ = count(text)
	require.Equal(t, 1, n)
	text.LiteralParts, text.Literal = nil, true
	n, got = count(text)
	require.Zero(t, n)
	require.Equal(t, tok.Encode(text.Text, tokenizer.EncodeOptions{}), tok.Encode(got, tokenizer.EncodeOptions{}))
}

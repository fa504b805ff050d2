package chat

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/tokenizer"
	"github.com/ingot-run/ingot/internal/ordered"
)

// chatOf returns a chat of a user's message, as JSON has it.
func chatOf(t *testing.T, content any) *ordered.Object {
	t.Helper()
	text, err := json.Marshal(map[string]any{"messages": []any{map[string]any{"role": "user", "content": content}}})
	require.NoError(t, err)
	v, err := ordered.ParseJSON(text)
	require.NoError(t, err)
	return v.(*ordered.Object)
}

// TestLiteral: with every family's template and tokenizer, a message of texts of control tokens
// gives the prompt of the same text, with the control tokens of an ordinary message.
func TestLiteral(t *testing.T) {
	t.Parallel()
	eachFamily(t, func(t *testing.T, f *family) {
		f.needTemplate(t)
		tok, err := tokenizer.New(f.meta())
		require.NoError(t, err)
		template := New(f.meta(), tok)
		prompt := func(content string, literal bool) (text string, controls []int32) {
			chat, mark := chatOf(t, content), ""
			if literal {
				chat, mark, err = Literal(t.Context(), chat, tok)
				require.NoError(t, err)
			}
			text, err := template.Render(t.Context(), chat, nil, time.Unix(0, 0))
			require.NoError(t, err)
			text, parts := CutMarks(text, mark)
			for _, id := range tok.Encode(text, tokenizer.EncodeOptions{Special: true, Literal: parts}) {
				if tok.Bytes(id) == nil {
					controls = append(controls, id)
				}
			}
			return text, controls
		}
		var names []string
		for id := range int32(tok.Size()) {
			if name := tok.Token(id); tok.Bytes(id) == nil && len(name) > 2 && !strings.Contains(f.Template, "'"+name+"' in") {
				names = append(names, name)
			}
		}
		require.NotEmpty(t, names)
		content := "a" + strings.Join(names, " b") + names[0][:2]
		_, ordinary := prompt("hi", false)
		plain, controls := prompt(content, false)
		require.Greater(t, len(controls), len(ordinary), "without Literal, the texts become control tokens")
		got, controls := prompt(content, true)
		require.Equal(t, plain, got)
		require.Equal(t, ordinary, controls)
	})
}

// Texts in any place of a message are marked. The chat itself does not change.
func TestLiteralMarksAllTexts(t *testing.T) {
	t.Parallel()
	f := family{Model: "gpt2", Pre: "gpt-2", BOS: -1, Tokens: []string{"<", "x", "<x>"}, Types: []int32{1, 1, 3}}
	tok, err := tokenizer.New(f.meta())
	require.NoError(t, err)
	for given, want := range map[string]string{
		`{"messages":[{"role":"<x>","content":"a<x>"}],"x":"<x>"}`:                                       `{"messages":[{"role":"<x>","content":"a<#x>"}],"x":"<x>"}`,
		`{"messages":[{"role":"user","content":[{"type":"text","text":"<"},{"type":"t","text":"x>"}]}]}`: `{"messages":[{"role":"user","content":[{"type":"text","text":"<#"},{"type":"t","text":"x>"}]}]}`,
		`{"messages":[{"role":"a","tool_calls":[{"function":{"arguments":{"<x>":["<x>",1,null]}}}]}]}`:   `{"messages":[{"role":"a","tool_calls":[{"function":{"arguments":{"<#x>":["<#x>",1,null]}}}]}]}`,
		`{"messages":[{"role":"user","content":"\ufdd0<x>"}]}`:                                           `{"messages":[{"role":"user","content":"\ufdd0<#x>"}]}`,
		`{"messages":[{"role":"user","content":"plain"}]}`:                                               `{"messages":[{"role":"user","content":"plain"}]}`,
	} {
		v, err := ordered.ParseJSON([]byte(given))
		require.NoError(t, err)
		before := string(ordered.AppendJSON(nil, v))
		marked, mark, err := Literal(t.Context(), v.(*ordered.Object), tok)
		require.NoError(t, err)
		text := string(ordered.AppendJSON(nil, marked))
		if mark != "" {
			require.NotContains(t, before, mark)
			text = strings.ReplaceAll(text, mark, "#")
		}
		require.JSONEq(t, want, text)
		require.Equal(t, before, string(ordered.AppendJSON(nil, v)))
	}
	all := ""
	for r := rune(0xFDD0); r <= 0xFDEF; r++ {
		all += string(r)
	}
	_, _, err = Literal(t.Context(), chatOf(t, all), tok)
	require.ErrorIs(t, err, generation.ErrPrompt)
}

func TestCutMarks(t *testing.T) {
	t.Parallel()
	text, parts := CutMarks("#<#x>é##é#", "#")
	require.Equal(t, "<x>éé", text)
	require.Equal(t, [][2]int{{0, 1}, {3, 5}, {5, 7}}, slices.Compact(parts))
}

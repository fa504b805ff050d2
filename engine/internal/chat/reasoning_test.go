package chat

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestSplitter(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ prompt, text, reasoning, content string }{
		{"hi", "plain", "", "plain"},
		{"hi", "", "", ""},
		{"hi", " <thin", "", " <thin"},
		{"hi", "<think>why\nnot</think>answer", "why\nnot", "answer"},
		{"hi", "\n<think>why\n\n</think>\n\nanswer </think> more", "why", "answer </think> more"},
		{"hi", "<think>cut off", "cut off", ""},
		{"hi", "<think></think>x", "", "x"},
		{"hi", "say <think>x</think>", "", "say <think>x</think>"},
		{"hi<think>\n", "why</think>answer", "why", "answer"},
		{"hi<think>", "why < 3 </thin", "why < 3 </thin", ""},
		{"hi<think></think>", "answer", "", "answer"},
	} {
		s := NewSplitter(c.prompt)
		reasoning, content := s.Next(c.text, true)
		require.Equal(t, c.reasoning, strings.TrimLeft(reasoning, "\n"), c.text)
		require.Equal(t, c.content, content, c.text)
	}
}

// The result does not depend on how the text is cut into parts.
func TestSplitterOfParts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOf(rapid.SampledFrom([]string{"<think>", "</think>", "<", "/", "thi", "nk>", "\n", " ", "a", "é"})).Draw(t, "parts")
		prompt := rapid.SampledFrom([]string{"p", "p<think>"}).Draw(t, "prompt")
		wantReasoning, wantContent := NewSplitter(prompt).Next(strings.Join(parts, ""), true)
		s := NewSplitter(prompt)
		var reasoning, content string
		for _, p := range parts {
			r, c := s.Next(p, false)
			reasoning, content = reasoning+r, content+c
		}
		r, c := s.Next("", true)
		require.Equal(t, wantReasoning, reasoning+r)
		require.Equal(t, wantContent, content+c)
	})
}

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
		{"hi", "<think>\nwhy\n\nnot\n</think>\n\nanswer", "why\n\nnot", "answer"},
		{"hi<think>", "\n\nwhy\n</think>\nanswer\n", "why", "answer\n"},
		{"hi<think>", "\n", "", ""},
		{"hi", "<think>\n</think>\nanswer", "", "answer"},
		{"hi<think>", "why < 3 </thin", "why < 3 </thin", ""},
		{"hi<think></think>", "answer", "", "answer"},
	} {
		s := NewSplitter(Think, c.prompt)
		reasoning, content := s.Next(c.text, true)
		require.Equal(t, c.reasoning, reasoning, c.text)
		require.Equal(t, c.content, content, c.text)
	}
}

// In Gemma 4, the name of a channel follows the opening tag.
func TestSplitterOfChannels(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ prompt, text, reasoning, content string }{
		{"hi<|turn>model\n", "<|channel>thought\nwhy\n<channel|>answer", "why", "answer"},
		{"hi<|turn>model\n", "<|channel>thought\n<channel|>answer", "", "answer"},
		{"hi<|turn>model\n", "<|channel>thought\n\nwhy<channel|>answer", "why", "answer"},
		{"hi<|turn>model\n", "<|channel>final<channel|>answer", "final", "answer"},
		{"hi<|turn>model\n", "<|channel>thou", "thou", ""},
		{"hi<|turn>model\n", "answer <channel|>", "", "answer <channel|>"},
		{"hi<|channel>thought\n", "why<channel|>\nanswer", "why", "answer"},
		{"hi<|channel>", "thought\nwhy<channel|>answer", "why", "answer"},
		{"hi<|channel>thought\n<channel|>", "answer", "", "answer"},
	} {
		for _, parts := range [][]string{{c.text}, strings.Split(c.text, "")} {
			s := NewSplitter(Channels, c.prompt)
			var reasoning, content string
			for i, part := range parts {
				r, t := s.Next(part, i == len(parts)-1)
				reasoning, content = reasoning+r, content+t
			}
			require.Equal(t, c.reasoning, reasoning, c.text)
			require.Equal(t, c.content, content, c.text)
		}
	}
}

// The tags of reasoning follow from the template.
func TestTagsOfTemplates(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]*TagPair{
		"{{ '<think>' }}{{ '</think>' }}": &Think, "{{ '<|channel>thought\n<channel|>' }}": &Channels, "{{ '<|channel|>' }}": nil, "plain": nil,
	} {
		tmpl := parse(source)
		require.Equal(t, want != nil, tmpl.Reasons(), source)
		if want != nil {
			require.Equal(t, *want, tmpl.Tags(), source)
		}
	}
}

// The result does not depend on how the text is cut into parts.
func TestSplitterOfParts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOf(rapid.SampledFrom([]string{"<think>", "</think>", "<", "/", "thi", "nk>", "\n", " ", "a", "é"})).Draw(t, "parts")
		prompt := rapid.SampledFrom([]string{"p", "p<think>"}).Draw(t, "prompt")
		wantReasoning, wantContent := NewSplitter(Think, prompt).Next(strings.Join(parts, ""), true)
		s := NewSplitter(Think, prompt)
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

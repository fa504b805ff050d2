package chat

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/engine/tokenizer"
)

// vocabulary returns the tags of a tokenizer with the given tokens. "Ċ" is a line break. The first
// token is a control token.
func vocabulary(t *testing.T, tokens ...string) *Tags {
	t.Helper()
	return vocabularyOf(t, Think, tokens...)
}

func vocabularyOf(t *testing.T, pair TagPair, tokens ...string) *Tags {
	t.Helper()
	types := make([]int32, len(tokens))
	for i := range types {
		types[i] = 1
	}
	types[0] = 3
	meta := gguf.NewMetadata()
	meta.Set("tokenizer.ggml.model", "gpt2")
	meta.Set("tokenizer.ggml.pre", "gpt-2")
	meta.Set("tokenizer.ggml.tokens", tokens)
	meta.Set("tokenizer.ggml.token_type", types)
	meta.Set("tokenizer.ggml.merges", []string{})
	tok, err := tokenizer.New(meta)
	require.NoError(t, err)
	return NewTags(tok, pair)
}

const (
	whole = iota
	open
	closed
	less
	slashThink
	greater
	greaterBrace
	closedBrace
	line
	lines
	word
	brace
)

func TestTags(t *testing.T) {
	t.Parallel()
	tags := vocabulary(t, "<think>", "Ċ<think>Ċ", "</think>", "<", "/think", ">", ">{", "</think>{", "Ċ", "ĊĊ", "why", "{")
	require.Equal(t, []int32{whole, open}, tags.Openers)
	require.Equal(t, []int32{line, lines}, tags.Breaks)
	for _, c := range []struct {
		name    string
		prompt  string
		tokens  []int32
		stage   Stage
		content []int32 // indices in tokens of those that belong to the content
		crosses []int32
	}{
		{"no reasoning", "hi<think></think>\n\n", nil, StageContent, nil, nil},
		{"the answer may reason", "hi", nil, StageStart, nil, nil},
		{"and does", "hi", []int32{whole}, StageReasoning, nil, []int32{closedBrace}},
		{"after a line break", "hi", []int32{line, whole, word}, StageReasoning, []int32{0}, []int32{closedBrace}},
		{"and does not", "hi", []int32{brace}, StageContent, []int32{0}, nil},
		{"begun by the template", "hi<think>\n", []int32{word}, StageReasoning, nil, []int32{closedBrace}},
		{"the beginning of the tag", "hi<think>", []int32{word, less}, StageReasoning, nil, []int32{closedBrace}},
		{"all but its end", "hi<think>", []int32{word, less, slashThink}, StageReasoning, nil, []int32{greaterBrace, closedBrace}},
		{"no tag", "hi<think>", []int32{less, slashThink, word}, StageReasoning, nil, []int32{closedBrace}},
		{"the tag in parts", "hi<think>", []int32{less, slashThink, greater}, StageGap, nil, nil},
		{"the tag", "hi<think>", []int32{word, line, closed}, StageGap, nil, nil},
		{"line breaks after it", "hi<think>", []int32{closed, lines}, StageContent, nil, nil},
		{"further line breaks", "hi<think>", []int32{closed, lines, line}, StageContent, []int32{2}, nil},
		{"content after it", "hi<think>", []int32{closed, brace, whole}, StageContent, []int32{1, 2}, nil},
		{"the tag and content in one token", "hi<think>", []int32{closedBrace}, StageContent, []int32{0}, nil},
	} {
		th := tags.Begin(c.prompt)
		var content []int32
		for i, id := range c.tokens {
			copied := th
			if th.Next(id) {
				content = append(content, int32(i))
			}
			copied.Next(less) // does not change the original
		}
		require.Equal(t, c.stage, th.Stage(), c.name)
		require.Equal(t, c.content, content, c.name)
		if c.stage == StageReasoning {
			require.Equal(t, c.crosses, th.Crossing(), c.name)
		}
	}
}

// An opening tag is a token of its own only after white space. After a part of the tag, it would
// follow content.
func TestMayOpen(t *testing.T) {
	t.Parallel()
	tags := vocabulary(t, "<think>", "Ċ<think>Ċ", "</think>", "<", "/think", ">", ">{", "</think>{", "Ċ", "ĊĊ", "why", "{")
	for _, c := range []struct {
		name   string
		prompt string
		tokens []int32
		open   bool
	}{
		{"at the start", "hi", nil, true},
		{"after line breaks", "hi", []int32{line, lines}, true},
		{"after a part of the tag", "hi", []int32{less}, false},
		{"after a line break and a part of the tag", "hi", []int32{line, less}, false},
		{"after text that is no tag", "hi", []int32{less, word}, false},
		{"in the reasoning", "hi", []int32{whole}, false},
		{"after the reasoning", "hi", []int32{whole, closed}, false},
		{"without reasoning", "hi<think></think>", nil, false},
	} {
		th := tags.Begin(c.prompt)
		for _, id := range c.tokens {
			th.Next(id)
		}
		require.Equal(t, c.open, th.MayOpen(), c.name)
	}
}

// TestTagsOfChannels follows the reasoning of Gemma 4, whose tags are tokens.
func TestTagsOfChannels(t *testing.T) {
	t.Parallel()
	const s, open, closed, label, newline, text, both = 0, 1, 2, 3, 4, 5, 6
	tags := vocabularyOf(t, Channels, "<s>", "<|channel>", "<channel|>", "thought", "Ċ", "a", "<channel|>a")
	require.Equal(t, []int32{open}, tags.Openers)
	th := tags.Begin("hi<|turn>model\n")
	require.True(t, th.MayOpen())
	for _, id := range []int32{open, label, newline, text} {
		th.Next(id)
		require.Equal(t, StageReasoning, th.Stage())
	}
	require.Equal(t, []int32{both}, th.Crossing())
	require.False(t, th.Next(closed))
	require.Equal(t, StageGap, th.Stage())
	require.True(t, th.Next(text))
	begun := tags.Begin("hi<|turn>model\n<|channel>thought\n<channel|>")
	require.Equal(t, StageContent, begun.Stage(), "the template has ended the reasoning")
}

// A model whose vocabulary has no opening tag does not begin to reason by itself.
func TestTagsOfAVocabularyWithoutOpeners(t *testing.T) {
	t.Parallel()
	tags := vocabulary(t, "<s>", "a", "<", "Ċ")
	th := tags.Begin("hi")
	require.Equal(t, StageContent, th.Stage())
	require.True(t, th.Next(1))
	th = Thinking{}
	require.Equal(t, StageContent, th.Stage())
	require.True(t, th.Next(1))
}

package openai

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/generation"
)

// A BOS that the tokenizer adds is a token, but the echoed text does not contain it.
func TestTextOffsetsLeaveBOSOut(t *testing.T) {
	t.Parallel()
	tokens := []generation.TokenLogprob{token("<s>", 0), token("a", -1), token("b", -1)}
	require.Equal(t, []int{0, 0, 1}, newCompletionLogprobs("ab", tokens, nil, 0).TextOffset)
	require.Equal(t, []int{0, 3, 4}, newCompletionLogprobs("<s>ab", tokens, nil, 0).TextOffset, "the text contains a BOS that was written out or given as an id")
	require.Equal(t, []int{0, 3, 4}, newCompletionLogprobs("", nil, tokens, 0).TextOffset)
}

// Offsets count characters, also where tokens split them, and nothing is counted before the text.
func TestTextOffsetsOfSplitCharacters(t *testing.T) {
	t.Parallel()
	split := func(b ...byte) generation.TokenLogprob { return generation.TokenLogprob{Text: "\uFFFD", Bytes: b} }
	for name, c := range map[string]struct {
		tokens []generation.TokenLogprob
		want   []int
	}{
		"none":                         {nil, []int{}},
		"a character of two tokens":    {[]generation.TokenLogprob{token("a", 0), split(0xC3), split(0xA9), token("b", 0)}, []int{0, 1, 1, 2}},
		"a character of four tokens":   {[]generation.TokenLogprob{split(0xF0), split(0x9F), split(0x98), split(0x80), token("b", 0)}, []int{0, 0, 0, 0, 1}},
		"several characters in one":    {[]generation.TokenLogprob{token("né", 0), token("é", 0), token("z", 0)}, []int{0, 2, 3}},
		"a continuation at the start":  {[]generation.TokenLogprob{split(0xA9), token("b", 0)}, []int{0, 0}},
		"a token without bytes":        {[]generation.TokenLogprob{token("a", 0), {Text: "<s>"}, token("b", 0)}, []int{0, 1, 1}},
		"the end of one, then another": {[]generation.TokenLogprob{split(0xC3), split(0xA9, 'x'), token("b", 0)}, []int{0, 0, 2}},
	} {
		require.Equal(t, c.want, newCompletionLogprobs("", nil, c.tokens, 0).TextOffset, name)
	}
}

// JSON has no infinity and no NaN.
func TestLogprobsThatAreNotFinite(t *testing.T) {
	t.Parallel()
	for _, p := range []float64{math.Inf(-1), math.Inf(1), math.NaN()} {
		text, err := json.Marshal(logprob(p))
		require.NoError(t, err)
		require.Equal(t, "-9999", string(text))
	}
	text, err := json.Marshal(logprob(-1.5))
	require.NoError(t, err)
	require.Equal(t, "-1.5", string(text))
}

func token(text string, p float64) generation.TokenLogprob {
	return generation.TokenLogprob{Text: text, Bytes: []byte(text), Logprob: p}
}

package openai

import (
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

func token(text string, p float64) generation.TokenLogprob {
	return generation.TokenLogprob{Text: text, Bytes: []byte(text), Logprob: p}
}

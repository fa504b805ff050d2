package engine_test

import (
	"slices"
	"testing"

	"github.com/ingot-run/ingot/engine/generation"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/model/modeltest"
)

func TestChoicesAndSeeds(t *testing.T) {
	t.Parallel()
	e := open(t, microGLM, engine.Options{})
	ask := func(seed uint64, n int) []generation.Choice {
		return generate(t, e, generation.Request{
			Tokens: randomTokens(5, 9), N: n, MaxTokens: 16, IgnoreEOS: true,
			Sampling: generation.Sampling{Temperature: 1, Seed: seed},
		}).Choices
	}
	three := ask(1, 3)
	require.NotEqual(t, three[0].Tokens, three[1].Tokens)
	require.NotEqual(t, three[1].Tokens, three[2].Tokens)
	require.Equal(t, three, ask(1, 3), "the same seed gives the same choices")
	require.Equal(t, three[:1], ask(1, 1), "a choice does not depend on the number of choices")
	require.NotEqual(t, three[0].Tokens, ask(2, 1)[0].Tokens)
}

func TestGreedyChoicesAreEqual(t *testing.T) {
	t.Parallel()
	e := open(t, microLlama, engine.Options{})
	c := generate(t, e, generation.Request{Tokens: randomTokens(6, 9), N: 3, MaxTokens: 8, IgnoreEOS: true})
	require.Equal(t, c.Choices[0], c.Choices[1])
	require.Equal(t, c.Choices[0], c.Choices[2])
}

func TestLogitBias(t *testing.T) {
	t.Parallel()
	e := open(t, microLlama, engine.Options{})
	ref := modeltest.Cases(t, microLlama)[0]
	ask := func(bias map[int32]float64) []int32 {
		return generate(t, e, generation.Request{
			Tokens: ref.PromptTokens, MaxTokens: 4, IgnoreEOS: true, Sampling: generation.Sampling{LogitBias: bias},
		}).Choices[0].Tokens
	}
	require.Equal(t, []int32{77, 77, 77, 77}, ask(map[int32]float64{77: 1000}))
	top := ref.TopLogits[len(ref.PromptTokens)-1]
	require.Equal(t, ref.GreedyTokens[:4], ask(nil))
	require.Equal(t, int32(top[1][0]), ask(map[int32]float64{int32(top[0][0]): -1000})[0], "the token with the reference's second highest logit")
}

func TestPenalties(t *testing.T) {
	t.Parallel()
	e := open(t, microLlama, engine.Options{})
	ref := modeltest.Cases(t, microLlama)[0] // its answer repeats itself
	ask := func(p generation.Sampling) []int32 {
		return generate(t, e, generation.Request{Tokens: ref.PromptTokens, MaxTokens: 24, IgnoreEOS: true, Sampling: p}).Choices[0].Tokens
	}
	distinct := func(ids []int32) int { return len(slices.Compact(slices.Sorted(slices.Values(ids)))) }
	require.Equal(t, ref.GreedyTokens, ask(generation.Sampling{RepetitionPenalty: 1}))
	require.Less(t, distinct(ref.GreedyTokens), 10)
	for name, p := range map[string]generation.Sampling{
		"presence":   {PresencePenalty: 1000},
		"frequency":  {FrequencyPenalty: 1000},
		"repetition": {RepetitionPenalty: 1e6},
	} {
		require.Equal(t, 24, distinct(ask(p)), name)
	}
	// The repetition penalty also counts the tokens of the prompt. The other penalties do not.
	prompt := ref.GreedyTokens[:1]
	first := func(p generation.Sampling) int32 {
		p.LogitBias = map[int32]float64{prompt[0]: 100}
		return generate(t, e, generation.Request{Tokens: prompt, MaxTokens: 1, IgnoreEOS: true, Sampling: p}).Choices[0].Tokens[0]
	}
	require.Equal(t, prompt[0], first(generation.Sampling{PresencePenalty: 1000, FrequencyPenalty: 1000}))
	require.NotEqual(t, prompt[0], first(generation.Sampling{RepetitionPenalty: 1e6}))
}

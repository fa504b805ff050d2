package engine_test

import (
	"math"
	"testing"

	"github.com/ingot-run/ingot/engine/generation"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine"
)

// If a model drafts for itself, all drafts are right: each step generates the drafted tokens and
// one more.
func TestDraftsOfTheSameModelAreAccepted(t *testing.T) {
	t.Parallel()
	for name, path := range families(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := open(t, path, engine.Options{Context: 128, Draft: engine.DraftModel, DraftModel: path, DraftTokens: 4})
			c := generate(t, e, generation.Request{Tokens: randomTokens(1, 9), MaxTokens: 51, IgnoreEOS: true})
			require.Equal(t, c.Stats.DraftTokens, c.Stats.AcceptedTokens)
			require.Equal(t, 11, c.Stats.Steps, "the prompt's step generates one token, and ten steps generate five each")
		})
	}
}

// If a text repeats itself, n-grams predict the next tokens.
func TestNGramsOfARepetition(t *testing.T) {
	t.Parallel()
	e := open(t, microLlama, engine.Options{Context: 256, Draft: engine.DraftNGram, DraftTokens: 4})
	var prompt []int32
	for range 8 {
		prompt = append(prompt, 11, 22, 33, 44, 55)
	}
	// A bias makes the model repeat one token.
	req := generation.Request{Tokens: prompt, MaxTokens: 41, IgnoreEOS: true, Sampling: generation.Sampling{LogitBias: map[int32]float64{7: 100}}}
	c := generate(t, e, req)
	require.Greater(t, c.Stats.AcceptedTokens, 20)
	require.Less(t, c.Stats.Steps, 21)
}

// Drafts are accepted with the probability that the model gives them, so that the drawn tokens have
// the model's distribution. A chi-squared test compares the counts of drawn tokens with the model's
// probabilities.
func TestDraftingKeepsTheDistribution(t *testing.T) {
	t.Parallel()
	const draws = 3000
	e := open(t, microGLM, engine.Options{Context: 64, Draft: engine.DraftMTP, DraftTokens: 3})
	prompt := randomTokens(5, 12)
	// With few candidates, each candidate is drawn often.
	params := generation.Sampling{Temperature: 0.7, TopK: 4}
	first := generate(t, e, generation.Request{Tokens: prompt, MaxTokens: 1, IgnoreEOS: true, Logprobs: true, TopLogprobs: 4})
	lead := first.Choices[0].Tokens[0]

	// The second token is a draft or follows one. Only rows that begin with the likeliest first
	// token are counted.
	counts, n := map[int32]float64{}, 0.0
	drafted := 0
	for seed := range uint64(draws) {
		params.Seed = seed
		c := generate(t, e, generation.Request{Tokens: prompt, MaxTokens: 4, IgnoreEOS: true, Sampling: params})
		drafted += c.Stats.DraftTokens
		if got := c.Choices[0].Tokens; got[0] == lead {
			counts[got[1]]++
			n++
		}
	}
	require.Greater(t, drafted, draws)
	require.Greater(t, n, 300.0)

	after := generate(t, e, generation.Request{Tokens: append(prompt, lead), MaxTokens: 1, IgnoreEOS: true, Logprobs: true, TopLogprobs: 4})
	top := after.Choices[0].Logprobs[0].Top
	total := 0.0
	for _, l := range top {
		total += math.Exp(l.Logprob / params.Temperature)
	}
	chi := 0.0
	for _, l := range top {
		want := n * math.Exp(l.Logprob/params.Temperature) / total
		chi += (counts[l.ID] - want) * (counts[l.ID] - want) / want
		delete(counts, l.ID)
	}
	require.Empty(t, counts, "only the four likeliest tokens can be drawn")
	require.Less(t, chi, 16.3, "chi-squared is above the 0.001 limit for 3 degrees of freedom")
}

// Rejected drafts have no later effect: up to the end of the context, the text is the same with and
// without drafts.
func TestDraftingToTheEndOfTheContext(t *testing.T) {
	t.Parallel()
	prompt := randomTokens(3, 20)
	var want []int32
	for _, o := range []engine.Options{
		{Draft: engine.DraftOff},
		{Draft: engine.DraftMTP, DraftTokens: 8},
		{Draft: engine.DraftModel, DraftModel: microLlama, DraftTokens: 8},
		{Draft: engine.DraftNGram, DraftTokens: 8},
	} {
		o.Context = 64
		c := generate(t, open(t, microGLM, o), generation.Request{Tokens: prompt, IgnoreEOS: true})
		if want == nil {
			want = c.Choices[0].Tokens
		}
		require.Equal(t, want, c.Choices[0].Tokens, string(o.Draft))
		require.Len(t, want, 44)
	}
}

package engine_test

import (
	"math"
	"slices"
	"testing"

	"github.com/ingot-run/ingot/engine/generation"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/model/modeltest"
)

func TestGreedyMatchesTheReference(t *testing.T) {
	t.Parallel()
	for name, path := range families(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := open(t, path, engine.Options{StepTime: wholeSteps, Draft: engine.DraftOff})
			for _, ref := range modeltest.Cases(t, path) {
				c := generate(t, e, generation.Request{Tokens: ref.PromptTokens, MaxTokens: len(ref.GreedyTokens), IgnoreEOS: true})
				require.Equal(t, ref.PromptTokens, c.PromptTokens)
				require.Len(t, c.Choices, 1)
				require.Equal(t, ref.GreedyTokens, c.Choices[0].Tokens)
				require.Equal(t, generation.FinishLength, c.Choices[0].FinishReason)
				require.Equal(t, len(ref.PromptTokens), c.Stats.PromptTokens)
				require.Equal(t, len(ref.GreedyTokens), c.Stats.CompletionTokens)
				require.Equal(t, len(ref.GreedyTokens), c.Stats.Steps)
				require.InDelta(t, 1, c.Stats.BatchMean, 0)
			}
			require.Zero(t, e.Snapshot().PagesUsed)
		})
	}
}

// The references of the tiny models have rendered prompts as texts, and answers that end with a
// stop id.
func TestTinyModelsMatchTheirReferences(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"tiny-glm", "tiny-llama"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := modeltest.Tiny(t, name)
			e := open(t, path, engine.Options{})
			for _, ref := range modeltest.Cases(t, path) {
				c := generate(t, e, generation.Request{Text: ref.Text, MaxTokens: 96})
				require.Equal(t, ref.PromptTokens, c.PromptTokens)
				require.Equal(t, ref.GreedyTokens, c.Choices[0].Tokens)
				require.Equal(t, ref.GreedyText, c.Choices[0].Text)
			}
		})
	}
}

func TestLogprobsMatchTheReference(t *testing.T) {
	t.Parallel()
	for name, path := range families(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := open(t, path, engine.Options{StepTime: wholeSteps, Draft: engine.DraftOff})
			for _, ref := range modeltest.Cases(t, path) {
				c := generate(t, e, generation.Request{
					Tokens: ref.PromptTokens, MaxTokens: len(ref.GreedyTokens), IgnoreEOS: true,
					Logprobs: true, PromptLogprobs: true, TopLogprobs: 8,
				})
				all := slices.Concat(c.PromptLogprobs, c.Choices[0].Logprobs)
				require.Len(t, all, len(ref.PromptTokens)+len(ref.GreedyTokens))
				require.Equal(t, ref.PromptTokens[0], all[0].ID)
				require.Zero(t, all[0].Logprob)
				require.Empty(t, all[0].Top)
				for i, got := range all[1:] {
					require.Len(t, got.Top, 8)
					for j, want := range ref.TopLogits[i] {
						require.InDelta(t, want[1]-ref.LogSumExp[i], got.Top[j].Logprob, 0.01)
						if got.ID == got.Top[j].ID {
							require.InDelta(t, got.Top[j].Logprob, got.Logprob, 0)
						}
					}
				}
			}
		})
	}
}

func TestLogprobsOfTheWholeVocabularySumToOne(t *testing.T) {
	t.Parallel()
	e := open(t, microGLM, engine.Options{})
	c := generate(t, e, generation.Request{
		Tokens: randomTokens(1, 5), MaxTokens: 3, IgnoreEOS: true,
		Logprobs: true, PromptLogprobs: true, TopLogprobs: e.Info().Vocab,
	})
	for _, l := range slices.Concat(c.PromptLogprobs[1:], c.Choices[0].Logprobs) {
		sum, last := 0.0, math.Inf(1)
		for _, top := range l.Top {
			sum += math.Exp(top.Logprob)
			require.LessOrEqual(t, top.Logprob, last)
			last = top.Logprob
			if top.ID == l.ID {
				require.InDelta(t, top.Logprob, l.Logprob, 0)
			}
		}
		require.InDelta(t, 1, sum, 1e-9)
		require.Equal(t, string(e.Tokenizer().Bytes(l.ID)), string(l.Bytes))
	}
}

// With PromptOnly, the log-probabilities of a prompt are computed without generating an answer.
// They must equal those of the same prompt with an answer.
func TestPromptOnly(t *testing.T) {
	t.Parallel()
	e := open(t, microLlama, engine.Options{Context: 200})
	prompt := randomTokens(2, 200)
	c := generate(t, e, generation.Request{Tokens: prompt, PromptOnly: true, PromptLogprobs: true, TopLogprobs: 2, N: 2})
	require.Len(t, c.Choices, 2)
	for _, choice := range c.Choices {
		require.Equal(t, generation.Choice{FinishReason: generation.FinishLength}, choice)
	}
	require.Zero(t, c.Stats.CompletionTokens)
	require.Zero(t, c.Stats.TTFT)
	require.Positive(t, c.Stats.Steps)

	answered := generate(t, e, generation.Request{Tokens: prompt[:199], MaxTokens: 1, PromptLogprobs: true, TopLogprobs: 2, N: 2})
	require.Equal(t, c.PromptLogprobs[:199], answered.PromptLogprobs)

	for _, req := range []generation.Request{
		{Tokens: prompt, PromptOnly: true},
		{Tokens: prompt[:1], PromptOnly: true, PromptLogprobs: true},
	} {
		c := generate(t, e, req)
		require.Zero(t, c.Stats.Steps, "a prompt of one token needs no step")
		require.Equal(t, generation.FinishLength, c.Choices[0].FinishReason)
	}
}

func TestTheContextEndsAnAnswer(t *testing.T) {
	t.Parallel()
	e := open(t, microLlama, engine.Options{Context: 20})
	for _, maxTokens := range []int{0, 100, 15} {
		c := generate(t, e, generation.Request{Tokens: randomTokens(3, 5), MaxTokens: maxTokens, IgnoreEOS: true})
		require.Len(t, c.Choices[0].Tokens, 15)
		require.Equal(t, generation.FinishLength, c.Choices[0].FinishReason)
	}
	c := generate(t, e, generation.Request{Tokens: randomTokens(3, 19), IgnoreEOS: true})
	require.Len(t, c.Choices[0].Tokens, 1)
}

func TestStatsHaveTheTimes(t *testing.T) {
	t.Parallel()
	e := open(t, microLlama, engine.Options{StepTime: wholeSteps, PrefillChunk: 10, PageSize: 10, Draft: engine.DraftOff})
	before := e.Snapshot()
	c := generate(t, e, generation.Request{Tokens: randomTokens(4, 35), MaxTokens: 6, IgnoreEOS: true, N: 2})
	s := c.Stats
	require.Equal(t, 35, s.PromptTokens)
	require.Equal(t, 12, s.CompletionTokens)
	require.Equal(t, 4+5, s.Steps, "four steps for the prompt, whose last one gives both first tokens, and five more")
	require.InDelta(t, (3*1+6*2)/9.0, s.BatchMean, 1e-9, "the second choice starts when the shared pages are full")
	require.Positive(t, s.Prefill)
	require.Positive(t, s.Decode)
	require.GreaterOrEqual(t, s.TTFT, s.Prefill)
	require.GreaterOrEqual(t, s.Total, s.TTFT+s.Decode)

	after := e.Snapshot()
	require.Equal(t, uint64(9), after.Steps-before.Steps)
	require.Equal(t, uint64(35+5), after.PromptTokens-before.PromptTokens)
	require.Equal(t, uint64(12), after.GeneratedTokens-before.GeneratedTokens)
	require.Positive(t, after.StepTime)
	require.Positive(t, after.LastStep)
	require.Zero(t, after.Running+after.Waiting+after.PagesUsed)
	require.Positive(t, after.PagesTotal)
}

package engine_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/model/modeltest"
)

// mixerFamilies are families with layers that are neither attention nor a gated delta net, or with
// windows without a rotation.
var mixerFamilies = []string{"lfm2", "lfm2moe", "muse-glimmer", "granitehybrid", "nemotron_h", "nemotron_h_moe", "nemotron_h_moe-latent"}

// Random requests run on an engine of a random family and of random sizes. They share beginnings,
// draft, and are preempted when pages run out. The results must have the same bits as on an engine
// that answers the requests one after another, drafts nothing and shares nothing.
func TestMixersAreLikeOneAtATime(t *testing.T) {
	t.Parallel()
	const context, vocabulary = 230, 500
	var beginnings [2][]int32
	for i := range beginnings {
		beginnings[i] = inVocabulary(generation.Request{Tokens: randomTokens(uint64(20+i), 140)}, vocabulary).Tokens
	}
	paths, plain := map[string]string{}, map[string]*engine.Engine{}
	for _, name := range mixerFamilies {
		paths[name] = modeltest.Recurrent(t, name)
		plain[name] = open(t, paths[name], engine.Options{Context: context, MaxSequences: 1, Draft: engine.DraftOff, NoSharing: true})
	}
	preemptions, cached, accepted := 0, 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		name := rapid.SampledFrom(mixerFamilies).Draw(rt, "family")
		path := paths[name]
		opts := engine.Options{
			Context: context, MaxSequences: rapid.IntRange(1, 6).Draw(rt, "sequences"), PageSize: rapid.SampledFrom([]int{1, 5, 8, 16, 64}).Draw(rt, "page size"),
			Draft: rapid.SampledFrom([]engine.Drafting{engine.DraftNGram, engine.DraftOff}).Draw(rt, "draft"), DraftTokens: rapid.IntRange(0, 4).Draw(rt, "draft tokens"),
			StepTime: wholeSteps,
		}
		opts.PrefillChunk = rapid.IntRange(64, 130).Draw(rt, "chunk")
		opts.StepTokens = opts.MaxSequences + opts.PrefillChunk + rapid.IntRange(0, 90).Draw(rt, "step tokens")
		if rapid.Bool().Draw(rt, "few pages") {
			fit, err := engine.CheckFit(path, backend(t), opts)
			require.NoError(rt, err)
			opts.Memory = memoryFor(t, path, opts, fit.PerToken*int64(context+opts.PageSize)*rapid.Int64Range(102, 130).Draw(rt, "memory")/100)
		}
		reqs := drawRequests(rt, 90)
		for i := range reqs {
			reqs[i] = inVocabulary(reqs[i], vocabulary)
			beginning := beginnings[rapid.IntRange(0, 1).Draw(rt, "beginning")]
			reqs[i].Tokens = slices.Concat(beginning[:rapid.SampledFrom([]int{140, 129, 128, 90, 64, 10, 0}).Draw(rt, "common")], reqs[i].Tokens)
		}
		figures, got := likeOneAtATime(t, rt, plain[name], path, opts, reqs)
		preemptions += int(figures.Preemptions)
		accepted += int(figures.AcceptedTokens)
		for _, c := range got {
			cached += c.Stats.CachedTokens
		}
	})
	t.Logf("%d preemptions, %d cached tokens, %d accepted drafts", preemptions, cached, accepted)
	require.Positive(t, cached)
}

// The rows of convolutions are freed outside the window of a kernel.
func TestConvolutionWindow(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"lfm2", "lfm2moe"} {
		require.Equal(t, 3, open(t, modeltest.Recurrent(t, name), engine.Options{Context: 180}).Info().Fit.Window)
	}
}

// Preempted sequences are computed again, also the states of recurrent layers and the rows of
// convolutions.
func TestMixersArePreempted(t *testing.T) {
	t.Parallel()
	reqs := make([]generation.Request, 8)
	for i := range reqs {
		reqs[i] = inVocabulary(generation.Request{Tokens: randomTokens(uint64(i), 20+i), MaxTokens: 100, IgnoreEOS: true, Logprobs: true, PromptLogprobs: true}, 500)
	}
	for _, name := range mixerFamilies {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := modeltest.Recurrent(t, name)
			opts := engine.Options{Context: 128, Draft: engine.DraftOff, MaxSequences: 8, PageSize: 8}
			roomy := open(t, path, opts)
			g := newGate()
			opts.Trace = g.trace
			opts.Memory = memoryFor(t, path, opts, 140*roomy.Info().Fit.PerToken)
			tight := open(t, path, opts)
			expectShort(t, tight, g)
			for i, c := range generateAll(t, tight, g, reqs) {
				same(t, generate(t, roomy, reqs[i]), c, "a request that may have been preempted")
			}
			require.NotZero(t, tight.Snapshot().Preemptions)
			require.Zero(t, tight.Snapshot().PagesUsed)
		})
	}
}

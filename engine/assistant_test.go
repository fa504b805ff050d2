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

// Random requests run on engines of random sizes, often with few pages, whose models have layers of
// different sizes. They share beginnings, are preempted, and draft, also with the models' small
// drafters. Their results must be those of an engine that answers the requests one after another
// without drafts.
func TestDraftsOfAssistantsChangeNothing(t *testing.T) {
	t.Parallel()
	const context = 90
	var beginnings [2][]int32
	for i := range beginnings {
		beginnings[i] = inVocabulary(generation.Request{Tokens: randomTokens(uint64(i), 70)}, 500).Tokens
	}
	modeltest.Families(t, func(t *testing.T, f *modeltest.Family) {
		if f.Name != "gemma4-e" {
			return
		}
		path := f.Files[0]
		plain := open(t, path, engine.Options{Context: context, MaxSequences: 1, Draft: engine.DraftOff, NoSharing: true})
		preemptions, cached, drafted, accepted := 0, 0, 0, 0
		rapid.Check(t, func(rt *rapid.T) {
			opts := drawSizes(rt, context)
			opts.Draft = rapid.SampledFrom([]engine.Drafting{engine.DraftModel, engine.DraftModel, engine.DraftNGram, engine.DraftOff}).Draw(rt, "draft")
			opts.DraftTokens = rapid.IntRange(0, 8).Draw(rt, "draft tokens")
			if opts.Draft == engine.DraftModel {
				opts.DraftModel = f.Assistant.File
			}
			opts.StepTime = wholeSteps
			fit, err := engine.CheckFit(path, backend(t), opts)
			require.NoError(rt, err)
			require.Equal(rt, 16, fit.Window, "pages before the window are freed, also with a drafter that has no cache")
			if rapid.Bool().Draw(rt, "few pages") {
				positions := min(context, fit.Window+opts.PrefillChunk+opts.PageSize) + opts.PageSize
				one := int64(context+opts.PageSize)*(fit.PerToken-fit.Windowed) + int64(positions)*fit.Windowed
				opts.Memory = memoryFor(t, path, opts, one*rapid.Int64Range(110, 140).Draw(rt, "memory")/100)
			}
			reqs := drawRequests(rt, 15)
			for i := range reqs {
				reqs[i] = inVocabulary(reqs[i], 500)
				beginning := beginnings[rapid.IntRange(0, 1).Draw(rt, "beginning")]
				reqs[i].Tokens = slices.Concat(beginning[:rapid.IntRange(0, 70).Draw(rt, "common")], reqs[i].Tokens)
			}
			figures, got := likeOneAtATime(t, rt, plain, path, opts, reqs)
			preemptions += int(figures.Preemptions)
			for _, c := range got {
				cached += c.Stats.CachedTokens
				if opts.Draft == engine.DraftModel {
					drafted += c.Stats.DraftTokens
					accepted += c.Stats.AcceptedTokens
				}
			}
		})
		t.Logf("%d preemptions, %d cached tokens, %d of %d drafts accepted", preemptions, cached, accepted, drafted)
		require.Positive(t, cached)
		require.Positive(t, drafted)
	})
}

// A drafter is not a model that answers, and a model with layers of different sizes cannot draft
// for another one. The errors say what to do.
func TestAssistantsAreForTheirModels(t *testing.T) {
	t.Parallel()
	modeltest.Families(t, func(t *testing.T, f *modeltest.Family) {
		if f.Name != "gemma4" {
			return
		}
		for message, c := range map[string]struct {
			path string
			opts engine.Options
		}{
			"--draft model=":      {f.Assistant.File, engine.Options{Context: 64}},
			"another small model": {f.Files[0], engine.Options{Context: 64, Draft: engine.DraftModel, DraftModel: f.Files[0]}},
		} {
			_, err := engine.Open(c.path, backend(t), c.opts)
			require.ErrorContains(t, err, message)
		}
	})
}

package engine_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/model/modeltest"
	"github.com/ingot-run/ingot/generation"
)

// windowed runs a test for each reference model with sliding windows between full layers. Their windows have 16 positions.
func windowed(t *testing.T, test func(t *testing.T, path string)) {
	t.Helper()
	modeltest.Families(t, func(t *testing.T, f *modeltest.Family) {
		if f.Name == "gemma3" || f.Name == "gpt-oss" {
			test(t, f.Files[0])
		}
	})
}

// wholeOptions are options of an engine that answers one request at a time and frees no windows: its small model, which is the model
// itself, shares the page table.
func wholeOptions(path string, context int) engine.Options {
	return engine.Options{Context: context, MaxSequences: 1, Draft: engine.DraftModel, DraftModel: path, DraftTokens: 1}
}

// inVocabulary maps the ids of a request to those of a smaller vocabulary.
func inVocabulary(req generation.Request, size int32) generation.Request {
	for _, ids := range [][]int32{req.Tokens, req.StopIDs} {
		for i := range ids {
			ids[i] %= size
		}
	}
	for id, bias := range req.Sampling.LogitBias {
		delete(req.Sampling.LogitBias, id)
		req.Sampling.LogitBias[id%size] = bias
	}
	return req
}

// Random requests run on an engine that frees the pages before windows, of random sizes and often with few pages. They share beginnings,
// have several choices, draft, and are preempted. Their results must be those of an engine that keeps all pages and answers the requests
// one after another.
func TestFreedWindowsChangeNothing(t *testing.T) {
	t.Parallel()
	const context = 90
	var beginnings [2][]int32
	for i := range beginnings {
		beginnings[i] = inVocabulary(generation.Request{Tokens: randomTokens(uint64(i), 70)}, 500).Tokens
	}
	windowed(t, func(t *testing.T, path string) {
		whole := open(t, path, wholeOptions(path, context))
		require.Zero(t, whole.Info().Fit.Window)
		preemptions, cached := 0, 0
		rapid.Check(t, func(rt *rapid.T) {
			opts := engine.Options{
				Context:      context,
				MaxSequences: rapid.IntRange(1, 6).Draw(rt, "sequences"),
				PageSize:     rapid.IntRange(1, 9).Draw(rt, "page size"),
				PrefillChunk: rapid.IntRange(1, 40).Draw(rt, "chunk"),
				Draft:        rapid.SampledFrom([]engine.Drafting{engine.DraftAuto, engine.DraftNGram, engine.DraftOff}).Draw(rt, "draft"),
				DraftTokens:  rapid.IntRange(0, 8).Draw(rt, "draft tokens"),
				StepTime:     wholeSteps,
			}
			opts.StepTokens = opts.MaxSequences + rapid.IntRange(0, 40).Draw(rt, "step tokens")
			if rapid.Bool().Draw(rt, "few pages") {
				fit, err := engine.CheckFit(path, backend(t), opts)
				require.NoError(rt, err)
				positions := min(context, fit.Window+opts.PrefillChunk+opts.PageSize)
				one := context*(fit.PerToken-fit.Windowed) + int64(positions)*fit.Windowed
				opts.Memory = memoryFor(t, path, opts, one*rapid.Int64Range(110, 140).Draw(rt, "memory")/100)
			}
			reqs := make([]generation.Request, rapid.IntRange(1, 9).Draw(rt, "requests"))
			for i := range reqs {
				reqs[i] = inVocabulary(drawRequest(rt, 15), 500)
				beginning := beginnings[rapid.IntRange(0, 1).Draw(rt, "beginning")]
				reqs[i].Tokens = slices.Concat(beginning[:rapid.IntRange(0, 70).Draw(rt, "common")], reqs[i].Tokens)
			}
			g := newGate()
			opts.Trace = g.trace
			e := open(t, path, opts)
			require.Equal(rt, 16, e.Info().Fit.Window)
			if rapid.Bool().Draw(rt, "expect short answers") {
				expectShort(t, e, g)
			}
			got := generateAll(t, e, g, reqs)
			preemptions += int(e.Snapshot().Preemptions)
			require.Zero(rt, e.Snapshot().PagesUsed)
			require.NoError(rt, e.Close())
			for i, req := range reqs {
				cached += got[i].Stats.CachedTokens
				same(rt, generate(t, whole, req), got[i], fmt.Sprintf("request %d", i))
			}
		})
		t.Logf("%d preemptions, %d cached tokens", preemptions, cached)
		require.Positive(t, cached)
	})
}

package engine_test

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/engine/model/modeltest"
)

// windowed runs a test for each reference model with sliding windows between full layers. Their
// windows have 16 positions.
func windowed(t *testing.T, test func(t *testing.T, path string)) {
	t.Helper()
	windowedNamed(t, test, "gemma3", "gpt-oss")
}

// windowedNamed runs a test for the reference models with the given names.
func windowedNamed(t *testing.T, test func(t *testing.T, path string), names ...string) {
	t.Helper()
	modeltest.Families(t, func(t *testing.T, f *modeltest.Family) {
		if slices.Contains(names, f.Name) {
			test(t, f.Files[0])
		}
	})
}

// wholeOptions are the options of an engine that answers one request at a time and does not free
// the pages before windows. An engine does not free them if it drafts with a small model, because
// that model uses the same page tables. Here, the small model is the model itself.
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

// Random requests run on an engine that frees the pages before windows, of random sizes and often
// with few pages. They share beginnings, have several choices, draft, and are preempted. Their
// results must be those of an engine that keeps all pages and answers the requests one after
// another.
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
			opts := drawSizes(rt, context)
			opts.Draft = rapid.SampledFrom([]engine.Drafting{engine.DraftAuto, engine.DraftNGram, engine.DraftOff}).Draw(rt, "draft")
			opts.DraftTokens = rapid.IntRange(0, 8).Draw(rt, "draft tokens")
			opts.StepTime = wholeSteps
			fit, err := engine.CheckFit(path, backend(t), opts)
			require.NoError(rt, err)
			require.Equal(rt, 16, fit.Window)
			if rapid.Bool().Draw(rt, "few pages") {
				// The last page of a sequence may be filled in part.
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
			figures, got := likeOneAtATime(t, rt, whole, path, opts, reqs)
			preemptions += int(figures.Preemptions)
			for _, c := range got {
				cached += c.Stats.CachedTokens
			}
		})
		t.Logf("%d preemptions, %d cached tokens", preemptions, cached)
		require.Positive(t, cached)
	})
}

// peak records the largest figures of an engine's snapshots. Its trace is called during steps.
type peak struct {
	engine         atomic.Pointer[engine.Engine]
	pages, running atomic.Int64
}

func (p *peak) trace(compute.Checkpoint) {
	if e := p.engine.Load(); e != nil {
		s := e.Snapshot()
		p.pages.Store(max(p.pages.Load(), int64(s.PagesUsed)))
		p.running.Store(max(p.running.Load(), int64(s.Running)))
	}
}

// gemma3 returns the reference model of Gemma 3 with another context and window. Its seven layers,
// one full and six with a window, are seven groups. A position takes gemma3Slot bytes in a layer:
// the keys and values of 2 heads with 32 values of 4 bytes each.
func gemma3(t *testing.T, path string, context, window uint32) string {
	t.Helper()
	return rewrite(t, path, func(m *gguf.Metadata) *gguf.Metadata {
		m.Set("gemma3.context_length", context)
		m.Set("gemma3.attention.sliding_window", window)
		return m
	})
}

const gemma3Full, gemma3Sliding, gemma3Slot = 1, 6, 2 * 2 * 32 * 4

// In full layers, a sequence has pages for all its positions. In layers with a window, it has only
// the pages of the window and of the chunk that is computed, and one more. A cache of that size
// suffices for a sequence of 8,192 positions.
func TestMemoryOfOneSequence(t *testing.T) {
	t.Parallel()
	const positions, window, chunk, page = 8192, 1024, 512, 16
	windowedNamed(t, func(t *testing.T, path string) {
		var p peak
		opts := engine.Options{Context: positions, MaxSequences: 1, PrefillChunk: chunk, PageSize: page, Draft: engine.DraftOff, Trace: p.trace}
		path = gemma3(t, path, positions, window)
		fit, err := engine.CheckFit(path, backend(t), opts)
		require.NoError(t, err)
		require.Equal(t, gemma3Full*positions/page+gemma3Sliding*((window+chunk)/page+1), fit.Pages)
		require.EqualValues(t, (gemma3Full+gemma3Sliding)*gemma3Slot, fit.PerToken)
		require.EqualValues(t, gemma3Sliding*gemma3Slot, fit.Windowed)

		be := backend(t)
		e := openOn(t, path, be, opts)
		require.Equal(t, fit.Pages, e.Snapshot().PagesTotal)
		cache := int64(fit.Pages * page * gemma3Slot)
		require.InEpsilon(t, fit.Weights+cache, be.Bytes(), 0.01)
		p.engine.Store(e)
		tokens := inVocabulary(generation.Request{Tokens: randomTokens(1, positions-20)}, 500).Tokens
		generate(t, e, generation.Request{Tokens: tokens, MaxTokens: 20, IgnoreEOS: true})
		require.EqualValues(t, gemma3Full*positions/page+gemma3Sliding*(window/page+1), p.pages.Load(), "pages between two steps")
		require.Zero(t, e.Snapshot().Preemptions)
		t.Logf("%d bytes instead of %d", cache, positions*fit.PerToken)
	}, "gemma3")
}

// If memory has room for all pages of two sequences, more than two sequences fit when the pages
// before windows are freed.
func TestMoreSequencesFit(t *testing.T) {
	t.Parallel()
	const positions, window, chunk, page = 1024, 128, 64, 16
	windowedNamed(t, func(t *testing.T, path string) {
		path = gemma3(t, path, positions, window)
		running := map[bool]int64{}
		for _, freed := range []bool{false, true} {
			var p peak
			opts := engine.Options{Context: positions, MaxSequences: 16, PrefillChunk: chunk, PageSize: page, Draft: engine.DraftOff, Trace: p.trace}
			model := path
			if !freed {
				model = gemma3(t, path, positions, positions) // all pages are in the window
			}
			opts.Memory = memoryFor(t, model, opts, 2*positions*(gemma3Full+gemma3Sliding)*gemma3Slot)
			e := open(t, model, opts)
			p.engine.Store(e)
			var group sync.WaitGroup
			for i := range uint64(12) {
				group.Go(func() {
					tokens := inVocabulary(generation.Request{Tokens: randomTokens(i, positions-30)}, 500).Tokens
					_, err := e.Generate(t.Context(), generation.Request{Tokens: tokens, MaxTokens: 30, IgnoreEOS: true})
					assert.NoError(t, err)
				})
			}
			group.Wait()
			running[freed] = p.running.Load()
			require.Zero(t, e.Snapshot().Preemptions)
			t.Logf("freed %t: %d positions fit, %d sequences ran", freed, e.Info().Fit.Tokens, running[freed])
			require.InDelta(t, e.Info().Fit.Tokens/positions, running[freed], 1)
		}
		require.Greater(t, running[true], 2*running[false])
	}, "gemma3")
}

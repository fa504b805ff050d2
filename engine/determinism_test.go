package engine_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/ingot-run/ingot/engine/generation"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ingot-run/ingot/engine"
)

// mixedRequests returns greedy and sampled requests with prompts of many lengths. Their results
// change if a single bit of a logit differs.
func mixedRequests() []generation.Request {
	var reqs []generation.Request
	for i, n := range []int{1, 2, 3, 5, 8, 15, 16, 17, 31, 32, 33, 48, 64, 65, 100, 130} {
		req := generation.Request{
			Tokens: randomTokens(uint64(n), n), MaxTokens: 12 + i%5, IgnoreEOS: true,
			Logprobs: true, TopLogprobs: 3, PromptLogprobs: i%4 == 0,
		}
		if i%2 == 1 {
			req.Sampling = generation.Sampling{Temperature: 0.9, TopP: 0.95, RepetitionPenalty: 1.1, Seed: uint64(i)}
		}
		reqs = append(reqs, req)
	}
	return reqs
}

// Batch invariance: a request has the same result, bit for bit, alone and in any batch, with its
// prompt in one chunk or in many.
func TestTheSameBitsInEveryBatch(t *testing.T) {
	t.Parallel()
	for name, path := range families(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reqs := mixedRequests()
			alone := open(t, path, engine.Options{Context: 256})
			want := make([]generation.Completion, len(reqs))
			for i, req := range reqs {
				want[i] = generate(t, alone, req)
				require.InDelta(t, 1, want[i].Stats.BatchMean, 0)
			}
			for _, chunk := range []int{1, 7, 64} {
				for _, size := range []int{2, 3, 5, 8, 16} {
					g := newGate()
					e := open(t, path, engine.Options{Context: 256, PrefillChunk: chunk, StepTokens: 64 + chunk, Trace: g.trace})
					// With each size, a request is in a different batch.
					for from := 0; from < len(reqs); from += size {
						to := min(from+size, len(reqs))
						got := generateAll(t, e, g, reqs[from:to])
						for i := range got {
							same(t, want[from+i], got[i], fmt.Sprintf("request %d, batch of %d, chunks of %d", from+i, size, chunk))
						}
						if from == 0 {
							require.Greater(t, got[0].Stats.BatchMean, 1.0)
						}
					}
				}
			}
		})
	}
}

// A request has the same result, bit for bit, on any number of threads. In steps with few rows, the
// threads divide the weights; in steps with many rows, they divide the rows.
func TestTheSameBitsOnAnyThreads(t *testing.T) {
	t.Parallel()
	for name, path := range families(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reqs := mixedRequests()
			alone := open(t, path, engine.Options{Context: 256, Draft: engine.DraftOff})
			want := make([]generation.Completion, len(reqs))
			for i, req := range reqs {
				want[i] = generate(t, alone, req)
			}
			for _, threads := range []int{2, 3, 16} {
				for _, draft := range []engine.Drafting{engine.DraftOff, engine.DraftAuto} {
					e := openOn(t, path, backendOf(t, threads), engine.Options{Context: 256, MaxSequences: 12, Draft: draft})
					got, errs := make([]generation.Completion, len(reqs)), make([]error, len(reqs))
					var group sync.WaitGroup
					for i, req := range reqs {
						group.Go(func() { got[i], errs[i] = e.Generate(t.Context(), req) })
					}
					group.Wait()
					for i := range reqs {
						require.NoError(t, errs[i])
						same(t, want[i], got[i], fmt.Sprintf("request %d, %d threads, drafting %s", i, threads, draft))
					}
				}
			}
		})
	}
}

// same requires that two completions are equal, except for their times.
func same(t require.TestingT, want, got generation.Completion, about string) {
	want.Stats, got.Stats = generation.Stats{}, generation.Stats{}
	require.Equal(t, want, got, about)
}

// drawRequest draws a request that fits into a context of the given number of positions.
func drawRequest(t *rapid.T, context int) generation.Request {
	id := rapid.Int32Range(0, 2047)
	req := generation.Request{
		Tokens:         rapid.SliceOfN(id, 1, context-1).Draw(t, "prompt"),
		N:              rapid.IntRange(0, 3).Draw(t, "n"),
		MaxTokens:      rapid.IntRange(1, 24).Draw(t, "max_tokens"),
		Stop:           rapid.SliceOfN(rapid.StringMatching("[a-z ]{1,2}"), 0, 2).Draw(t, "stop"),
		StopIDs:        rapid.SliceOfN(id, 0, 3).Draw(t, "stop ids"),
		IgnoreEOS:      rapid.Bool().Draw(t, "ignore_eos"),
		Logprobs:       rapid.Bool().Draw(t, "logprobs"),
		PromptLogprobs: rapid.Bool().Draw(t, "prompt logprobs"),
		TopLogprobs:    rapid.IntRange(0, 3).Draw(t, "top_logprobs"),
		PromptOnly:     rapid.IntRange(0, 9).Draw(t, "prompt only") == 0,
	}
	req.MinTokens = rapid.IntRange(0, min(4, req.MaxTokens)).Draw(t, "min_tokens")
	if rapid.Bool().Draw(t, "sampled") {
		req.Sampling = generation.Sampling{
			TopK:      rapid.SampledFrom([]int{0, 1, 40, 300}).Draw(t, "top_k"),
			LogitBias: map[int32]float64{id.Draw(t, "biased"): 3},
			Seed:      rapid.Uint64().Draw(t, "seed"),
		}
		for _, n := range generation.Numbers {
			if n.Name == "temperature" || rapid.Bool().Draw(t, "with "+n.Name) {
				*n.Of(&req.Sampling) = rapid.Float64Range(max(n.Low+0.1, -2), min(n.High, 2)).Draw(t, n.Name)
			}
		}
	}
	return req
}

func drawDrafting(t *rapid.T, path string, opts *engine.Options) {
	opts.Draft = rapid.SampledFrom([]engine.Drafting{engine.DraftAuto, engine.DraftNGram, engine.DraftModel, engine.DraftMTP, engine.DraftOff}).Draw(t, "draft")
	opts.DraftTokens = rapid.IntRange(0, 8).Draw(t, "draft tokens")
	switch {
	case opts.Draft == engine.DraftModel:
		opts.DraftModel = rapid.SampledFrom([]string{microGLM, microLlama}).Draw(t, "draft model")
	case opts.Draft == engine.DraftMTP && path == microLlama:
		opts.Draft = engine.DraftAuto
	}
}

// shareBeginnings gives some requests the same beginning, so that they share pages.
func shareBeginnings(t *rapid.T, reqs []generation.Request) {
	for i := 1; i < len(reqs); i++ {
		n := min(len(reqs[0].Tokens), len(reqs[i].Tokens)-1)
		if rapid.Bool().Draw(t, "shared") {
			copy(reqs[i].Tokens[:n], reqs[0].Tokens)
		}
	}
}

func drawSizes(t *rapid.T, context int) engine.Options {
	opts := engine.Options{
		Context:      context,
		MaxSequences: rapid.IntRange(1, 6).Draw(t, "sequences"),
		PageSize:     rapid.IntRange(1, 9).Draw(t, "page size"),
		PrefillChunk: rapid.IntRange(1, 40).Draw(t, "chunk"),
	}
	opts.StepTokens = opts.MaxSequences + rapid.IntRange(0, 40).Draw(t, "step tokens")
	return opts
}

// drawRequests draws up to nine requests with drawRequest.
func drawRequests(t *rapid.T, context int) []generation.Request {
	reqs := make([]generation.Request, rapid.IntRange(1, 9).Draw(t, "requests"))
	for i := range reqs {
		reqs[i] = drawRequest(t, context)
	}
	return reqs
}

// likeOneAtATime answers requests together on a new engine, and requires that the results are those
// of an engine that answers one request at a time. It returns the figures of the new engine, and
// its results.
func likeOneAtATime(t *testing.T, rt *rapid.T, oneAtATime *engine.Engine, path string, opts engine.Options, reqs []generation.Request) (engine.Snapshot, []generation.Completion) {
	g := newGate()
	opts.Trace = g.trace
	e := open(t, path, opts)
	if rapid.Bool().Draw(rt, "expect short answers") {
		expectShort(t, e, g)
	}
	got := generateAll(t, e, g, reqs)
	figures := e.Snapshot()
	require.Zero(rt, figures.PagesUsed)
	require.NoError(rt, e.Close())
	for i, req := range reqs {
		same(rt, generate(t, oneAtATime, req), got[i], fmt.Sprintf("request %d", i))
	}
	return figures, got
}

// Random requests run on an engine of random sizes. They share pages, draft, and are preempted when
// pages run out. The results must be the same as on an engine that answers the requests one after
// another without drafting.
func TestAnyMixIsLikeOneAtATime(t *testing.T) {
	t.Parallel()
	const context = 40
	const position = 4 * 48 * 4 // bytes of a position in the cache, for all micro models
	for name, path := range families(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plain := open(t, path, engine.Options{Context: context, MaxSequences: 1, Draft: engine.DraftOff})
			preemptions := 0
			rapid.Check(t, func(rt *rapid.T) {
				opts := drawSizes(rt, context)
				opts.StepTime = rapid.SampledFrom([]time.Duration{0, time.Nanosecond, wholeSteps}).Draw(rt, "step time")
				drawDrafting(rt, path, &opts)
				if rapid.Bool().Draw(rt, "few pages") {
					few := int64(position * context * 3 / 2)
					if opts.DraftModel != "" {
						few *= 2
					}
					opts.Memory = memoryFor(t, path, opts, few)
				}
				reqs := drawRequests(rt, context)
				shareBeginnings(rt, reqs)
				figures, _ := likeOneAtATime(t, rt, plain, path, opts, reqs)
				preemptions += int(figures.Preemptions)
			})
			t.Logf("%d preemptions", preemptions)
		})
	}
}

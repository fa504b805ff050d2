package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ingot-run/ingot/engine/generation"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/compute"
)

// maxInFlight is the maximum number of steps in flight on the backend several.
const maxInFlight = 8

// several is the CPU backend with several steps in flight. It counts the steps, and runs each step
// when it is submitted. onBegin and failing must be set before the engine starts.
type several struct {
	compute.Backend
	opened
	begun, waits atomic.Int64
	onBegin      func(n int64) // called with the number of each step, counted from 1
	failing      int64         // number of the step that cannot be submitted
}

type oneOfSeveral struct {
	compute.Step
	of  *several
	err error
}

func newSeveral(t testing.TB) *several { return newSeveralOf(t, 1) }

func newSeveralOf(t testing.TB, threads int) *several {
	return &several{Backend: backendOf(t, threads)}
}

func (*several) MaxInFlight() int { return maxInFlight }

func (b *several) Begin(batch *compute.Batch) compute.Step {
	if !b.is.Load() {
		return oneOfSeveral{Step: b.Backend.Begin(batch), of: b}
	}
	n := b.begun.Add(1)
	if b.onBegin != nil {
		b.onBegin(n)
	}
	s := oneOfSeveral{Step: b.Backend.Begin(batch), of: b}
	if n == b.failing {
		s.err = errDevice
	}
	return s
}

func (s oneOfSeveral) Submit() error { return errors.Join(s.err, s.Step.Submit()) }

func (s oneOfSeveral) Run() error {
	if s.of.is.Load() {
		s.of.waits.Add(1)
	}
	return errors.Join(s.err, s.Step.Run())
}

// drawGreedy draws a request. Most requests are greedy and generate many tokens.
func drawGreedy(t *rapid.T, context int) generation.Request {
	req := drawRequest(t, context)
	if rapid.IntRange(0, 3).Draw(t, "greedy") > 0 {
		req.Sampling = generation.Sampling{}
		req.MaxTokens = rapid.IntRange(1, 40).Draw(t, "long")
		req.MinTokens = min(req.MinTokens, req.MaxTokens)
	}
	if p := &req.Sampling; rapid.Bool().Draw(t, "top-k alone") && p.Temperature > 0 {
		p.RepetitionPenalty, p.PresencePenalty, p.LogitBias, p.TopK = 0, 0, nil, rapid.IntRange(1, 70).Draw(t, "k")
	}
	return req
}

// timeless returns a completion without its times.
func timeless(c generation.Completion) generation.Completion {
	c.Stats.TTFT, c.Stats.Total, c.Stats.Prefill, c.Stats.Decode = 0, 0, 0, 0
	return c
}

// Steps in flight do not change the tokens, the finish reason, the text or the statistics of a
// request. Only the last digits of log-probabilities differ, because the device rounds them.
func TestStepsInFlightChangeNothing(t *testing.T) {
	t.Parallel()
	const context = 60
	for name, path := range families(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := engine.Options{Context: context, StepTime: wholeSteps, Draft: engine.DraftOff, NoSharing: true}
			plain, be := open(t, path, opts), newSeveral(t)
			several := openOn(t, path, be, opts)
			rapid.Check(t, func(rt *rapid.T) {
				req := drawGreedy(rt, context)
				before, waits := several.Snapshot(), be.waits.Load()
				got, want := timeless(generate(t, several, req)), timeless(generate(t, plain, req))
				steps := int64(several.Snapshot().Steps - before.Steps)
				require.LessOrEqual(rt, be.waits.Load()-waits, steps)
				near(rt, want.PromptLogprobs, got.PromptLogprobs)
				for i := range want.Choices {
					near(rt, want.Choices[i].Logprobs, got.Choices[i].Logprobs)
					want.Choices[i].Logprobs, got.Choices[i].Logprobs = nil, nil
				}
				want.PromptLogprobs, got.PromptLogprobs = nil, nil
				require.Equal(rt, want, got)
			})
			p, a := plain.Snapshot(), several.Snapshot()
			require.Equal(t, []uint64{p.Steps, p.PromptTokens, p.GeneratedTokens}, []uint64{a.Steps, a.PromptTokens, a.GeneratedTokens})
			require.Less(t, be.waits.Load(), int64(a.Steps)*9/10, "the engine must not wait for every step")
		})
	}
}

// near requires that log-probabilities are equal up to rounding.
func near(t require.TestingT, want, got []generation.TokenLogprob) {
	require.Len(t, got, len(want))
	for i := range want {
		require.Equal(t, want[i].ID, got[i].ID)
		require.InDelta(t, want[i].Logprob, got[i].Logprob, 1e-5)
		near(t, want[i].Top, got[i].Top)
	}
}

// Requests arrive at any time, share pages, and are preempted when pages run out. On any number of
// threads, their results have the same bits as those of one request at a time on one thread.
func TestAnyMixWithStepsInFlight(t *testing.T) {
	t.Parallel()
	const context = 60
	for name, path := range families(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plain := openOn(t, path, newSeveral(t), engine.Options{Context: context, MaxSequences: 1, Draft: engine.DraftOff})
			rapid.Check(t, func(rt *rapid.T) {
				opts := engine.Options{
					Context: context, MaxSequences: rapid.IntRange(1, 6).Draw(rt, "sequences"),
					PageSize: rapid.IntRange(1, 9).Draw(rt, "page size"), PrefillChunk: rapid.IntRange(1, 30).Draw(rt, "chunk"),
					Draft: rapid.SampledFrom([]engine.Drafting{engine.DraftOff, engine.DraftOff, engine.DraftAuto, engine.DraftModel}).Draw(rt, "draft"),
				}
				cache := int64(0) // bytes; 0 for as many as all requests need
				switch {
				case opts.Draft == engine.DraftModel: // the drafting model is always right
					opts.DraftModel, opts.DraftTokens = path, rapid.IntRange(0, 4).Draw(rt, "draft tokens")
				case rapid.Bool().Draw(rt, "few pages"):
					const position = 768 // bytes
					cache = position * context * 5 / 4
				}
				reqs := make([]generation.Request, rapid.IntRange(1, 6).Draw(rt, "requests"))
				for i := range reqs {
					reqs[i] = drawGreedy(rt, context)
				}
				shareBeginnings(rt, reqs)
				got := generateArriving(t, rt, path, opts, cache, reqs)
				for i, req := range reqs {
					same(rt, generate(t, plain, req), got[i], fmt.Sprintf("request %d", i))
				}
			})
		})
	}
}

// generateArriving answers requests. The first arrives before the first step. Each other request
// arrives in a random step, or when the first request is done.
func generateArriving(t *testing.T, rt *rapid.T, path string, opts engine.Options, cache int64, reqs []generation.Request) []generation.Completion {
	t.Helper()
	threads := rapid.IntRange(1, 4).Draw(rt, "threads")
	be, here := newSeveralOf(t, threads), make([]gate, len(reqs))
	if cache > 0 {
		opts.Memory = memoryOn(t, newSeveralOf(t, threads), path, opts, cache)
	}
	at := rapid.SliceOfN(rapid.Int64Range(1, 60), len(reqs), len(reqs)).Draw(rt, "arrives in step")
	for i := range here {
		here[i].pass = make(chan struct{})
	}
	here[0].open()
	e := openOn(t, path, be, opts)
	expectShort(t, e, nil)
	be.begun.Store(0)
	be.onBegin = func(step int64) {
		for i := range here {
			if step >= at[i] {
				here[i].open()
			}
		}
	}
	got, errs := make([]generation.Completion, len(reqs)), make([]error, len(reqs))
	var group sync.WaitGroup
	for i, req := range reqs {
		group.Go(func() {
			<-here[i].pass
			got[i], errs[i] = e.Generate(t.Context(), req)
			for j := range here {
				here[j].open()
			}
		})
	}
	group.Wait()
	for _, err := range errs {
		require.NoError(rt, err)
	}
	require.Zero(rt, e.Snapshot().PagesUsed)
	require.NoError(rt, e.Close())
	return got
}

// The device pauses once in at least eight steps. Each step has two submissions: the forward pass
// and the draws.
func TestWaitsForStepsInFlight(t *testing.T) {
	t.Parallel()
	be := newSeveral(t)
	e := openOn(t, microGLM, be, engine.Options{StepTime: wholeSteps, Draft: engine.DraftOff})
	c := generate(t, e, generation.Request{Tokens: randomTokens(1, 9), N: 3, MaxTokens: 1 + 100, IgnoreEOS: true})
	require.Equal(t, 101, c.Stats.Steps, "one step for the prompt and one for each further token")
	require.Equal(t, int64(2*101), be.begun.Load())
	require.LessOrEqual(t, be.waits.Load(), int64(1+100/maxInFlight+1))
}

// With drafting from n-grams, several steps are in flight while nothing in the text repeats. With
// drafting by an MTP layer or a small model, only one step is in flight.
func TestDraftingWithStepsInFlight(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		path     string
		opts     engine.Options
		inFlight bool
	}{
		{microGLM, engine.Options{Draft: engine.DraftNGram}, true},
		{microLlama, engine.Options{DraftTokens: 2}, false},
		{microGLM, engine.Options{Draft: engine.DraftMTP, DraftTokens: 3}, false},
		{microLlama, engine.Options{Draft: engine.DraftModel, DraftModel: microGLM, DraftTokens: 2}, false},
	} {
		be := newSeveral(t)
		e := openOn(t, c.path, be, c.opts)
		req := generation.Request{Tokens: randomTokens(1, 9), MaxTokens: 100, IgnoreEOS: true}
		got := generate(t, e, req)
		without := be.begun.Load() - be.waits.Load()
		t.Logf("%d of %d steps were not waited for, %d drafts", without, got.Stats.Steps, got.Stats.DraftTokens)
		require.Equal(t, c.inFlight, without > 40, "%+v", c)
		want := generate(t, open(t, c.path, c.opts), req)
		require.Equal(t, want.Choices, got.Choices)
		require.Equal(t, want.Stats.DraftTokens, got.Stats.DraftTokens)
		require.Equal(t, want.Stats.AcceptedTokens, got.Stats.AcceptedTokens)
	}
}

// If an answer stops, a single forward pass after its last token is in vain: the one that was
// submitted before that token was known. An answer of the maximum length has none.
func TestPassesInVain(t *testing.T) {
	t.Parallel()
	be := newSeveral(t)
	e := openOn(t, microLlama, be, engine.Options{Draft: engine.DraftOff})
	req := generation.Request{Tokens: randomTokens(1, 9), MaxTokens: 4, IgnoreEOS: true}
	tokens := generate(t, e, req).Choices[0].Tokens
	for stops, vain := range []int64{0, 20} {
		if stops == 1 {
			req.MaxTokens, req.StopIDs = 100, tokens[3:]
		}
		begun, before := be.begun.Load(), e.Snapshot().Steps
		for range 20 {
			require.Equal(t, tokens, generate(t, e, req).Choices[0].Tokens)
		}
		require.Equal(t, 2*vain, be.begun.Load()-begun-2*int64(e.Snapshot().Steps-before))
	}
}

// If one of several steps in flight cannot be submitted, the requests in these steps fail. Requests
// that arrive later are answered.
func TestAFailingStepInFlight(t *testing.T) {
	t.Parallel()
	for _, failing := range []int64{2, 5, 9} {
		be := newSeveral(t)
		be.failing = failing
		e := openOn(t, microLlama, be, engine.Options{Draft: engine.DraftOff})
		req := generation.Request{Tokens: randomTokens(1, 9), MaxTokens: 20, IgnoreEOS: true}
		_, err := e.Generate(t.Context(), req)
		require.ErrorIs(t, err, errDevice)
		idle(t, e)
		require.Equal(t, generate(t, open(t, microLlama, engine.Options{}), req).Choices, generate(t, e, req).Choices)
	}
}

// If a request is cancelled while steps are in flight, its pages become free, and the other
// requests get their tokens.
func TestCancelledWithStepsInFlight(t *testing.T) {
	t.Parallel()
	for _, step := range []int64{2, 3, 7, 12} {
		ctx, cancel := context.WithCancel(t.Context())
		be, begun := newSeveral(t), newGate()
		be.onBegin = func(n int64) {
			<-begun.pass
			if n == step {
				cancel()
			}
		}
		e := openOn(t, microGLM, be, engine.Options{Draft: engine.DraftOff})
		req := generation.Request{Tokens: randomTokens(1, 20), MaxTokens: 30, IgnoreEOS: true}
		var group sync.WaitGroup
		var kept generation.Completion
		var keptErr, err error
		group.Go(func() { _, err = e.Generate(ctx, req) })
		group.Go(func() { kept, keptErr = e.Generate(t.Context(), req) })
		waitFor(t, func() bool { s := e.Snapshot(); return s.Running+s.Waiting == 2 })
		begun.open()
		group.Wait()
		require.ErrorIs(t, err, context.Canceled)
		require.NoError(t, keptErr)
		idle(t, e)
		require.Equal(t, kept.Choices, generate(t, e, req).Choices)
	}
}

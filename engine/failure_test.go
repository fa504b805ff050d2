package engine_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ingot-run/ingot/engine/generation"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/compute"
)

// faulty is a backend whose steps fail or give NaN, as its functions decide. The functions must be
// set before the engine starts.
type faulty struct {
	compute.Backend
	opened
	failing func(b *compute.Batch) error // returns the error of a step
	poison  func(b *compute.Batch) int   // returns the output row whose logits become NaN, or -1
	batch   *compute.Batch
}

type faultyStep struct {
	compute.Step
	err error
}

func (f *faulty) Begin(b *compute.Batch) compute.Step {
	f.batch = b
	s := faultyStep{Step: f.Backend.Begin(b)}
	if f.failing != nil && f.is.Load() {
		s.err = f.failing(b)
	}
	return s
}

func (s faultyStep) Run() error { return errors.Join(s.err, s.Step.Run()) }

func (f *faulty) Floats(t compute.Tensor) [][]float32 {
	rows := f.Backend.Floats(t)
	if f.poison != nil && f.is.Load() {
		if i := f.poison(f.batch); i >= 0 {
			rows = slices.Clone(rows)
			rows[i] = slices.Repeat([]float32{float32(math.NaN())}, len(rows[i]))
		}
	}
	return rows
}

var errDevice = errors.New("device lost")

// If a step fails, the requests in it fail. Waiting requests and requests that arrive later are
// answered.
func TestAFailingStep(t *testing.T) {
	t.Parallel()
	g := newGate()
	steps := 0
	be := &faulty{Backend: backend(t), failing: func(*compute.Batch) error {
		if steps++; steps == 3 {
			return errDevice
		}
		return nil
	}}
	e := openOn(t, microGLM, be, engine.Options{MaxSequences: 2, Draft: engine.DraftOff, Trace: g.trace})
	defer g.open()
	req := generation.Request{Tokens: randomTokens(1, 20), MaxTokens: 6, IgnoreEOS: true}
	var mu sync.Mutex
	var failed int
	var answered []generation.Completion
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			c, err := e.Generate(t.Context(), req)
			mu.Lock()
			defer mu.Unlock()
			if errors.Is(err, errDevice) {
				failed++
			} else if err == nil {
				answered = append(answered, c)
			}
		})
	}
	waitFor(t, func() bool { s := e.Snapshot(); return s.Running+s.Waiting == 5 })
	g.open()
	wg.Wait()
	require.Len(t, answered, 5-failed)
	require.Positive(t, failed)
	require.LessOrEqual(t, failed, 2)
	require.Equal(t, answered[0].Choices, generate(t, e, req).Choices)
	require.Zero(t, e.Snapshot().PagesUsed)
}

// If the logits of a request are not finite, only this request of the step fails.
func TestLogitsThatAreNotFinite(t *testing.T) {
	t.Parallel()
	bad := randomTokens(9, 7)
	be := &faulty{Backend: backend(t), poison: func(b *compute.Batch) int {
		for i, row := range b.Outputs {
			last := -1
			for _, s := range b.Seqs {
				last += s.Rows
				if int(row) == last && b.Positions[row] == 6 && b.Tokens[row] == bad[6] {
					return i
				}
			}
		}
		return -1
	}}
	g := newGate()
	e := openOn(t, microLlama, be, engine.Options{Draft: engine.DraftOff, Trace: g.trace})
	defer g.open()
	good := generation.Request{Tokens: randomTokens(8, 7), MaxTokens: 6, IgnoreEOS: true}
	var wg sync.WaitGroup
	var badErr, goodErr error
	var c generation.Completion
	wg.Go(func() { _, badErr = e.Generate(t.Context(), generation.Request{Tokens: bad, N: 2, MaxTokens: 6}) })
	wg.Go(func() { c, goodErr = e.Generate(t.Context(), good) })
	waitFor(t, func() bool { s := e.Snapshot(); return s.Running+s.Waiting == 3 })
	g.open()
	wg.Wait()
	require.NoError(t, goodErr)
	require.ErrorIs(t, badErr, generation.ErrNotFinite)
	require.ErrorContains(t, badErr, "position 6")
	require.NotErrorIs(t, badErr, generation.ErrBadRequest)
	require.Equal(t, generate(t, e, good).Choices, c.Choices)
}

// impossible is a backend whose logits of one token are -Inf.
type impossible struct {
	compute.Backend
	token int32
}

type impossibleStep struct {
	compute.Step
	of *impossible
}

func (i *impossible) Begin(b *compute.Batch) compute.Step {
	return impossibleStep{i.Backend.Begin(b), i}
}

func (s impossibleStep) Top(dst, logits compute.Tensor, k int) {
	s.of.spoil(logits)
	s.Step.Top(dst, logits, k)
}

func (s impossibleStep) Draw(dst, logits compute.Tensor, draws []compute.Draw) {
	s.of.spoil(logits)
	s.Step.Draw(dst, logits, draws)
}

func (i *impossible) spoil(logits compute.Tensor) {
	for _, row := range i.Floats(logits) {
		row[i.token] = float32(math.Inf(-1))
	}
}

// A token with a logit of -Inf is never generated, and its log-probability is -Inf, in the answer
// and in the prompt.
func TestImpossibleTokens(t *testing.T) {
	t.Parallel()
	prompt := randomTokens(8, 7)
	usual := generate(t, open(t, microLlama, engine.Options{}), generation.Request{Tokens: prompt, MaxTokens: 1, IgnoreEOS: true})
	likeliest := usual.Choices[0].Tokens[0]
	e := openOn(t, microLlama, &impossible{backend(t), likeliest}, engine.Options{})
	vocab := e.Info().Vocab
	for _, p := range []generation.Sampling{
		{}, {Temperature: 1}, {Temperature: 1, TopP: 0.99}, {Temperature: 1, TopK: 3}, {LogitBias: map[int32]float64{likeliest: 100}},
	} {
		req := generation.Request{Tokens: append(slices.Clone(prompt), likeliest), MaxTokens: 12, IgnoreEOS: true, Sampling: p, Logprobs: true, PromptLogprobs: true}
		if len(p.LogitBias) == 0 { // with a bias, the number of alternatives is limited
			req.TopLogprobs = vocab
		}
		done := generate(t, e, req)
		require.NotContains(t, done.Choices[0].Tokens, likeliest)
		require.True(t, math.IsInf(done.PromptLogprobs[len(prompt)].Logprob, -1))
		for _, at := range slices.Concat(done.PromptLogprobs[1:], done.Choices[0].Logprobs) {
			if req.TopLogprobs == 0 {
				continue
			}
			last := at.Top[vocab-1]
			require.Equal(t, likeliest, last.ID)
			require.True(t, math.IsInf(last.Logprob, -1))
			sum := 0.0
			for _, other := range at.Top {
				sum += math.Exp(other.Logprob)
			}
			require.InDelta(t, 1, sum, 1e-4)
		}
	}
}

// corrupting is a backend that once, while armed, computes a wrong embedding of one token.
type corrupting struct {
	compute.Backend
	armed atomic.Bool
	token int32
}

type corruptStep struct {
	compute.Step
	of    *corrupting
	batch *compute.Batch
}

func (c *corrupting) Begin(b *compute.Batch) compute.Step {
	return corruptStep{c.Backend.Begin(b), c, b}
}

func (s corruptStep) Embed(dst compute.Tensor, table compute.Weight) {
	s.Step.Embed(dst, table)
	if i := slices.Index(s.batch.Tokens, s.of.token); i >= 0 && s.of.armed.CompareAndSwap(true, false) {
		s.of.Floats(dst)[i][0] = float32(math.NaN())
	}
}

// A wrong value in the cache makes the first request fail whose logits it affects. The pages with
// the value are no longer used: another request that shares them is computed again, and so is a
// later request with the same prompt.
func TestACorruptPageIsComputedAgain(t *testing.T) {
	t.Parallel()
	for name, path := range families(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first := generation.Request{Tokens: randomTokens(3, 40), MaxTokens: 6, IgnoreEOS: true}
			second := first
			second.Tokens = append(slices.Clone(first.Tokens), 7)
			be, g := &corrupting{Backend: backend(t), token: first.Tokens[3]}, newGate()
			e := openOn(t, path, be, engine.Options{StepTime: wholeSteps, Draft: engine.DraftOff, PageSize: 8, PrefillChunk: 16, Trace: g.trace})
			be.armed.Store(true)
			defer g.open()
			var calls sync.WaitGroup
			var firstErr, secondErr error
			var got generation.Completion
			calls.Go(func() { _, firstErr = e.Generate(t.Context(), first) })
			waitFor(t, func() bool { return e.Snapshot().Running == 1 })
			calls.Go(func() { got, secondErr = e.Generate(t.Context(), second) })
			waitFor(t, func() bool { return e.Snapshot().Waiting == 1 })
			g.open()
			calls.Wait()
			require.ErrorIs(t, firstErr, generation.ErrNotFinite)
			require.NoError(t, secondErr)
			intact := open(t, path, engine.Options{Draft: engine.DraftOff})
			require.Equal(t, generate(t, intact, second).Choices, got.Choices)
			idle(t, e)
			require.Equal(t, generate(t, intact, first).Choices, generate(t, e, first).Choices)
		})
	}
}

// panicking returns a backend that panics in steps [from, to]. The first step is number 1.
func panicking(t *testing.T, from, to int) *faulty {
	steps := 0
	return &faulty{Backend: backend(t), failing: func(*compute.Batch) error {
		if steps++; from <= steps && steps <= to {
			panic("index out of range")
		}
		return nil
	}}
}

// If a step panics, the requests in the step fail, and pages that they stored are computed again.
// Waiting requests and requests that arrive later are answered.
func TestAPanicInAStep(t *testing.T) {
	t.Parallel()
	g := newGate()
	e := openOn(t, microGLM, panicking(t, 3, 3), engine.Options{MaxSequences: 2, Draft: engine.DraftOff, Trace: g.trace})
	defer g.open()
	req := generation.Request{Tokens: randomTokens(1, 20), MaxTokens: 6, IgnoreEOS: true}
	errs := make([]error, 5)
	var calls sync.WaitGroup
	for i := range errs {
		calls.Go(func() { _, errs[i] = e.Generate(t.Context(), req) })
	}
	waitFor(t, func() bool { s := e.Snapshot(); return s.Running+s.Waiting == 5 })
	g.open()
	calls.Wait()
	failed := 0
	for _, err := range errs {
		if err != nil {
			failed++
			require.EqualError(t, err, "internal error: panic in a step: index out of range")
		}
	}
	require.Equal(t, 2, failed)
	want := generate(t, open(t, microGLM, engine.Options{Draft: engine.DraftOff}), req)
	require.Equal(t, want.Choices, generate(t, e, req).Choices)
	require.Zero(t, e.Snapshot().PagesUsed)
}

// misplaced is a backend that changes one step: the first page of the step's last sequence becomes
// a page that the cache does not have.
type misplaced struct {
	compute.Backend
	opened
	left atomic.Int32 // number of steps until the changed step
}

func (m *misplaced) Begin(b *compute.Batch) compute.Step {
	if m.is.Load() && m.left.Add(-1) == 0 {
		wrong := *b
		wrong.Seqs = slices.Clone(b.Seqs)
		last := &wrong.Seqs[len(b.Seqs)-1]
		last.Pages = slices.Clone(last.Pages)
		last.Pages[0] = 1 << 20
		b = &wrong
	}
	return m.Backend.Begin(b)
}

// A panic on one of the backend's threads has the same effect as a panic on the loop's goroutine.
// The test covers steps with few rows and steps with prompts. In a step with a prompt, the threads
// divide the rows and can wait for each other.
func TestAPanicOnAThreadOfTheBackend(t *testing.T) {
	t.Parallel()
	for name, path := range families(t) {
		for at := range int32(4) { // the first step has the prompt
			t.Run(fmt.Sprintf("%s, step %d", name, at+1), func(t *testing.T) {
				t.Parallel()
				be := &misplaced{Backend: backendOf(t, 3)}
				be.left.Store(at + 1)
				e := openOn(t, path, be, engine.Options{Draft: engine.DraftOff})
				req := generation.Request{Tokens: randomTokens(5, 50), N: 2, MaxTokens: 6, IgnoreEOS: true}
				_, err := e.Generate(t.Context(), req)
				require.ErrorContains(t, err, "internal error: panic in a step: ")
				require.ErrorContains(t, err, "out of range")
				intact := open(t, path, engine.Options{Draft: engine.DraftOff})
				short := generation.Request{Tokens: randomTokens(6, 7), MaxTokens: 6, IgnoreEOS: true}
				for _, next := range []generation.Request{short, req} {
					require.Equal(t, generate(t, intact, next).Choices, generate(t, e, next).Choices)
				}
			})
		}
	}
}

// After panics in steps that are not consecutive, an engine continues. It computes the pages of the
// failed requests again.
func TestPanicsThatAreNotInARow(t *testing.T) {
	t.Parallel()
	steps := 0
	be := &faulty{Backend: backend(t), failing: func(*compute.Batch) error {
		if steps++; steps%7 == 3 { // the answer takes 6 steps
			panic("oops")
		}
		return nil
	}}
	e := openOn(t, microLlama, be, engine.Options{Draft: engine.DraftOff})
	req := generation.Request{Tokens: randomTokens(1, 40), MaxTokens: 4, IgnoreEOS: true}
	for range 3 {
		_, err := e.Generate(t.Context(), req)
		require.ErrorContains(t, err, "oops")
		require.Zero(t, generate(t, e, req).Stats.CachedTokens)
	}
}

// Panics in two consecutive steps end the engine: all calls return, and Close works.
func TestPanicsInARowEndTheEngine(t *testing.T) {
	t.Parallel()
	g := newGate()
	e := openOn(t, microLlama, panicking(t, 3, 100), engine.Options{MaxSequences: 2, Draft: engine.DraftOff, Trace: g.trace})
	defer g.open()
	req := generation.Request{Tokens: randomTokens(1, 20), MaxTokens: 6, IgnoreEOS: true}
	var failed, ended atomic.Int32
	var calls sync.WaitGroup
	for range 5 {
		calls.Go(func() {
			if _, err := e.Generate(t.Context(), req); errors.Is(err, generation.ErrEngineFailed) {
				ended.Add(1)
			} else if err != nil {
				failed.Add(1)
			}
		})
	}
	waitFor(t, func() bool { s := e.Snapshot(); return s.Running+s.Waiting == 5 })
	g.open()
	calls.Wait()
	require.Equal(t, []int32{2, 3}, []int32{failed.Load(), ended.Load()})
	_, err := e.Generate(t.Context(), req)
	require.ErrorIs(t, err, generation.ErrEngineFailed)
	require.ErrorContains(t, err, "index out of range")
	require.NotErrorIs(t, err, generation.ErrClosed)
	require.Zero(t, e.Snapshot().Running+e.Snapshot().Waiting)
	require.NoError(t, e.Close())
}

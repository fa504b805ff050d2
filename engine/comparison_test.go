package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/engine/model/modeltest"
)

// TestRandomRequestsAreLikeLoneOnes compares the results of requests that run together with those
// of the same requests alone, bit for bit. Each round has an engine with random settings: drafting,
// shared pages, preemption, interactive requests, chunks of prompts, steps in flight and the type
// of the cache. A third of the requests has a constraint. Requests arrive and are cancelled in
// random steps, and cancelled requests are resumed from their progress. The engine for requests
// alone has one thread and one sequence, drafts nothing and shares nothing.
//
// The test ends after 2,000 requests or a minute; with INGOT_LONG=1 after 20,000 requests or ten
// minutes, and with -short after five seconds. INGOT_SEED repeats the rounds of a seed.
func TestRandomRequestsAreLikeLoneOnes(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("INGOT_SEED"); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
	}
	requests, budget := 2000, time.Minute
	switch {
	case testing.Short():
		budget = 5 * time.Second
	case os.Getenv("INGOT_LONG") == "1":
		requests, budget = 20_000, 10*time.Minute
	}
	c := &comparison{lone: map[loneKey]*engine.Engine{}, models: comparedModels(t)}
	for start, round := time.Now(), uint64(0); c.Compared < requests && time.Since(start) < budget || round < minRounds; round++ {
		about := fmt.Sprintf("INGOT_SEED=%d, round %d", seed, round)
		c.round(t, draws{rand.New(rand.NewPCG(seed, round))}, about)
		if t.Failed() {
			return
		}
	}
	t.Logf("seed %d: %+v", seed, c.counts)
	if c.Rounds < enoughRounds {
		return
	}
	for name, n := range map[string]int{
		"compared": c.Compared, "cancelled": c.Cancelled, "resumed": c.Resumed, "preempted": c.Preempted, "shared tokens": c.Shared,
		"accepted drafts": c.Accepted, "rejected drafts": c.Rejected, "masked": c.Masked, "forced": c.Forced, "overlapped": c.Overlapped,
		"copied states": c.States,
	} {
		require.Positive(t, n, "%s: must occur at least once, or the test does not cover it", name)
	}
}

// minRounds is the number of rounds that run even on a slow machine. After enoughRounds rounds,
// each of the counts must be positive.
const (
	minRounds    = 24
	enoughRounds = 100
)

// counts has the numbers of rounds, requests and tokens in a comparison.
type counts struct {
	Rounds, Compared, Cancelled, Resumed, Preempted, Shared, Accepted, Rejected, Masked, Forced, Overlapped, States int
}

type comparison struct {
	models []comparedModel
	lone   map[loneKey]*engine.Engine
	counts
}

// loneKey has the settings on which the bits of a result may depend.
type loneKey struct {
	path string
	kv   gguf.Type
}

// comparedModel is a model of the comparison.
type comparedModel struct {
	path      string
	kinds     []gguf.Type // types that its cache can have
	mtp       bool
	recurrent bool
}

func comparedModels(tb testing.TB) []comparedModel {
	tb.Helper()
	floats, all := []gguf.Type{gguf.TypeF32, gguf.TypeF16}, []gguf.Type{gguf.TypeF16, gguf.TypeQ80, gguf.TypeQ40}
	return []comparedModel{
		{path: microGLM, kinds: floats, mtp: true},
		{path: microLlama, kinds: floats},
		{path: tinyLlama, kinds: all},
		{path: "../models/tiny-glm.q8_0.gguf", kinds: all},
		{path: modeltest.Recurrent(tb, "qwen35moe"), kinds: floats, mtp: true, recurrent: true},
	}
}

const comparedContext = 160

// draws draws random settings and requests.
type draws struct{ *rand.Rand }

func (d draws) between(from, to int) int { return from + d.IntN(to-from+1) }

func (d draws) oneIn(n int) bool { return d.IntN(n) == 0 }

func pick[T any](d draws, values ...T) T { return values[d.IntN(len(values))] }

// tokens draws n ids: from a small part of the vocabulary, or repeated ones, from which n-grams can
// draft.
func (d draws) tokens(n int) []int32 {
	ids := make([]int32, n)
	from, span := d.Int32N(1900), pick[int32](d, 2, 10, 100)
	for i := range ids {
		ids[i] = from + d.Int32N(span)
	}
	return ids
}

func (d draws) request() generation.Request {
	req := generation.Request{
		Tokens:         d.tokens(d.between(1, pick(d, 8, 60, comparedContext-1))),
		N:              pick(d, 0, 1, 1, 2, 3, 7),
		MaxTokens:      d.between(1, pick(d, 4, 30, 60)),
		IgnoreEOS:      d.oneIn(2),
		Logprobs:       d.oneIn(3),
		TopLogprobs:    pick(d, 0, 1, 5, 12),
		PromptLogprobs: d.oneIn(8),
		PromptOnly:     d.oneIn(20),
		Interactive:    d.oneIn(3),
	}
	for range d.IntN(3) {
		req.Stop = append(req.Stop, pick(d, "a", "e", " t", "th", "qq"))
		req.StopIDs = append(req.StopIDs, d.Int32N(2000))
	}
	req.MinTokens = d.IntN(min(5, req.MaxTokens) + 1)
	if d.oneIn(2) {
		return req // greedy
	}
	req.Sampling = generation.Sampling{
		Temperature: pick(d, 0.2, 0.8, 1.5), TopK: pick(d, 0, 1, 40, 300), TopP: pick(d, 0.3, 0.95, 1), MinP: pick(d, 0, 0, 0.05), Seed: d.Uint64(),
	}
	if d.oneIn(2) {
		req.Sampling.RepetitionPenalty = pick(d, 0, 0.9, 1.2)
		req.Sampling.PresencePenalty, req.Sampling.FrequencyPenalty = pick(d, 0, 0.5), pick(d, 0, 0, -0.3)
	}
	if d.oneIn(4) {
		req.Sampling.LogitBias = map[int32]float64{d.Int32N(2000): 3, d.Int32N(2000): -3}
	}
	return req
}

// requests draws requests in groups. The prompts of a group have the same beginning, some up to
// their last token.
func (d draws) requests() []generation.Request {
	reqs := make([]generation.Request, d.between(1, 24))
	for i := range reqs {
		reqs[i] = d.request()
		if d.oneIn(3) {
			constrain(&reqs[i], pick(d, constraints...))
		}
		if i > 0 && d.oneIn(2) {
			of := reqs[d.IntN(i)].Tokens
			own := reqs[i].Tokens
			copy(own[:min(len(of), d.between(0, len(own)))], of)
		}
	}
	return reqs
}

func (d draws) options(m comparedModel) engine.Options {
	o := engine.Options{
		Context: comparedContext, MaxSequences: d.between(1, 9), PageSize: pick(d, 1, 4, 7, 16, 32), PrefillChunk: d.between(1, 90),
		NoSharing: d.oneIn(8), Draft: pick(d, engine.DraftOff, engine.DraftAuto, engine.DraftNGram, engine.DraftMTP, engine.DraftModel),
		DraftTokens: pick(d, 0, 1, 3, 8),
	}
	o.StepTokens = o.MaxSequences + d.IntN(100)
	switch {
	case o.Draft == engine.DraftMTP && !m.mtp, o.Draft == engine.DraftModel && m.recurrent:
		o.Draft = engine.DraftNGram
	case o.Draft == engine.DraftModel:
		o.DraftModel = m.path // its drafts are right unless the request samples
	}
	return o
}

// paced is a backend that reports the number of each step, and allows inFlight steps in flight.
type paced struct {
	compute.Backend
	inFlight int
	steps    atomic.Int64
	onBegin  func(step int64)
	awaited  int // number of steps whose tokens were read while the next one was in flight
	states   int // number of recurrent states that steps copied
}

func (p *paced) Await(inFlight int) error {
	p.awaited++
	return p.Backend.Await(inFlight)
}

func (p *paced) MaxInFlight() int { return p.inFlight }

func (p *paced) Begin(b *compute.Batch) compute.Step {
	if f := p.onBegin; f != nil {
		f(p.steps.Add(1))
	}
	p.checkStates(b)
	return p.Backend.Begin(b)
}

// checkStates panics if a step writes a recurrent state that another sequence reads or writes, or
// divides a prompt inside a chunk. Steps without states have zeros.
func (p *paced) checkStates(b *compute.Batch) {
	if !slices.ContainsFunc(b.Seqs, func(s compute.Seq) bool { return s.State != compute.SeqState{} }) {
		return
	}
	row := 0
	for i, s := range b.Seqs {
		if s.State.From >= 0 && s.State.From != s.State.Slot {
			p.states++
		}
		if s.State.Prompt > 0 && b.Positions[row]%compute.ChunkRows != 0 {
			panic(fmt.Sprintf("a part of a prompt begins at position %d", b.Positions[row]))
		}
		for j, other := range b.Seqs {
			if i != j && (other.State.Slot == s.State.Slot || other.State.From == s.State.Slot) {
				panic(fmt.Sprintf("two sequences of a step use slot %d", s.State.Slot))
			}
		}
		row += s.Rows
	}
}

func (c *comparison) round(t *testing.T, d draws, about string) {
	t.Helper()
	model := pick(d, c.models...)
	kv := pick(d, model.kinds...)
	opts := d.options(model)
	opts.KV = kv
	threads, inFlight := d.between(1, 3), pick(d, 1, 1, 8)
	attempts := d.attempts()
	if d.oneIn(4) {
		inFlight, opts.Draft, opts.MaxSequences = 8, engine.DraftOff, 40
		opts.StepTokens += opts.MaxSequences
		d.form(attempts)
	}
	if d.oneIn(2) {
		small := &paced{Backend: backendOf(t, threads), inFlight: inFlight}
		free := opts
		free.Memory = 1 << 40
		fit, err := engine.CheckFit(model.path, small, free)
		require.NoError(t, err)
		opts.Memory = memoryOn(t, small, model.path, opts, fit.PerToken*int64(comparedContext+d.IntN(comparedContext)+opts.PageSize))
	}
	be := &paced{Backend: backendOf(t, threads), inFlight: inFlight}
	e := openOn(t, model.path, be, opts)
	if d.oneIn(2) {
		expectShort(t, e, nil)
	}
	gates := newSteps(be, attempts) // counts only steps after those that measured costs
	var group sync.WaitGroup
	for i := range attempts {
		group.Go(func() {
			defer gates.release()
			attempts[i].run(t.Context(), e, gates, i)
		})
	}
	group.Wait()
	idle(t, e) // the next step releases the pages of cancelled requests
	s := e.Snapshot()
	require.NoError(t, e.Close())
	c.Rounds++
	c.Overlapped += be.awaited
	c.States += be.states
	c.Preempted += int(s.Preemptions)
	c.Accepted += int(s.AcceptedTokens)
	c.Rejected += int(s.DraftTokens - s.AcceptedTokens)
	for i, a := range attempts {
		c.compare(t, loneKey{model.path, kv}, a, fmt.Sprintf("%s, request %d", about, i))
	}
}

func (c *comparison) compare(t *testing.T, key loneKey, a *attempt, about string) {
	t.Helper()
	if a.cancelled {
		c.Cancelled++
	}
	if a.cancelled && a.progress == nil { // the request cannot be resumed
		require.ErrorIs(t, a.err, context.Canceled, about)
		return
	}
	require.NoError(t, a.err, about)
	lone := c.lone[key]
	if lone == nil {
		lone = open(t, key.path, engine.Options{Context: comparedContext, MaxSequences: 1, Draft: engine.DraftOff, NoSharing: true, KV: key.kv})
		c.lone[key] = lone
	}
	same(t, generate(t, lone, a.request), a.got, about)
	c.Compared++
	c.Shared += a.got.Stats.CachedTokens
	c.Masked += a.got.Stats.MaskedTokens
	c.Forced += a.got.Stats.ForcedTokens
	for _, choice := range a.got.Choices {
		requireForm(t, a.request, choice)
	}
	if a.got.Stats.ResumedTokens > 0 {
		c.Resumed++
	}
}

// attempt is a request that arrives in a given step and may be cancelled in a later step. A
// cancelled request that can be resumed arrives again with its progress.
type attempt struct {
	request          generation.Request
	arrives, cancels int64 // numbers of steps; cancels is 0 for never

	cancelled bool
	progress  *generation.Progress // progress of the cancelled attempt; nil if it cannot be resumed
	got       generation.Completion
	err       error
}

func (d draws) attempts() []*attempt {
	var all []*attempt
	for _, req := range d.requests() {
		a := &attempt{request: req, arrives: int64(d.IntN(40))}
		if d.oneIn(5) {
			a.cancels = a.arrives + 1 + int64(d.IntN(30))
		}
		all = append(all, a)
	}
	all[0].arrives = 0
	return all
}

// form gives all requests constraints with texts that are long enough for many steps in flight.
func (d draws) form(attempts []*attempt) {
	for _, a := range attempts {
		r := &a.request
		constrain(r, &generation.Constraint{Regex: pick(d, `[a-f]{40,60}!`, `[a-z]{9,20}( then [a-z]{5,9}){1,3}`, `(x=[0-9]{1,9}; |[^é]{0,9}ünïté){3,9}`)})
		r.Tokens, r.N, r.MaxTokens = r.Tokens[:min(len(r.Tokens), 20)], min(r.N, 2), 60
		a.arrives = min(a.arrives, 9)
	}
}

func (a *attempt) run(ctx context.Context, e *engine.Engine, s *steps, i int) {
	<-s.arrives[i]
	limited, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(s.cancels[i], cancel)
	defer stop()
	req := a.request
	var mu sync.Mutex
	var last *generation.Progress
	if a.cancels > 0 && req.Resumable() {
		req.Progress = generation.Reporting{To: func(p generation.Progress) {
			mu.Lock()
			defer mu.Unlock()
			last = &p
		}}
	}
	a.got, a.err = e.Generate(limited, req)
	if a.err == nil || limited.Err() == nil {
		return
	}
	a.cancelled = true
	mu.Lock()
	a.progress = last
	mu.Unlock()
	if a.progress != nil {
		req = a.request
		req.Resume = a.progress
		a.got, a.err = e.Generate(ctx, req)
	}
}

// steps lets attempts arrive, and cancels them, in given steps of an engine. When the first attempt
// has ended, all others arrive at once.
type steps struct {
	arrives []chan struct{}
	cancels []context.Context
	open    []func()
}

func newSteps(be *paced, attempts []*attempt) *steps {
	s := &steps{}
	var cancels []func()
	for range attempts {
		arrives := make(chan struct{})
		ctx, cancel := context.WithCancel(context.Background())
		s.arrives, s.cancels = append(s.arrives, arrives), append(s.cancels, ctx)
		s.open, cancels = append(s.open, sync.OnceFunc(func() { close(arrives) })), append(cancels, cancel)
	}
	s.open[0]()
	be.onBegin = func(step int64) {
		for i, a := range attempts {
			if step >= a.arrives {
				s.open[i]()
			}
			if a.cancels > 0 && step >= a.cancels {
				cancels[i]()
			}
		}
	}
	return s
}

func (s *steps) release() {
	for _, open := range s.open {
		open()
	}
}

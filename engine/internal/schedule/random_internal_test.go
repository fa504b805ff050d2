package schedule

import (
	"context"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/grammar"
	"github.com/ingot-run/ingot/engine/internal/draft"
	"github.com/ingot-run/ingot/engine/model"
)

// asked is a random request, and what came of it.
type asked struct {
	req       generation.Request
	form      string // a regular expression; empty for none
	cancelled bool
	request   *request
	cancel    context.CancelFunc
}

// randomRequest returns a request with a prompt that begins like many others.
func randomRequest(r *rand.Rand) asked {
	text := make([]int32, 0, 200)
	family := r.IntN(3)
	for i := range r.IntN(180) {
		text = append(text, int32(300+(i*(family+1)+family*i*i)%32))
	}
	for range 1 + r.IntN(12) {
		text = append(text, int32(300+r.IntN(32)))
	}
	a := asked{req: generation.Request{Tokens: text, MaxTokens: 1 + r.IntN(40), N: 1, IgnoreEOS: r.IntN(2) == 0}}
	req := &a.req
	one := func(n int) bool { return r.IntN(n) == 0 }
	if one(3) {
		req.N = 1 + r.IntN(4)
	}
	if one(2) {
		req.Sampling = generation.Sampling{Temperature: float64(r.IntN(3)), Seed: r.Uint64()}
	}
	if one(5) {
		req.Sampling.RepetitionPenalty, req.Sampling.FrequencyPenalty = 1.2, 0.5
	}
	if one(3) {
		req.StopIDs = []int32{int32(300 + r.IntN(32)), int32(300 + r.IntN(32))}
	}
	if one(3) {
		req.MinTokens = r.IntN(req.MaxTokens)
	}
	req.Interactive = one(4)
	if one(4) {
		req.Logprobs, req.TopLogprobs = true, r.IntN(4)
	}
	if one(6) {
		req.PromptLogprobs, req.TopLogprobs = true, 2
	}
	if one(12) {
		req.PromptOnly = true
	}
	if one(5) && !req.PromptOnly {
		a.form = []string{"[a-z ]{30,90}", "x(abc|the long answer is known)[a-z]{5,50}", "The answer is [0-9]+, and nothing else is said."}[r.IntN(3)]
		req.MinTokens, req.IgnoreEOS, req.StopIDs = 0, false, nil
	}
	a.cancelled = one(12)
	return a
}

// beginRandom adds a random request to a scheduler.
func (m manual) beginRandom(a *asked) {
	m.t.Helper()
	var form *Form
	if a.form != "" {
		form = m.form(generation.Constraint{Regex: a.form}, grammar.Limits{})
	}
	ctx, cancel := context.WithCancel(m.t.Context())
	r, err := newRequest(ctx, m.tokenizer, m.context, time.Now(), a.req.Tokens, &a.req, form)
	require.NoError(m.t, err)
	a.request, a.cancel = r, cancel
	if r.open > 0 {
		m.loop.planner.enqueue(r.seqs)
	}
}

// answers is what a request gets, whatever other requests there are.
type answers struct {
	Choices []generation.Choice
	Prompt  []generation.TokenLogprob
}

func (m manual) answers(r *request) answers {
	c := r.completion(m.tokenizer)
	return answers{c.Choices, c.PromptLogprobs}
}

// requirePlannedSize plans the next step, and checks that its size is that of its rows.
func (m manual) requirePlannedSize() {
	m.t.Helper()
	p := &m.loop.planner
	p.sweep()
	p.admit()
	before := p.preemptions
	p.plan(time.Now())
	if p.preemptions > before {
		return
	}
	m.loop.batch.fill(p.running, 20)
	want := m.loop.batch.size()
	require.Equal(m.t, []int{want.Rows, want.Reads}, []int{p.size.Rows, p.size.Reads})
	scores := false
	for _, s := range p.running {
		scores = scores || s.request.scores || s.request.scoresPrompt
		require.Equal(m.t, s.computed, s.start)
		if !s.generates() {
			require.LessOrEqual(m.t, s.rows, max(p.prefillChunk, compute.ChunkRows))
		}
	}
	if scores {
		require.GreaterOrEqual(m.t, p.size.Outputs, want.Outputs)
	} else {
		require.Equal(m.t, want.Outputs, p.size.Outputs)
	}
}

// Requests of all kinds, at the same time and with few pages, get the answers that they get alone,
// from every kind of model and drafter. No step reads wrong pages or states. Afterwards nothing is
// in use.
func TestRandomRequestsOfASimulatedModel(t *testing.T) {
	t.Parallel()
	bySmall := func(m *simulated, o *draft.Options) {
		small := simulate(m.t, model.Config{Vocab: m.config.Vocab, Layers: 1}, m.limits)
		small.wrong = 5
		o.Small, o.Fixed = small, 3
	}
	byText := func(_ *simulated, o *draft.Options) { o.NGram, o.Fixed = true, 4 }
	recurrent := model.Config{States: compute.StateShape{Layers: 1}, Layers: 3}
	sliding := model.Config{Layers: 4, Sliding: 3, Window: 20}
	for name, c := range map[string]struct {
		config    model.Config
		limits    model.Limits
		options   Options
		speculate func(*simulated, *draft.Options)
	}{
		"many pages":            {},
		"few pages":             {limits: model.Limits{Pages: 48}},
		"small pages":           {limits: model.Limits{PageSize: 4, Pages: 200, Rows: 24}},
		"short chunks":          {options: Options{PrefillChunk: 9, Steps: affine()}},
		"little time":           {options: Options{Steps: affine(), StepTime: 25 * time.Millisecond}, limits: model.Limits{Pages: 60}},
		"steps in flight":       {options: Options{MaxInFlight: 8}, limits: model.Limits{Pages: 64}},
		"no sharing":            {options: Options{NoSharing: true}, limits: model.Limits{Pages: 90}},
		"windows":               {config: sliding, limits: model.Limits{FreeWindows: true, Pages: 160}},
		"windows, few rows":     {config: sliding, limits: model.Limits{FreeWindows: true, Pages: 200, PageSize: 4, Rows: 20}, options: Options{MaxInFlight: 4}},
		"states":                {config: recurrent, limits: model.Limits{States: 11, Drafts: 4, Pages: 80}},
		"states, in flight":     {config: recurrent, limits: model.Limits{States: 8, Drafts: 4}, options: Options{MaxInFlight: 8}},
		"states, drafts":        {config: recurrent, limits: model.Limits{States: 12, Drafts: 3}, speculate: byText},
		"drafts from the text":  {speculate: byText, limits: model.Limits{Pages: 56}},
		"drafts, in flight":     {speculate: func(_ *simulated, o *draft.Options) { o.NGram = true }, options: Options{MaxInFlight: 8}},
		"drafts of a model":     {speculate: bySmall, limits: model.Limits{Pages: 80}},
		"drafts in little time": {speculate: bySmall, options: Options{Steps: affine(), PrefillChunk: 30}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(7, uint64(len(name))))
			m := newSimulated(t, c.config, c.limits, c.options, c.speculate)
			free := m.loop.planner.pool.Available()
			var all []*asked
			const requests = 30
			for steps := 0; len(all) < requests || len(m.loop.planner.running)+len(m.loop.planner.waiting) > 0; steps++ {
				require.Less(t, steps, 5000)
				for len(all) < requests && r.IntN(3) == 0 {
					a := randomRequest(r)
					m.beginRandom(&a)
					all = append(all, &a)
				}
				for _, a := range all {
					if a.cancelled && r.IntN(10) == 0 {
						a.cancel()
					}
				}
				if r.IntN(3) == 0 {
					m.requirePlannedSize()
				}
				m.step()
				now := m.Snapshot()
				require.LessOrEqual(t, len(m.loop.planner.running), m.loop.planner.maxSequences)
				require.LessOrEqual(t, now.PagesUsed, free)
			}
			m.step()
			lone := newSimulated(t, c.config, model.Limits{States: c.limits.States, Drafts: c.limits.Drafts}, Options{}, nil)
			for i, a := range all {
				a.cancel()
				require.Zero(t, a.request.open)
				if a.request.err != nil {
					require.True(t, a.cancelled, "request %d: %v", i, a.request.err)
					continue
				}
				alone := *a
				lone.beginRandom(&alone)
				for steps := 0; alone.request.open > 0; steps++ {
					require.Less(t, steps, 500)
					lone.step()
				}
				lone.step()
				require.NoError(t, alone.request.err)
				want := lone.answers(alone.request)
				require.Equal(t, want, m.answers(a.request), "request %d: %+v", i, a.req)
				for _, choice := range want.Choices {
					require.NotEmpty(t, choice.FinishReason)
				}
				alone.cancel()
			}
			require.Equal(t, free, m.loop.planner.pool.Available())
			if st := m.loop.planner.states; st != nil {
				require.Len(t, st.free, c.limits.States-len(st.copies))
				require.Empty(t, st.pending)
			}
			now := m.Snapshot()
			require.Equal(t, []int{0, 0, 0}, []int{now.Running, now.Waiting, now.PagesUsed})
		})
	}
}

// Requests that have ended are not kept in memory.
func TestEndedRequestsAreFreed(t *testing.T) { // not parallel: it collects garbage
	m := newSimulated(t, model.Config{}, model.Limits{Pages: 60}, Options{MaxInFlight: 4}, nil)
	var left []weak.Pointer[request]
	func() {
		r := rand.New(rand.NewPCG(1, 2))
		var all []*asked
		for len(all) < 30 {
			a := randomRequest(r)
			m.beginRandom(&a)
			all = append(all, &a)
			left = append(left, weak.Make(a.request))
			m.step()
		}
		for len(m.loop.planner.running)+len(m.loop.planner.waiting) > 0 {
			m.step()
		}
		m.step()
		for _, a := range all {
			a.cancel()
		}
	}()
	clear(m.loop.planner.victimList[:cap(m.loop.planner.victimList)]) // working memory, which is overwritten
	m.loop.guides.crew.begin(nil, nil)
	runtime.GC()
	require.Empty(t, slices.DeleteFunc(left, func(p weak.Pointer[request]) bool { return p.Value() == nil }))
}

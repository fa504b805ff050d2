package draft

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/internal/cache"
	"github.com/ingot-run/ingot/engine/internal/cost"
	"github.com/ingot-run/ingot/engine/model"
)

// linear returns the costs of steps of 10 s, 1 s for each row and each output, 2 s for an output
// head, and 0.01 s for each position that a row attends to.
func linear() *cost.Steps {
	return cost.NewSteps(cost.NewCurve([]int{1, 101}, []float64{11, 111}), 2, 1, 0.01)
}

// speculating returns a Speculator that drafts by passes of a tape, and takes them for free.
func speculating(t *testing.T, o Options, c chain) (*Speculator, *tape) {
	t.Helper()
	if o.Steps == nil {
		o.Steps = cost.NewSteps(cost.NewCurve([]int{1, 64}, []float64{1, 1.01}), 0, 0, 0)
	}
	if o.Limits.Rows == 0 {
		o.Limits.Rows = 512
	}
	sp, err := New(o)
	require.NoError(t, err)
	var m *tape
	sp.chain, m = newTape(c)
	sp.planner.Pass = cost.NewCurve([]int{1}, []float64{1e-9})
	sp.trials = drafting()
	return sp, m
}

// What a step with drafts costs is compared with a step without them. An accepted draft saves a row
// of such a step or, if no sequence waits for it, steps until the last sequence ends.
func TestAccountOfAStep(t *testing.T) {
	t.Parallel()
	type drafts struct{ drafted, accepted, remaining int }
	for name, c := range map[string]struct {
		seqs    []drafts
		size    cost.Size
		waiting bool
		lost    float64
	}{
		// Three rows without drafts take 13+2+3+0.01*50 = 18.5 s. With 10 positions for each row,
		// they take 18.3 s, and two rows 16.2 s. Two steps of 40 s were measured.
		"others wait":       {[]drafts{{2, 1, 5}, {3, 3, 9}, {0, 0, 9}}, cost.Size{Rows: 8, Outputs: 8, Reads: 100}, true, 2*(40-18.5) - 4*18.3/3},
		"none waits":        {[]drafts{{2, 1, 5}, {3, 1, 9}, {0, 0, 9}}, cost.Size{Rows: 8, Outputs: 8, Reads: 100}, false, 2*(40-18.5) - 18.3 - 2.1},
		"the last has none": {[]drafts{{2, 1, 5}, {3, 1, 8}, {0, 0, 9}}, cost.Size{Rows: 8, Outputs: 8, Reads: 100}, false, 2*(40-18.5) - 2*2.1},
		"few positions":     {[]drafts{{2, 1, 5}, {3, 1, 8}, {0, 0, 9}}, cost.Size{Rows: 8, Outputs: 8, Reads: 20}, false, 2*(40-18) - 2*2.1},
		"alone":             {[]drafts{{4, 2, 5}}, cost.Size{Rows: 5, Outputs: 5, Reads: 60}, false, 2*(40-14.2) - 2*14.1},
		"alone, one waits":  {[]drafts{{4, 2, 5}}, cost.Size{Rows: 5, Outputs: 5, Reads: 60}, true, 2*(40-14.2) - 2*14.1},
		"two, none waits":   {[]drafts{{2, 1, 5}, {3, 1, 9}}, cost.Size{Rows: 7, Outputs: 7, Reads: 100}, false, 2*(40-16.5) - 16.2 - 2.1},
		"one draft":         {[]drafts{{1, 1, 5}}, cost.Size{Rows: 6, Outputs: 2, Reads: 20}, false, 2*(40-18.1) - 14.1},
		"a prompt too":      {[]drafts{{4, 2, 5}}, cost.Size{Rows: 15, Outputs: 5, Reads: 60}, false, 2*(40-24.2) - 2*14.1},
	} {
		sp, _ := speculating(t, Options{Steps: linear()}, chain{})
		sp.planner.Reads = 10
		sp.idle = 7
		var step []*Sequence
		want := Counts{}
		for _, d := range c.seqs {
			step = append(step, &Sequence{Limit: d.remaining, Drafts: make([]int32, d.drafted), Accepted: d.accepted, byNGram: true, Total: Counts{10, 5}})
			want.Drafted, want.Accepted = want.Drafted+d.drafted, want.Accepted+d.accepted
		}
		got, depends := sp.Observe(step, Step{Size: c.size, Steps: 2, Seconds: 40, Waiting: c.waiting})
		require.Equal(t, want, got, name)
		require.True(t, depends, name)
		require.InDeltaSlice(t, []float64{c.lost, 80 - c.lost, 80, 2 * linear().Seconds(c.size)},
			[]float64{sp.trials.lost, sp.trials.with.worth, sp.trials.with.seconds, sp.trials.with.estimated}, 1e-9, name)
		for i, s := range step {
			require.Equal(t, Counts{10 + c.seqs[i].drafted, 5 + c.seqs[i].accepted}, s.Total, name)
			require.Empty(t, s.Drafts)
			require.Zero(t, s.Accepted)
			require.False(t, s.byNGram)
		}
		require.Zero(t, sp.idle, name)
	}
	sp, _ := speculating(t, Options{}, chain{})
	sp.trials.since = 100
	for _, want := range []int{3, 6} {
		c, depends := sp.Observe([]*Sequence{{Limit: 5}}, Step{Size: cost.Size{Rows: 1, Outputs: 1}, Steps: 3, Seconds: 1})
		require.Zero(t, c)
		require.False(t, depends)
		require.Equal(t, want, sp.idle)
	}
	sp.Observe(nil, Step{Steps: 1, Seconds: 1})
}

// Each kind of drafts of each kind of sequence has its own averages. A draft that the gate dropped
// counts as tried.
func TestWhatIsLearnedOfDrafts(t *testing.T) {
	t.Parallel()
	sp, _ := speculating(t, Options{}, chain{})
	pool := cache.NewPool(64, 4, cache.Groups{})
	fresh := newAcceptance(passPrior)
	ngram, pass := newAcceptance(prior), newAcceptance(passPrior)

	s := counting(t, pool, 9)
	s.Temperature, s.filled, s.Drafts, s.Accepted = 0.6, 9, []int32{9, 10, 11}, 2
	s.confidence = []float64{0.6, 0.8, 0.9}
	sp.learn(s)
	pass.Observe(3, 2)
	require.Equal(t, pass, sp.learned[2].pass)
	require.Equal(t, fresh, sp.learned[0].pass)
	require.Equal(t, newAcceptance(prior), sp.learned[2].ngram)
	require.Equal(t, record{tried: 3, right: 2}, s.passRecord)
	require.Equal(t, 11, s.filled, "the small model has processed two of the drafts")
	g := newGate()
	g.Observe(0.6, true)
	g.Observe(0.8, true)
	g.Observe(0.9, false)
	require.Equal(t, g, sp.learned[2].gate)

	s = counting(t, pool, 9)
	s.Temperature, s.Drafts, s.Accepted, s.confidence, s.gated = 0.6, []int32{9}, 1, []float64{0.6}, true
	sp.learn(s)
	pass.Observe(2, 1)
	g.Observe(0.6, true)
	require.Equal(t, pass, sp.learned[2].pass)
	require.Equal(t, g, sp.learned[2].gate)
	require.Equal(t, record{tried: 2, right: 1}, s.passRecord)

	s = &Sequence{gated: true} // the first draft was dropped
	sp.learn(s)
	first := newAcceptance(passPrior)
	first.Observe(1, 0)
	require.Equal(t, first, sp.learned[0].pass)
	require.Equal(t, newGate(), sp.learned[0].gate)

	s = &Sequence{Drafts: []int32{1, 2}, Accepted: 1, byNGram: true}
	sp.learn(s)
	ngram.Observe(2, 1)
	require.Equal(t, ngram, sp.learned[0].ngram)
	require.Equal(t, first, sp.learned[0].pass)
	require.Equal(t, newGate(), sp.learned[0].gate)
	require.Equal(t, record{tried: 2, right: 1}, s.ngramRecord)
	require.Zero(t, s.passRecord)

	sp.learn(&Sequence{})
	require.Equal(t, ngram, sp.learned[0].ngram)
	require.Equal(t, first, sp.learned[0].pass)

	sp.rest()
	ngram.rest()
	first.rest()
	pass.rest()
	require.Equal(t, ngram, sp.learned[0].ngram)
	require.Equal(t, []acceptance{first, pass}, []acceptance{sp.learned[0].pass, sp.learned[2].pass})

	sp.Observe(nil, Step{Steps: 1, Seconds: 1})
	ngram.settle()
	first.settle()
	pass.settle()
	require.Equal(t, ngram, sp.learned[0].ngram, "a step ends with the averages of its drafts")
	require.Equal(t, []acceptance{first, pass}, []acceptance{sp.learned[0].pass, sp.learned[2].pass})
}

// While no sequence generates, drafts are judged by what is learned of greedy ones.
func TestDraftsAreJudgedWithoutSequences(t *testing.T) {
	t.Parallel()
	for _, good := range []int{0, 1} {
		sp, _ := speculating(t, Options{}, chain{})
		for k := range sp.learned {
			sp.learned[k].pass.share = [MaxTokens]float64{}
		}
		for d := range MaxTokens {
			sp.learned[good].pass.share[d] = 0.9
		}
		sp.unprofitable = 8
		sp.judge(Next{Running: 1})
		require.Equal(t, map[int]int{0: 8 - forgives, 1: 9}[good], sp.unprofitable)
	}
}

// After a pause in drafting, more and more steps are in flight. A step whose drafts are to be
// verified, or whose tokens are to be processed, is waited for.
func TestWhenStepsAreInFlight(t *testing.T) {
	t.Parallel()
	sp, _ := speculating(t, Options{}, chain{})
	for idle, want := range map[int]int{0: 1, 1: 1, 2: 2, 7: 7, 20: 20} {
		sp.idle = idle
		require.Equal(t, want, sp.MaxRun(), idle)
	}
	sp.trials.begin(false, 7)
	require.Equal(t, 7, sp.MaxRun(), "there will be no drafts for a while")
	sp.trials = drafting()
	sp.fixed = 1
	require.Equal(t, 1, sp.MaxRun())
	require.True(t, sp.Waits(&Sequence{}), "all tokens are processed")
	require.Nil(t, sp.gates())
	sp.fixed = 0
	require.Same(t, &sp.learned, sp.gates())
	for unprofitable, want := range map[int]bool{0: true, maxUnprofitable - 1: true, maxUnprofitable: false} {
		sp.unprofitable = unprofitable
		require.Equal(t, want, sp.Waits(&Sequence{}), unprofitable)
		require.True(t, sp.Waits(&Sequence{Drafts: []int32{1}}))
	}
	sp.unprofitable, sp.chain = 0, nil
	require.False(t, sp.Waits(&Sequence{}))
	require.True(t, sp.Waits(&Sequence{Drafts: []int32{1}}))
}

// Prompts are processed while drafts by passes are worth their cost.
func TestPrefill(t *testing.T) {
	t.Parallel()
	sp, m := speculating(t, Options{}, chain{rows: 64, shift: 1, states: true})
	s := counting(t, cache.NewPool(64, 4, cache.Groups{}), 20)
	s.Computed, s.Rows = 0, 6
	require.NoError(t, sp.Prefill([]*Sequence{s}))
	require.Zero(t, s.filled, "drafts by passes are not worth their cost")
	sp.unprofitable = 0
	require.NoError(t, sp.Prefill(nil))
	require.NoError(t, sp.Prefill([]*Sequence{s}))
	require.Equal(t, 6, s.filled)
	s.Rows, m.err = 8, errBroken
	require.Equal(t, errBroken, sp.Prefill([]*Sequence{s}))
	sp.chain = nil
	require.NoError(t, sp.Prefill([]*Sequence{s}))
}

// Whether drafts by passes are worth their cost is counted over steps, for as many sequences as
// run.
func TestStepsWithoutProspects(t *testing.T) {
	t.Parallel()
	sp, _ := speculating(t, Options{Limits: model.Limits{Rows: 8}}, chain{rows: 64, shift: 1, states: true})
	pool := cache.NewPool(256, 4, cache.Groups{})
	greedy, drawn := counting(t, pool, 9), counting(t, pool, 9)
	drawn.Temperature = 1
	for d := range MaxTokens {
		sp.learned[kinds-1].pass.share[d] = 0 // drafts of drawn sequences are wrong
	}
	judge := func(running int, decode ...*Sequence) int {
		sp.judge(Next{Running: running, Decode: decode})
		return sp.unprofitable
	}
	require.Equal(t, 12, judge(1, greedy))
	require.Equal(t, 8, judge(3, greedy))
	require.Equal(t, 9, judge(1, drawn))
	require.Equal(t, 10, judge(5, drawn))
	require.Equal(t, 6, judge(2, drawn, greedy))
	require.Equal(t, 2, judge(4), "sequences that do not generate yet are taken for greedy ones")
	require.Zero(t, judge(1, greedy))
	sp.planner.Pass = cost.NewCurve([]int{1}, []float64{100})
	for range 20 {
		judge(1, greedy)
	}
	require.Equal(t, maxUnprofitable, sp.unprofitable)

	// Draft judges while sequences run.
	sp.planner.Pass = cost.NewCurve([]int{1}, []float64{1e-9})
	require.NoError(t, sp.Draft(nil, Next{}))
	require.Equal(t, maxUnprofitable, sp.unprofitable)
	require.NoError(t, sp.Draft(nil, Next{Running: 1}))
	require.Equal(t, maxUnprofitable-forgives, sp.unprofitable)
	require.True(t, sp.catchesUp())

	// Steps without drafts say nothing about drafts. They have no passes, so they are as fast as
	// without a drafter.
	sp.trials.drafts = false
	require.NoError(t, sp.Draft(nil, Next{Running: 1}))
	require.Equal(t, maxUnprofitable-forgives, sp.unprofitable)
	require.False(t, sp.catchesUp())
}

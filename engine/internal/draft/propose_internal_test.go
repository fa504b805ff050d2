package draft

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/internal/cache"
	"github.com/ingot-run/ingot/engine/internal/cost"
	"github.com/ingot-run/ingot/engine/model"
)

// A step has at most MaxDrafts drafts and as many rows and pages as there is room for, however
// much its sequences could draft.
func TestDraftsFitIntoAStep(t *testing.T) {
	t.Parallel()
	const size = 4
	repeated := []int32{1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3}
	for name, c := range map[string]struct {
		seqs, rows, others, pages int
		limit                     int // maximum length of a sequence; 0 for no limit
		drafts                    int // of all sequences
		first                     int // of the first one
	}{
		"one sequence":                  {seqs: 1, rows: 512, pages: 100, drafts: MaxTokens, first: MaxTokens},
		"as many drafts as outputs":     {seqs: minDrafts / MaxTokens, rows: 512, pages: 1000, drafts: minDrafts, first: MaxTokens},
		"more than outputs":             {seqs: minDrafts/MaxTokens + 3, rows: 512, pages: 1000, drafts: minDrafts, first: MaxTokens},
		"as many as rows":               {seqs: 2, rows: 12, others: 3, pages: 100, drafts: 12 - 2 - 3, first: min(MaxTokens, 7)},
		"no room for drafts":            {seqs: 2, rows: 5, others: 3, pages: 100},
		"more rows than there are":      {seqs: 2, rows: 4, others: 3, pages: 100},
		"as many as pages":              {seqs: 1, rows: 512, pages: 6, drafts: 3, first: 3}, // 21 of 24 positions are taken
		"no pages":                      {seqs: 4, rows: 512, pages: 24, drafts: 12, first: 3},
		"close to the end of an answer": {seqs: 1, rows: 512, pages: 100, limit: 24, drafts: 2, first: 2},
		"at the end of an answer":       {seqs: 1, rows: 512, pages: 100, limit: 22},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			steps := cost.NewSteps(cost.NewCurve([]int{1}, []float64{1}), 0, 0, 0)
			sp, err := New(Options{NGram: true, Fixed: MaxTokens, Steps: steps, Limits: model.Limits{Rows: c.rows}})
			require.NoError(t, err)
			pool := cache.NewPool(c.pages, size, cache.Groups{})
			var seqs []*Sequence
			for range c.seqs {
				s := &Sequence{Tokens: repeated, Limit: 1000, Table: pool.NewTable()}
				if c.limit > 0 {
					s.Limit = c.limit
				}
				require.True(t, s.Table.Grow(len(repeated)))
				seqs = append(seqs, s)
			}
			require.NoError(t, sp.Draft(nil, Next{Running: c.seqs, Decode: seqs, Others: c.others}))
			total := 0
			for _, s := range seqs {
				total += len(s.Drafts)
				for i, token := range s.Drafts {
					require.Equal(t, repeated[3+i], token, "what followed 1 2 3 before")
				}
				require.GreaterOrEqual(t, s.Table.Positions(), s.Length()+len(s.Drafts))
			}
			require.Equal(t, c.drafts, total)
			require.Len(t, seqs[0].Drafts, c.first)
		})
	}
}

// More sequences have more drafts together, up to a limit.
func TestMaxDrafts(t *testing.T) {
	t.Parallel()
	for sequences, want := range map[int]int{0: 64, 1: 64, 21: 64, 22: 66, 64: 192, 1000: 192} {
		require.Equal(t, want, MaxDrafts(sequences), sequences)
	}
	sp, err := New(Options{NGram: true, Steps: cost.NewSteps(cost.NewCurve([]int{1}, []float64{1}), 0, 0, 0), Sequences: 40})
	require.NoError(t, err)
	require.Equal(t, 120, sp.room)
}

// The estimates with which drafts are planned are those of the sequences that generate.
func TestEstimatesOfAPlan(t *testing.T) {
	t.Parallel()
	sp, m := speculating(t, Options{Steps: linear()}, chain{rows: 64, shift: 1, states: true})
	pool := cache.NewPool(256, 4, cache.Groups{})
	short, long := counting(t, pool, 10), counting(t, pool, 13)
	short.wanted, sp.trials.with = 5, way{1, 1, 3}
	sp.learned[1].pass.share[0], sp.learned[1].ngram.share[0] = 0.5, 0.5
	require.NoError(t, sp.Draft([]*Sequence{short}, Next{Running: 2, Decode: []*Sequence{short, long}, Others: 3}))
	require.Equal(t, 11, sp.planner.Reads)
	require.InDelta(t, 3, sp.planner.Slow, 1e-6)
	require.InDelta(t, (15+2+2+0.01*55)/5, sp.planner.Token, 1e-9)
	require.InDelta(t, 2+0.11, sp.planner.Row, 1e-9)
	for k := range sp.learned {
		g := sp.learned[k].gate
		require.Equal(t, []float64{sp.planner.Token, sp.planner.Row}, []float64{g.Token, g.Row})
	}
	require.Empty(t, m.passes, "rows cost too much for drafts")
	require.Greater(t, sp.learned[1].pass.share[0], 0.5, "averages return to what is assumed at first")
	require.Greater(t, sp.learned[1].ngram.share[0], 0.5)
	require.Zero(t, short.wanted)

	learned := sp.learned
	require.NoError(t, sp.Draft(nil, Next{Others: 3}))
	require.Equal(t, learned, sp.learned, "a step without sequences that generate changes nothing")
	require.Zero(t, sp.planner.Reads)
}

// The number of drafts by passes of a step, if rows and passes cost little.
func TestNumberOfDraftsByPasses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		seqs, fixed, rows, others, pages int
		behind                           bool // the first sequence cannot be drafted for
		sure                             float64
		resting                          bool // drafting was slower
		want                             []int
	}{
		"measured":                  {seqs: 2, rows: 512, pages: 99, sure: 0.999, want: []int{8, 8}},
		"fixed":                     {seqs: 2, fixed: 3, rows: 512, pages: 99, sure: 0.999, want: []int{3, 3}},
		"unsure":                    {seqs: 2, rows: 512, pages: 99, sure: 0.001, want: []int{8, 8}}, // rows are free
		"fixed and unsure":          {seqs: 2, fixed: 3, rows: 512, pages: 99, sure: 0.001, want: []int{3, 3}},
		"one cannot catch up":       {seqs: 2, rows: 512, pages: 99, behind: true, sure: 0.999, want: []int{0, 8}},
		"few rows":                  {seqs: 2, rows: 9, others: 2, pages: 99, sure: 0.999, want: []int{3, 2}},
		"one row":                   {seqs: 2, rows: 5, others: 2, pages: 99, sure: 0.999, want: []int{1, 0}},
		"no row":                    {seqs: 2, rows: 4, others: 2, pages: 99, sure: 0.999, want: []int{0, 0}},
		"few pages":                 {seqs: 2, rows: 512, pages: 7, sure: 0.999, want: []int{7, 3}}, // 9 tokens each, in pages of 4
		"as many outputs as a step": {seqs: 10, rows: 512, pages: 99, sure: 0.999, want: []int{7, 7, 7, 7, 6, 6, 6, 6, 6, 6}},
		"drafting was slower":       {seqs: 2, rows: 512, pages: 99, sure: 0.999, resting: true, want: []int{0, 0}},
	} {
		sp, _ := speculating(t, Options{
			Fixed: c.fixed, Limits: model.Limits{Rows: c.rows}, Steps: cost.NewSteps(cost.NewCurve([]int{1, 512}, []float64{1, 1}), 0, 0, 0),
		}, chain{rows: 512, shift: 1, states: true})
		m := sp.chain.model.(*tape)
		m.sure = c.sure
		sp.unprofitable, sp.trials.drafts = 0, !c.resting
		pool := cache.NewPool(c.pages, 4, cache.Groups{})
		var seqs []*Sequence
		for range c.seqs {
			s := &Sequence{Tokens: span(0, 9), Computed: 8, Limit: 1000, Table: pool.NewTable()}
			require.True(t, s.Table.Grow(9))
			seqs = append(seqs, s)
		}
		if c.behind {
			seqs[0].Start = 5
		}
		require.NoError(t, sp.Draft(seqs, Next{Running: c.seqs, Decode: seqs, Others: c.others}))
		var got []int
		for _, s := range seqs {
			got = append(got, len(s.Drafts))
			require.GreaterOrEqual(t, s.Table.Positions(), 9+len(s.Drafts), name)
		}
		require.Equal(t, c.want, got, name)
	}
}

// An error of a pass is one of the step.
func TestErrorsOfPassesAreReturned(t *testing.T) {
	t.Parallel()
	sp, m := speculating(t, Options{Fixed: 2}, chain{rows: 512, shift: 1, states: true})
	m.sure, m.err = 0.9, errBroken
	s := counting(t, cache.NewPool(64, 4, cache.Groups{}), 9)
	require.ErrorIs(t, sp.Draft([]*Sequence{s}, Next{Running: 1, Decode: []*Sequence{s}}), errBroken)
	require.NotEmpty(t, m.passes)
}

// The gate ends the drafts of a step early, also after room for more was found than was planned.
func TestTheGateEndsPlannedDrafts(t *testing.T) {
	t.Parallel()
	steps := cost.NewSteps(cost.NewCurve([]int{1, 64}, []float64{1, 12}), 0, 0, 0) // a row adds about 0.17 s
	for sure, want := range map[float64]int{0.9999: MaxTokens, 0.3: 0} {
		sp, m := speculating(t, Options{Steps: steps}, chain{rows: 512, shift: 1, states: true})
		m.sure, sp.unprofitable = sure, 0
		s := counting(t, cache.NewPool(64, 4, cache.Groups{}), 9)
		sp.learned[0].gate.shares[0] = 0.1
		require.NoError(t, sp.Draft([]*Sequence{s}, Next{Running: 1, Decode: []*Sequence{s}}))
		require.Len(t, s.Drafts, want)
		require.Equal(t, want == 0, s.gated)
	}
}

// Drafts from the text go before drafts by passes that yield as much, and not before better ones.
func TestWhereDraftsComeFrom(t *testing.T) {
	t.Parallel()
	text := []int32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 1, 2}
	for name, c := range map[string]struct {
		text        []int32
		ngram, pass float64 // shares of right drafts
		limit       int
		byText      bool
	}{
		"equal":              {text, 0.8, 0.8, 100, true},
		"the text is better": {text, 0.9, 0.8, 100, true},
		"passes are better":  {text, 0.8, 0.81, 100, false},
		"nothing repeats":    {[]int32{1, 2, 3}, 1, 0, 100, false},
		"no room":            {text, 0.9, 0.8, len(text) + 1, false},
	} {
		sp, _ := speculating(t, Options{NGram: true}, chain{rows: 512, shift: 1, states: true})
		for d := range MaxTokens {
			sp.learned[0].ngram.share[d], sp.learned[0].pass.share[d] = c.ngram, c.pass
		}
		sp.gather([]*Sequence{{Tokens: c.text, Limit: c.limit}})
		s := &Sequence{Tokens: c.text, Limit: c.limit}
		sp.searchText([]*Sequence{s})
		require.Equal(t, c.byText, s.byNGram, name)
		require.Equal(t, c.byText, sp.candidates[0].Free, name)
		if c.byText {
			require.Equal(t, []int32{3, 4, 5, 6, 7, 8, 9, 10}, s.Drafts, name)
			require.Equal(t, MaxTokens, sp.candidates[0].Limit)
		} else {
			require.Empty(t, s.Drafts, name)
			require.Equal(t, min(MaxTokens, c.limit-len(c.text)-1), sp.candidates[0].Limit)
		}
		require.NotNil(t, s.ngrams)
	}
	sp, _ := speculating(t, Options{}, chain{rows: 512, shift: 1, states: true})
	s := &Sequence{Tokens: text, Limit: 100}
	sp.gather([]*Sequence{s})
	sp.searchText([]*Sequence{s})
	require.Nil(t, s.ngrams, "drafts come from passes alone")
	require.False(t, s.byNGram)
}

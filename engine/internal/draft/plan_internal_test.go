package draft

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ingot-run/ingot/engine/internal/cost"
)

// candidates returns n sequences whose drafts are right with the given chance at every depth.
func candidates(n int, chance float64, free bool) []candidate {
	all := make([]candidate, n)
	for i := range all {
		all[i] = candidate{Limit: MaxTokens, Free: free}
		for d := range all[i].chances {
			all[i].chances[d] = chance
		}
	}
	return all
}

func TestPlan(t *testing.T) {
	t.Parallel()
	flat := cost.NewCurve([]int{1, 64}, []float64{1, 1.2})     // memory-bound: rows are nearly free
	steep := cost.NewCurve([]int{1, 64}, []float64{1, 64})     // compute-bound: the cost is proportional to the rows
	knee := cost.NewCurve([]int{1, 8, 64}, []float64{1, 1, 8}) // free up to 8 rows
	slow := cost.NewCurve([]int{1}, []float64{0.3})
	for name, c := range map[string]struct {
		chance       float64
		free         bool
		verify, pass cost.Curve
		seqs, others int
		check        func(t *testing.T, total int)
	}{
		"good drafts, rows nearly free":          {chance: 0.9, verify: flat, pass: slow, seqs: 1, check: atLeast(3)},
		"no drafts if rows cost in full":         {chance: 0.7, verify: steep, free: true, seqs: 8, check: exactly(0)},
		"bad drafts that cost passes":            {chance: 0.05, verify: knee, pass: slow, seqs: 1, check: exactly(0)},
		"bad drafts that cost nothing":           {chance: 0.15, verify: knee, pass: slow, free: true, seqs: 1, check: atLeast(1)},
		"a drafter as slow as the model":         {chance: 0.9, verify: flat, pass: flat, seqs: 1, check: exactly(0)},
		"room for one more row per sequence":     {chance: 0.8, verify: knee, seqs: 4, check: exactly(4)},
		"no room beyond the knee":                {chance: 0.6, verify: knee, seqs: 16, check: exactly(0)},
		"no room next to the chunks of a prompt": {chance: 0.8, verify: knee, seqs: 1, others: 32, check: exactly(0)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := planner{Verify: cost.NewSteps(c.verify, 0, 0, 0), Pass: c.pass, Limit: MaxTokens}
			c.check(t, p.Plan(candidates(c.seqs, c.chance, c.free), c.others))
		})
	}
}

func exactly(n int) func(*testing.T, int) {
	return func(t *testing.T, total int) { require.Equal(t, n, total) }
}

func atLeast(n int) func(*testing.T, int) {
	return func(t *testing.T, total int) { require.GreaterOrEqual(t, total, n) }
}

// A plan's expected tokens per second are never lower than without drafts, and a plan respects its
// limits.
func TestPlanIsNeverWorseThanNone(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		curve := rapid.Custom(func(t *rapid.T) cost.Curve {
			return cost.NewCurve([]int{1, 4, 16, 64}, rapid.SliceOfN(rapid.Float64Range(0.01, 2), 4, 4).Draw(t, "seconds"))
		})
		p := planner{Verify: cost.NewSteps(curve.Draw(t, "verify"), 0, rapid.Float64Range(0, 0.1).Draw(t, "output"), 0), Pass: curve.Draw(t, "pass"), Limit: rapid.IntRange(1, MaxTokens).Draw(t, "most")}
		all := make([]candidate, rapid.IntRange(1, 40).Draw(t, "sequences"))
		for i := range all {
			all[i].Limit = rapid.IntRange(0, MaxTokens).Draw(t, "limit")
			all[i].Free = rapid.Bool().Draw(t, "free")
			chance := rapid.Float64Range(0, 1).Draw(t, "chance")
			for d := range all[i].chances {
				all[i].chances[d] = chance
			}
		}
		others := rapid.IntRange(0, 20).Draw(t, "others")
		total := p.Plan(all, others)

		n := len(all) + others
		rows, tokens, passing := n, float64(n), [MaxTokens]int{}
		for _, c := range all {
			require.LessOrEqual(t, c.Length, min(c.Limit, p.Limit))
			rows += c.Length
			tokens += c.Yield(c.Length)
			for d := range c.Length {
				if !c.Free {
					passing[d]++
				}
			}
		}
		require.Equal(t, total, rows-n)
		time := p.seconds(rows, others)
		for _, n := range passing {
			time += p.Pass.Seconds(n)
		}
		require.GreaterOrEqual(t, tokens/time, float64(n)/p.seconds(n, others)*(1-1e-9))
	})
}

func TestAcceptanceFollowsWhatIsSeen(t *testing.T) {
	t.Parallel()
	a := newAcceptance(prior)
	for range 500 {
		a.Observe(3, 1) // the first draft is always right, the second never; the third is never verified
		a.settle()
	}
	c := a.chances(&record{})
	require.InDelta(t, 1, c[0], 0.01)
	require.InDelta(t, 0, c[1], 0.01)
	require.InDelta(t, 0.7, c[2], 0.01)

	var good, bad record
	for range 20 {
		good.Observe(4, 4)
		bad.Observe(4, 0)
	}
	require.Greater(t, a.chances(&good)[1], a.chances(&bad)[1], "the record of a sequence changes its chances")

	for range 5000 {
		a.rest()
	}
	require.InDelta(t, 0.7, a.chances(&record{})[1], 0.02, "chances return to the prior")
}

// An expected gain of a few percent is below minGain, so nothing is drafted.
func TestPlanWantsAMargin(t *testing.T) {
	t.Parallel()
	free := cost.NewCurve([]int{1, 64}, []float64{1, 1})
	for chance, want := range map[float64]int{0.05: 0, 0.2: 1} { // if rows are free, the gain of a draft is its chance
		p := planner{Verify: cost.NewSteps(free, 0, 0, 0), Limit: 1}
		require.Equal(t, want, p.Plan(candidates(1, chance, true), 0), "with an expected speedup of %g", 1+chance)
	}
}

// The lengths and estimates of plans, by hand.
func TestPlansByHand(t *testing.T) {
	t.Parallel()
	of := func(chance float64, limit int, free bool) candidate {
		c := candidates(1, chance, free)[0]
		c.Limit, c.Length = limit, 3 // of an earlier plan
		return c
	}
	free := cost.NewCurve([]int{1, 64}, []float64{1, 1})
	for name, c := range map[string]struct {
		verify     cost.Curve
		pass       cost.Curve
		slow       float64
		again      bool
		room       int
		all        []candidate
		want       []int // lengths
		token, row float64
	}{
		"a deeper plan that yields no more": {
			verify: cost.NewCurve([]int{1, 2, 6}, []float64{1, 1, 3}), all: []candidate{of(1, 2, true)}, want: []int{1}, token: 0.5, row: 0.5,
		},
		"a row that yields just what it costs": {
			verify: cost.NewCurve([]int{1, 3, 6}, []float64{1, 1, 3}), all: []candidate{of(1, 8, true)}, want: []int{2}, token: 1.0 / 3, row: 0.625,
		},
		"one of two yields less than its row costs": {
			verify: cost.NewCurve([]int{2, 66}, []float64{1, 17}), all: []candidate{of(0.9, 1, true), of(0.1, 1, true)}, want: []int{1, 0}, token: 1.25 / 2.9, row: 0.25,
		},
		"different limits": {
			verify: free, all: []candidate{of(0.5, 1, true), of(0.5, 3, true), of(0.5, 0, true)}, want: []int{1, 3, 0}, token: 1 / 4.375,
		},
		"one of three takes a pass": {
			verify: free, pass: cost.NewCurve([]int{1, 2}, []float64{0.1, 0.9}),
			all: []candidate{of(0.8, 1, true), of(0.8, 1, true), of(0.8, 1, false)}, want: []int{1, 1, 1}, token: 1.1 / 5.4,
		},
		"two passes": {
			verify: free, pass: cost.NewCurve([]int{1, 2}, []float64{0.1, 0.9}), all: []candidate{of(1, 2, false)}, want: []int{2}, token: 1.2 / 3,
		},
		"steps with drafts take twice as long": {verify: free, slow: 2, all: []candidate{of(1, 1, true)}, want: []int{0}, token: 1},
		"steps with drafts take longer":        {verify: free, slow: 1.5, all: []candidate{of(1, 1, true)}, want: []int{1}, token: 0.75},
		"just the minimum gain":                {verify: free, all: []candidate{of(0.1, 1, true)}, want: []int{1}, token: 1 / 1.1},
		"less than the minimum gain":           {verify: free, all: []candidate{of(0.09, 1, true)}, want: []int{0}, token: 1 / 1.09},
		"any gain, again":                      {verify: free, again: true, all: []candidate{of(0.09, 1, true)}, want: []int{1}, token: 1 / 1.09},
		"no gain, again":                       {verify: free, again: true, slow: 1.1, all: []candidate{of(0.09, 1, true)}, want: []int{0}, token: 1},
		"little room": {
			verify: free, room: 4, all: []candidate{of(1, 3, true), of(1, 1, true), of(1, 3, true)}, want: []int{2, 1, 1}, token: 1.0 / 7,
		},
		"just enough room": {verify: free, room: 2, all: []candidate{of(1, 1, true), of(1, 1, true)}, want: []int{1, 1}, token: 1.0 / 4},
	} {
		p := planner{Verify: cost.NewSteps(c.verify, 0, 0, 0), Pass: c.pass, Limit: MaxTokens, Room: c.room, Again: c.again, Slow: c.slow}
		sum := p.Plan(c.all, 0)
		var got []int
		for _, one := range c.all {
			got = append(got, one.Length)
			sum -= one.Length
		}
		require.Equal(t, c.want, got, name)
		require.Zero(t, sum, name)
		require.InDeltaSlice(t, []float64{c.token, c.row}, []float64{p.Token, p.Row}, 1e-12, name)
	}
	c := candidate{chances: [MaxTokens]float64{0.5, 0.4}}
	require.InDeltaSlice(t, []float64{0, 0.5, 0.7, 0.7}, []float64{c.Yield(0), c.Yield(1), c.Yield(2), c.Yield(3)}, 1e-12)
}

// Rows of prompts have no outputs, and all rows attend to as many positions.
func TestCostOfPlannedRows(t *testing.T) {
	t.Parallel()
	p := planner{Verify: cost.NewSteps(cost.NewCurve([]int{1, 64}, []float64{1, 64}), 0.5, 0.25, 0.001), Reads: 100, Limit: 1}
	require.InDelta(t, 5+0.5+0.25*2+0.5, p.seconds(5, 3), 1e-12)
	require.InDelta(t, 1+0.25+0.1, p.rowCost(5, 3), 1e-12)
	require.Zero(t, p.Plan(candidates(2, 0.5, true), 3))
	require.InDeltaSlice(t, []float64{(5 + 0.5 + 0.25*2 + 0.5) / 5, 1 + 0.25 + 0.1}, []float64{p.Token, p.Row}, 1e-12)
}

package draft_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ingot-run/ingot/engine/draft"
)

// records returns n sequences without a history, each of which may draft up to limit tokens.
func records(n, limit int) (lengths []int, recs []*draft.Record, limits []int) {
	for range n {
		recs, limits = append(recs, &draft.Record{}), append(limits, limit)
	}
	return make([]int, n), recs, limits
}

// planner has seen every depth accepted with the given share for long enough to know it.
func planner(share float64, verify, drafting draft.Cost) *draft.Planner {
	p := &draft.Planner{Verify: verify, Draft: drafting, Limit: draft.MaxTokens}
	hits := 0.0
	for range 4000 {
		accepted := 0
		for accepted < draft.MaxTokens {
			hits += share
			if hits < 1 {
				break
			}
			hits--
			accepted++
		}
		p.Acceptance.Observe(draft.MaxTokens, accepted)
	}
	return p
}

func TestPlan(t *testing.T) {
	t.Parallel()
	flat := draft.NewCost([]int{1, 64}, []float64{1, 1.2})     // memory-bound: rows are nearly free
	steep := draft.NewCost([]int{1, 64}, []float64{1, 64})     // compute-bound: rows cost what they are
	knee := draft.NewCost([]int{1, 8, 64}, []float64{1, 1, 8}) // free up to 8 rows
	for name, c := range map[string]struct {
		share            float64
		verify, drafting draft.Cost
		seqs             int
		check            func(t *testing.T, total int)
	}{
		"good drafts where rows are free":   {0.9, flat, draft.Cost{}, 1, atLeast(4)},
		"no drafts where rows cost in full": {0.7, steep, draft.Cost{}, 8, exactly(0)},
		"bad drafts that cost time":         {0.05, knee, draft.NewCost([]int{1}, []float64{0.3}), 1, exactly(0)},
		"a drafter as slow as the model":    {0.9, flat, flat, 1, exactly(0)},
		"room for one more row a sequence":  {0.8, knee, draft.Cost{}, 4, exactly(4)},
		"no room beyond the knee":           {0.6, knee, draft.Cost{}, 16, exactly(0)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lengths, recs, limits := records(c.seqs, draft.MaxTokens)
			c.check(t, planner(c.share, c.verify, c.drafting).Plan(lengths, recs, limits))
		})
	}
}

func exactly(n int) func(*testing.T, int) {
	return func(t *testing.T, total int) { require.Equal(t, n, total) }
}

func atLeast(n int) func(*testing.T, int) {
	return func(t *testing.T, total int) { require.GreaterOrEqual(t, total, n) }
}

func TestPlanTellsSequencesApart(t *testing.T) {
	t.Parallel()
	p := planner(0.5, draft.NewCost([]int{1, 64}, []float64{1, 4}), draft.Cost{})
	lengths, recs, limits := records(2, draft.MaxTokens)
	for range 20 {
		recs[0].Observe(4, 4)
		recs[1].Observe(4, 0)
	}
	p.Plan(lengths, recs, limits)
	require.Greater(t, lengths[0], lengths[1])
}

// A plan is never expected to be slower than none, and respects its limits.
func TestPlanIsNeverWorseThanNone(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		seconds := rapid.Custom(func(t *rapid.T) draft.Cost {
			s := rapid.SliceOfN(rapid.Float64Range(0.01, 2), 4, 4).Draw(t, "seconds")
			return draft.NewCost([]int{1, 4, 16, 64}, s)
		})
		p := planner(rapid.Float64Range(0, 1).Draw(t, "share"), seconds.Draw(t, "verify"), seconds.Draw(t, "draft"))
		n := rapid.IntRange(1, 40).Draw(t, "sequences")
		lengths, recs, limits := records(n, 0)
		for i := range limits {
			limits[i] = rapid.IntRange(0, draft.MaxTokens).Draw(t, "limit")
		}
		total := p.Plan(lengths, recs, limits)

		rows, tokens, deepest := n, float64(n), 0
		for i, l := range lengths {
			require.LessOrEqual(t, l, limits[i])
			rows += l
			deepest = max(deepest, l)
			chance := 1.0
			for d := range l {
				chance *= p.Acceptance.Chance(recs[i], d)
				tokens += chance
			}
		}
		require.Equal(t, total, rows-n)
		time := p.Verify.Seconds(rows)
		for d := 1; d <= deepest; d++ {
			drafting := 0
			for _, l := range lengths {
				if l >= d {
					drafting++
				}
			}
			time += p.Draft.Seconds(drafting)
		}
		require.GreaterOrEqual(t, tokens/time, float64(n)/p.Verify.Seconds(n)*(1-1e-9))
	})
}

func TestAcceptanceFollowsWhatIsSeen(t *testing.T) {
	t.Parallel()
	var a draft.Acceptance
	for range 500 {
		a.Observe(3, 1) // the first is always right, the second never; the third is never reached
	}
	r := &draft.Record{}
	require.InDelta(t, 1, a.Chance(r, 0), 0.01)
	require.InDelta(t, 0, a.Chance(r, 1), 0.01)
	require.InDelta(t, 0.7, a.Chance(r, 2), 0.01)
}

func TestCost(t *testing.T) {
	t.Parallel()
	c := draft.NewCost([]int{1, 4, 8}, []float64{2, 1, 6})
	for rows, want := range map[int]float64{0: 0, 1: 2, 2: 2, 4: 2, 6: 4, 8: 6, 16: 12} {
		require.InDelta(t, want, c.Seconds(rows), 1e-12, "%d rows", rows)
	}
	for range 400 {
		c.Observe(4, 3)
	}
	require.InDelta(t, 3, c.Seconds(4), 0.01)
	c.Observe(4, 1e9)
	require.Less(t, c.Seconds(4), 4.0)

	var none draft.Cost
	none.Observe(3, 1)
	require.Zero(t, none.Seconds(3))
	require.False(t, math.IsNaN(none.Seconds(0)))
}

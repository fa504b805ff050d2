package schedule

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/internal/cache"
	"github.com/ingot-run/ingot/engine/internal/cost"
	"github.com/ingot-run/ingot/engine/internal/draft"
	"github.com/ingot-run/ingot/engine/model"
)

func TestStopRates(t *testing.T) {
	t.Parallel()
	var s stopRate
	require.Equal(t, 128, s.length())
	s = stopRate{tokens: 1000, stopped: 9}
	require.Equal(t, 112, s.length())
	s.add(true)
	s.add(false)
	require.Equal(t, stopRate{1002, 10}, s)
	s = stopRate{tokens: stopMemory - 2, stopped: 9}
	s.add(true)
	require.Equal(t, stopRate{stopMemory - 1, 10}, s)
	s.add(false)
	require.Equal(t, stopRate{stopMemory / 2, 5}, s, "older answers count half")
}

// How many steps run before the next pause depends on what each of them needs from the one before.
func TestLengthOfARun(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for name, c := range map[string]struct {
		change func(p *planner, s *sequence) // of a planner with two sequences of 10 tokens that generate
		want   int
	}{
		"long steps":           {want: 8},
		"short steps":          {func(p *planner, _ *sequence) { p.costs = constant(0.005) }, 20},
		"very short steps":     {func(p *planner, _ *sequence) { p.costs = constant(0.0001) }, 32},
		"steps without time":   {func(p *planner, _ *sequence) { p.costs = nil }, 32},
		"one at a time":        {func(p *planner, _ *sequence) { p.costs, p.maxInFlight = constant(0.0001), 1 }, 1},
		"a batch row waits":    {func(p *planner, s *sequence) { p.waiting = []*sequence{s} }, 8},
		"an interactive waits": {func(p *planner, _ *sequence) { p.waiting = []*sequence{{request: &request{interactive: true}}} }, 1},
		"a whole prompt":       {func(_ *planner, s *sequence) { s.computed, s.rows = 5, 5 }, 8},
		"a part of a prompt":   {func(_ *planner, s *sequence) { s.computed, s.rows = 5, 4 }, 1},
		"one has ended":        {func(_ *planner, s *sequence) { s.reason = "stop" }, 1},
		"close to the limit":   {func(_ *planner, s *sequence) { s.request.limit = 13 }, 8},
		"the context ends":     {func(p *planner, _ *sequence) { p.limits.Context = 13 }, 3},
		"a minimum length":     {func(_ *planner, s *sequence) { s.request.minTokens, s.request.stopIDs = 6, []int32{1} }, 8},
		"a constraint":         {func(_ *planner, s *sequence) { s.guide = &guide{} }, 8},
		"a constraint, states": {func(p *planner, s *sequence) { s.guide, p.states = &guide{}, &states{} }, 8},
		"as many logprobs as found": {func(_ *planner, s *sequence) {
			s.request.scores, s.scores.top = true, 5
			s.scores.ids = make([]int32, 4)
		}, 8},
		"more logprobs": {func(_ *planner, s *sequence) {
			s.request.scores, s.scores.top = true, 6
			s.scores.ids = make([]int32, 4)
		}, 1},
		"drafts":                    {func(p *planner, s *sequence) { p.speculator = idle(t, 20); s.draft.Drafts = []int32{1} }, 1},
		"drafts were made just now": {func(p *planner, _ *sequence) { p.speculator = idle(t, 6) }, 6},
		"drafts were made long ago": {func(p *planner, _ *sequence) { p.speculator = idle(t, 40) }, 8},
		"a person may come":         {func(p *planner, _ *sequence) { p.arrivals = arrivals{now, 3.5} }, 3},
		"a step takes as long":      {func(p *planner, _ *sequence) { p.arrivals = arrivals{now, 4} }, 4},
		"a step takes longer":       {func(p *planner, _ *sequence) { p.arrivals = arrivals{now, 0.5} }, 1},
		"no one came lately":        {func(p *planner, _ *sequence) { p.arrivals = arrivals{now.Add(-arrivalWindow), 0.5} }, 8},
		"few pages":                 {func(p *planner, _ *sequence) { p.pool.NewTable().Grow(4 * (p.pool.Available() - 1)) }, 3}, // 10 of 12 positions are taken
		"pages for two":             {func(p *planner, _ *sequence) { p.pool.NewTable().Grow(4 * (p.pool.Available() - 2)) }, 7},
		"no pages":                  {func(p *planner, _ *sequence) { p.pool.NewTable().Grow(4 * p.pool.Available()) }, 3},
	} {
		p := planner{
			pool: cache.NewPool(40, 4, cache.Groups{}), costs: constant(1), maxInFlight: 8, limits: model.Limits{Context: 500},
		}
		for i := range int32(2) {
			s := p.holding(i, 6, 4, 100)
			s.rows = 1
			require.True(t, s.table.Grow(10))
		}
		p.size = generatingRows(2)
		if c.change != nil {
			c.change(&p, p.running[1])
		}
		used := p.pool.Used()
		n := p.runLength(5, now)
		require.Equal(t, c.want, n, name)
		require.Equal(t, used, p.pool.Used(), "asking takes no pages")
		p.reserveRun(n)
		for _, s := range p.running {
			if n > 1 {
				require.GreaterOrEqual(t, s.table.Positions(), s.computed+s.rows+n-1, name)
			} else {
				require.Equal(t, 12, s.table.Positions(), name)
			}
		}
	}
}

// idle returns a Speculator that has drafted nothing for a number of steps, but may draft.
func idle(t *testing.T, steps int) *draft.Speculator {
	t.Helper()
	sp, err := draft.New(draft.Options{NGram: true, Steps: constant(1), Limits: model.Limits{Rows: 64}})
	require.NoError(t, err)
	one := cost.Size{Rows: 1, Outputs: 1}
	s := &draft.Sequence{Tokens: []int32{1, 2, 3, 1, 2, 3, 1, 2, 3}, Limit: 100, Table: cache.NewPool(8, 4, cache.Groups{}).NewTable()}
	require.NoError(t, sp.Draft(nil, draft.Next{Running: 1, Decode: []*draft.Sequence{s}}))
	require.NotEmpty(t, s.Drafts)
	sp.Observe([]*draft.Sequence{s}, draft.Step{Size: cost.Size{Rows: 1 + len(s.Drafts), Outputs: 1 + len(s.Drafts)}, Steps: 1, Seconds: 1})
	sp.Observe(nil, draft.Step{Size: one, Steps: steps, Seconds: 1})
	return sp
}

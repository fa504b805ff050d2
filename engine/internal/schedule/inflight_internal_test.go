package schedule

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/engine/internal/cache"
	"github.com/ingot-run/ingot/engine/internal/chat"
	"github.com/ingot-run/ingot/engine/internal/draft"
	"github.com/ingot-run/ingot/engine/model"
	"github.com/ingot-run/ingot/engine/tokenizer"
)

func TestStopRates(t *testing.T) {
	t.Parallel()
	var s stopRate
	require.Equal(t, []int{128, 9}, []int{s.length(), s.maxInFlight()})
	s = stopRate{tokens: 1000, stopped: 9}
	require.Equal(t, []int{112, 8}, []int{s.length(), s.maxInFlight()})
	s.add(true)
	s.add(false)
	require.Equal(t, stopRate{1002, 10}, s)
	s = stopRate{tokens: stopMemory - 2, stopped: 9}
	s.add(true)
	require.Equal(t, stopRate{stopMemory - 1, 10}, s)
	s.add(false)
	require.Equal(t, stopRate{stopMemory / 2, 5}, s, "older answers count half")
}

// How many steps run before the next wait depends on what each of them needs from the one before.
func TestLengthOfARun(t *testing.T) {
	t.Parallel()
	now := time.Now()
	masks := &guide{place: place{thinking: chat.Thinking{}}}
	for name, c := range map[string]struct {
		change func(p *planner, s *sequence) // of a planner with two sequences of 10 tokens that generate
		want   int
		masked bool
	}{
		"all that can be in flight": {want: 8},
		"one at a time":             {func(p *planner, _ *sequence) { p.maxInFlight = 1 }, 1, false},
		"short answers":             {func(p *planner, _ *sequence) { p.stops = stopRate{1000, 20} }, 4, false},
		"very short answers":        {func(p *planner, _ *sequence) { p.stops = stopRate{1000, 99} }, 1, false},
		"one waits":                 {func(p *planner, s *sequence) { p.waiting = []*sequence{s} }, 1, false},
		"one has a prompt":          {func(_ *planner, s *sequence) { s.computed-- }, 1, false},
		"one has ended":             {func(_ *planner, s *sequence) { s.reason = "stop" }, 1, false},
		"as many logprobs as found": {func(_ *planner, s *sequence) {
			s.request.scores, s.scores.top = true, 5
			s.scores.ids = make([]int32, 4)
		}, 8, false},
		"more logprobs": {func(_ *planner, s *sequence) {
			s.request.scores, s.scores.top = true, 6
			s.scores.ids = make([]int32, 4)
		}, 1, false},
		"close to the limit":         {func(_ *planner, s *sequence) { s.request.limit = 13 }, 3, false},
		"at the minimum length soon": {func(_ *planner, s *sequence) { s.request.minTokens, s.request.stopIDs = 6, []int32{1} }, 2, false},
		"nothing stops it":           {func(_ *planner, s *sequence) { s.request.minTokens = 6 }, 8, false},
		"the minimum is reached":     {func(_ *planner, s *sequence) { s.request.minTokens, s.request.stopIDs = 4, []int32{1} }, 8, false},
		"drafts":                     {func(p *planner, s *sequence) { p.speculator = idle(t, 20); s.draft.Drafts = []int32{1} }, 1, false},
		"drafts were made just now":  {func(p *planner, _ *sequence) { p.speculator = idle(t, 6) }, 3, false},
		"drafts were made long ago":  {func(p *planner, _ *sequence) { p.speculator = idle(t, 40) }, 8, false},
		"a person may come":          {func(p *planner, _ *sequence) { p.arrivals = arrivals{now, 3.5} }, 3, false},
		"a step takes as long":       {func(p *planner, _ *sequence) { p.arrivals = arrivals{now, 4} }, 4, false},
		"a step takes longer":        {func(p *planner, _ *sequence) { p.arrivals = arrivals{now, 0.5} }, 1, false},
		"no one came lately":         {func(p *planner, _ *sequence) { p.arrivals = arrivals{now.Add(-arrivalWindow), 0.5} }, 8, false},
		"few pages":                  {func(p *planner, _ *sequence) { p.pool.NewTable().Grow(4 * (p.pool.Available() - 1)) }, 3, false}, // 10 of 12 positions are taken
		"pages for two":              {func(p *planner, _ *sequence) { p.pool.NewTable().Grow(4 * (p.pool.Available() - 2)) }, 7, false},
		"no pages":                   {func(p *planner, _ *sequence) { p.pool.NewTable().Grow(4 * p.pool.Available()) }, 3, false},

		"masks":                       {func(_ *planner, s *sequence) { s.guide = masks }, 8, true},
		"masks in short steps":        {func(p *planner, s *sequence) { s.guide, p.costs = masks, constant(0.005) }, 20, true},
		"masks in very short steps":   {func(p *planner, s *sequence) { s.guide, p.costs = masks, constant(0.0001) }, 32, true},
		"masks in steps without time": {func(p *planner, s *sequence) { s.guide, p.costs = masks, nil }, 32, true},
		"masks, one at a time":        {func(p *planner, s *sequence) { s.guide, p.costs, p.maxInFlight = masks, constant(0.0001), 1 }, 1, true},
		"masks, short answers":        {func(p *planner, s *sequence) { s.guide, p.stops = masks, stopRate{1000, 99} }, 8, true},
		"masks, a batch row waits":    {func(p *planner, s *sequence) { s.guide, p.waiting = masks, []*sequence{s} }, 8, true},
		"masks, an interactive waits": {func(p *planner, s *sequence) {
			s.guide, p.waiting = masks, []*sequence{{request: &request{interactive: true}}}
		}, 1, true},
		"masks, at the limit":          {func(_ *planner, s *sequence) { s.guide, s.request.limit = masks, 13 }, 8, true},
		"masks, the context ends":      {func(p *planner, s *sequence) { s.guide, p.limits.Context = masks, 13 }, 3, true},
		"masks, a whole prompt":        {func(_ *planner, s *sequence) { s.guide, s.computed, s.rows = masks, 5, 5 }, 8, true},
		"masks, a part of a prompt":    {func(_ *planner, s *sequence) { s.guide, s.computed, s.rows = masks, 5, 4 }, 1, true},
		"masks, states":                {func(p *planner, s *sequence) { s.guide, p.states = masks, &states{} }, 8, true},
		"no masks yet, states":         {func(p *planner, s *sequence) { s.guide, p.states = reasoning(t), &states{} }, 1, false},
		"no masks yet":                 {func(_ *planner, s *sequence) { s.guide = reasoning(t) }, 8, false},
		"masks, minimum length":        {func(_ *planner, s *sequence) { s.guide, s.request.minTokens, s.request.stopIDs = masks, 6, []int32{1} }, 8, true},
		"masks, as many as drafts let": {func(p *planner, s *sequence) { s.guide, p.speculator = masks, idle(t, 6) }, 3, true},
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
		n, masked := p.inFlight(5, now)
		require.Equal(t, c.want, n, name)
		require.Equal(t, c.masked, masked, name)
		require.Equal(t, used, p.pool.Used(), "asking takes no pages")
		p.reserveInFlight(n)
		for _, s := range p.running {
			if n > 1 {
				require.GreaterOrEqual(t, s.table.Positions(), s.computed+s.rows+n-1, name)
			} else {
				require.Equal(t, 12, s.table.Positions(), name)
			}
		}
	}
}

// reasoning returns a guide that is in the reasoning of an answer.
func reasoning(t *testing.T) *guide {
	t.Helper()
	f, err := gguf.Open(microLlama)
	require.NoError(t, err)
	defer f.Close()
	vocabulary, err := tokenizer.New(f.Meta())
	require.NoError(t, err)
	tags := chat.NewTags(vocabulary, chat.TagPair{Open: "<think>", Close: "</think>"})
	return &guide{place: place{thinking: tags.Begin("<think>")}}
}

// idle returns a Speculator that has drafted nothing for a number of steps.
func idle(t *testing.T, steps int) *draft.Speculator {
	t.Helper()
	sp, err := draft.New(draft.Options{NGram: true, Steps: constant(1)})
	require.NoError(t, err)
	sp.Observe(nil, draft.Step{Steps: steps, Seconds: 1})
	return sp
}

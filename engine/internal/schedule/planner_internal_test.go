package schedule

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/internal/cost"
	"github.com/ingot-run/ingot/engine/internal/draft"
	"github.com/ingot-run/ingot/engine/model"
)

// generatingRows is the size of n rows of sequences that generate.
func generatingRows(n int) cost.Size { return cost.Size{Rows: n, Outputs: n} }

// The limits of a step, from the costs of affine: 10 ms and 1 ms for each row.
func TestLimitsOfAStep(t *testing.T) {
	t.Parallel()
	now := time.Now()
	const never, just, ago = -time.Hour, -arrivalWindow + 1, -arrivalWindow
	for name, c := range map[string]struct {
		stepTime    time.Duration
		running     int
		rows        int // of the sequences that generate
		streams     int // of them, interactive ones
		prompt      float64
		last        time.Duration // when an interactive sequence ran last
		sinceChunk  int
		interactive bool
		want        limit
	}{
		"a given time":                    {stepTime: 30e6, running: 2, rows: 4, last: never, want: limit{0.03, 1, 1}},
		"a given time, alone":             {stepTime: 30e6, running: 1, last: never, want: limit{0.03, minChunk, minChunk}},
		"a given time, interactive":       {stepTime: 30e6, running: 2, rows: 4, last: never, interactive: true, want: limit{0.03, 1, 1}},
		"batch alone":                     {running: 2, last: never, want: limit{maxBatchStep, minChunk, minChunk}},
		"batch next to batch":             {running: 2, rows: 10, last: never, want: limit{maxBatchStep, minChunk, minChunk}},
		"a request may arrive":            {running: 2, rows: 10, last: just, prompt: 0.2, want: limit{0.1, minRows, minRows}},
		"a request may arrive, long step": {running: 2, rows: 30, last: just, prompt: 0.01, want: limit{0.04 / 0.8, minRows, minRows}},
		"no request is expected":          {running: 2, rows: 10, last: ago, prompt: 0.2, want: limit{maxBatchStep, minChunk, minChunk}},
		"next to streams":                 {running: 2, rows: 10, streams: 1, last: just, prompt: 1, want: limit{0.05, minRows, 0}},
		"next to streams, short prompts":  {running: 2, rows: 10, streams: 1, last: just, prompt: 0.06, want: limit{0.03, minRows, 0}},
		"next to streams, after a rest":   {running: 2, rows: 10, streams: 1, last: just, prompt: 1, sinceChunk: chunkInterval, want: limit{0.05, minRows, minChunk}},
		"next to streams, before its end": {running: 2, rows: 10, streams: 1, last: just, prompt: 1, sinceChunk: chunkInterval - 1, want: limit{0.05, minRows, 0}},
		"interactive alone":               {running: 1, last: just, interactive: true, want: limit{0.01 + 0.001*256, minChunk, minChunk}},
		"interactive, others wait":        {running: 2, last: just, interactive: true, want: limit{0.01 + 0.001*256, 1, 1}},
		"interactive next to others":      {running: 2, rows: 40, last: just, interactive: true, want: limit{0.125, minRows, 0}},
		"interactive next to a few":       {running: 2, rows: 1, last: just, interactive: true, want: limit{0.01 + 0.001*32, minRows, 0}},
	} {
		p := planner{costs: affine(), stepTime: c.stepTime, running: make([]*sequence, c.running), stepsSinceChunk: c.sinceChunk, arrivals: arrivals{prompt: c.prompt, last: now.Add(c.last)}}
		got := p.batchLimit(generatingRows(c.rows), c.streams, now)
		if c.interactive {
			got = p.interactiveLimit(generatingRows(c.rows))
		}
		require.InDelta(t, c.want.seconds, got.seconds, 1e-9, name)
		require.Equal(t, []int{c.want.minRows, c.want.firstRows}, []int{got.minRows, got.firstRows}, name)
	}
}

// Drafts lengthen a step beyond its limit only if it has no prompts and no interactive request is
// expected. The step of four sequences takes 14 ms, and each draft 1 ms more.
func TestDraftsOfAStep(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for name, c := range map[string]struct {
		prompts int
		arrival bool
		rows    int // limit of a step
		want    []int
	}{
		"nothing else":           {0, false, 64, []int{0, 8, 0, 8}},
		"a prompt":               {1, false, 64, []int{0, 5, 0, 0}},
		"two prompts":            {2, false, 64, []int{0, 5, 0, 0}},
		"a request may arrive":   {0, true, 64, []int{0, 5, 0, 0}},
		"few rows":               {0, false, 14, []int{0, 8, 0, 2}},
		"no more rows":           {0, false, 4, []int{0, 0, 0, 0}},
		"few rows, and a prompt": {1, false, 7, []int{0, 3, 0, 0}},
	} {
		p := planner{costs: affine(), limits: model.Limits{Rows: c.rows}, size: generatingRows(4), prompts: make([]*sequence, c.prompts)}
		if c.arrival {
			p.arrivals.last = now
		}
		for i, drafts := range []int{0, 8, 8, 8} {
			s := &sequence{rows: 1, draft: draft.Sequence{Drafts: make([]int32, drafts)}}
			if i == 2 {
				s.rows = 0 // it has no row in this step
			}
			p.running = append(p.running, s)
		}
		p.planDrafts(0.0191, now)
		drafts, rows := []int{}, 4
		for i, s := range p.running {
			drafts = append(drafts, len(s.draft.Drafts))
			require.Equal(t, len(s.draft.Drafts), s.rows-min(1, s.rows), "%s: sequence %d", name, i)
			rows += len(s.draft.Drafts)
		}
		require.Equal(t, c.want, drafts, name)
		require.Equal(t, rows, p.size.Rows, name)
	}
}

// A step that takes very long anyway has time for prompts, too.
func TestPromptsNextToLongSteps(t *testing.T) {
	t.Parallel()
	slow := cost.NewSteps(cost.NewCurve([]int{1, 512}, []float64{0.02, 10.24}), 0, 0, 0)
	for rows, want := range map[int]float64{1: 4, 160: 4, 200: 5} {
		got := (&planner{costs: slow}).batchLimit(generatingRows(rows), 0, time.Now())
		require.InDelta(t, want, got.seconds, 1e-9)
	}
}

// The mean time of interactive prompts follows recent ones.
func TestMeanOfArrivals(t *testing.T) {
	t.Parallel()
	var a arrivals
	require.False(t, a.expected(time.Now()), "none has come")
	for _, c := range []struct{ seconds, mean float64 }{{2, 2}, {2, 2}, {4, 2.2}, {0.2, 2}} {
		a.add(c.seconds)
		require.InDelta(t, c.mean, a.prompt, 1e-9)
	}
	now := time.Now()
	a.last = now.Add(-arrivalWindow)
	require.False(t, a.expected(now))
	a.last = a.last.Add(1)
	require.True(t, a.expected(now))
}

// The expected length of an answer follows recent ones.
func TestStopRate(t *testing.T) {
	t.Parallel()
	var s stopRate
	require.Equal(t, 128, s.length())
	for range 71 {
		s.add(false)
	}
	require.Equal(t, 199, s.length())
	s.add(true)
	require.Equal(t, stopRate{72, 1}, s)
	require.Equal(t, 100, s.length())
	for range stopMemory - 73 {
		s.add(false)
	}
	require.Equal(t, stopRate{stopMemory - 1, 1}, s)
	s.add(true)
	require.Equal(t, stopRate{stopMemory / 2, 1}, s)
}

// The turn among interactive requests: the fewest running sequences, then the longest wait.
func TestFirstTurn(t *testing.T) {
	t.Parallel()
	of := func(running int, turn uint64) *sequence {
		return &sequence{request: &request{running: running, turn: turn}}
	}
	same := of(1, 5)
	for _, c := range []struct {
		waiting []*sequence
		want    int
	}{
		{[]*sequence{of(0, 5)}, 0}, {[]*sequence{of(1, 5), of(1, 5)}, 0}, {[]*sequence{of(1, 1), of(0, 5)}, 1}, {[]*sequence{of(0, 5), of(1, 1)}, 0}, {[]*sequence{of(1, 5), of(1, 4), of(1, 3)}, 2},
		{[]*sequence{of(1, 3), of(1, 4), of(2, 1)}, 0}, {[]*sequence{same, {request: same.request}}, 0}, {[]*sequence{of(2, 1), same, {request: same.request}}, 1},
	} {
		require.Equal(t, c.want, firstTurn(c.waiting))
	}
}

// A batch sequence is overtaken by later ones, and the first one by interactive ones.
func TestSkips(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		interactive, batch int
		admitted           int
		want               []int // skips of the batch sequences
	}{
		{0, 3, 0, []int{0, 0, 0}}, {0, 3, 2, []int{1, 1, 0}}, {2, 3, 0, []int{1, 0, 0}}, {2, 3, 1, []int{1, 0, 0}}, {2, 3, 2, []int{0, 0, 0}}, {2, 3, 4, []int{1, 1, 0}}, {2, 0, 1, nil},
	} {
		var p planner
		for i := range c.interactive + c.batch {
			p.waiting = append(p.waiting, &sequence{request: &request{interactive: i < c.interactive}})
		}
		require.Equal(t, c.interactive, p.interactiveWaiting())
		p.skip(c.admitted)
		var got []int
		for i, s := range p.waiting {
			if i < c.interactive {
				require.Zero(t, s.skips)
				continue
			}
			got = append(got, s.skips)
		}
		require.Equal(t, c.want, got, "%+v", c)
	}
	s := &sequence{request: &request{}, skips: maxSkips - 1}
	require.True(t, s.yields())
	s.skips++
	require.False(t, s.yields())
	require.False(t, (&sequence{request: &request{interactive: true}}).yields())
}

// The first step of a run may have further rows than its other steps; the costs are those of the
// mean step.
func TestMeanSizeOfSteps(t *testing.T) {
	t.Parallel()
	b := &batch{rows: compute.Batch{Outputs: []int32{4, 9}, Positions: []int32{0, 0, 0, 0, 10, 0, 0, 0, 0, 20}}}
	first := cost.Size{Rows: 10, Outputs: 4, Reads: 100}
	require.Equal(t, first, b.meanSize(first, 1))
	even := cost.Size{Rows: 2, Outputs: 2, Reads: 50}
	require.Equal(t, even, b.meanSize(even, 5))
	require.Equal(t, cost.Size{Rows: 4, Outputs: 2, Reads: (100 + 3*34) / 4}, b.meanSize(first, 4))
}

// Rows of a sequence with scores: those whose next token is known, within what a step may have.
func TestRowsWithOutputs(t *testing.T) {
	t.Parallel()
	s := &sequence{request: &request{prompt: ascending(6), scoresPrompt: true}, tokens: ascending(6)}
	var p planner
	for _, c := range []struct{ computed, scored, rows, outputs, want, left int }{
		{0, 0, 6, 9, 6, 4}, {0, 0, 6, 5, 6, 0}, {0, 0, 6, 4, 4, 0}, {0, 0, 6, 0, 0, 0}, {2, 2, 2, 9, 2, 7}, {0, 3, 6, 9, 6, 7}, {0, 3, 6, 1, 4, 0}, {0, 5, 6, 0, 6, 0},
	} {
		s.computed, s.request.promptScores.ids = c.computed, make([]int32, c.scored)
		outputs := c.outputs
		require.Equal(t, c.want, p.withOutputs(s, c.rows, &outputs), "%+v", c)
		require.Equal(t, c.left, outputs, "%+v", c)
	}
}

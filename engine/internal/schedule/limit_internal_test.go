package schedule

import (
	"slices"
	"testing"
	"time"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/internal/cost"
	"github.com/ingot-run/ingot/engine/model"

	"github.com/stretchr/testify/require"
)

// affine returns the costs of steps that take 10 ms and 1 ms more for each row: 90 rows reach 90 %
// of the best throughput.
func affine() *cost.Steps {
	rows := []int{1, 2, 4, 8, 16, 32, 64, 128, 256, 512}
	var seconds []float64
	for _, n := range rows {
		seconds = append(seconds, 0.010+0.001*float64(n))
	}
	return cost.NewSteps(cost.NewCurve(rows, seconds), 0, 0, 0)
}

// answering returns a scheduler on which the given number of batch requests generate.
func answering(t *testing.T, streams int, o Options) manual {
	t.Helper()
	return generating(t, streams, o, false)
}

// generating returns a scheduler on which the given number of sequences generate.
func generating(t *testing.T, streams int, o Options, interactive bool) manual {
	t.Helper()
	m := newManual(t, setup{path: microLlama, options: o})
	for i := range streams {
		m.begin(generation.Request{Tokens: []int32{int32(i), 1, 2}, IgnoreEOS: true, Interactive: interactive})
	}
	for range 4 * streams {
		m.step()
	}
	require.Len(t, m.loop.planner.running, streams)
	for _, s := range m.loop.planner.running {
		require.True(t, s.decodes())
	}
	return m
}

// rows runs a step and returns its number of rows.
func (m manual) rows() int {
	m.step()
	if len(m.loop.planner.running) == 0 {
		return 0
	}
	return len(m.loop.batch.rows.Tokens)
}

// answered reports whether a request has its first token.
func (r *request) answered() bool { return len(r.seqs[0].answer()) > 0 }

// Drafts leave time for the prompt rows that a step can expect: those that fit beside the rows of
// the sequences that generate.
func TestPromptRowsThatAStepExpects(t *testing.T) {
	t.Parallel()
	for streams, want := range map[int]int{1: 19, 8: 12, 15: 5} {
		m := generating(t, streams, Options{Steps: affine(), StepTime: 305e5}, false) // 20 rows
		p := &m.loop.planner
		now := time.Now()
		require.Zero(t, p.expectedPromptRows(now), "no prompt is left")
		long := m.begin(batchRequest(100, 500, 1))
		m.step()
		require.Greater(t, long.seqs[0].left(), 100)
		require.Equal(t, want, p.expectedPromptRows(now), "%d streams", streams)
	}
	m := generating(t, 8, Options{Steps: affine()}, true) // steps of 18 ms may become 45 ms
	m.loop.planner.arrivals.prompt = 1
	m.begin(batchRequest(100, 500, 1))
	m.step()
	require.Equal(t, 27, m.loop.planner.expectedPromptRows(time.Now()))
}

// A long prompt slows generating interactive sequences by a bounded factor, and they do not starve
// it.
func TestALongPromptSlowsOthersOnlySoMuch(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		streams int
		options Options
		limit   float64 // milliseconds of a step
		least   float64
	}{
		{"8 streams", 8, Options{}, 2.5 * 18, 2 * 18},
		{"20 streams", 20, Options{}, 2.5 * 30, 2 * 30},
		{"one stream", 1, Options{}, 2.5 * 11, 2 * 11},
		{"a given StepTime", 8, Options{StepTime: 30e6}, 30, 18 + 8},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.options.Steps = affine()
			m := generating(t, c.streams, c.options, true)
			m.loop.planner.arrivals.prompt = 1 // interactive prompts take longer than any step
			long := m.begin(batchRequest(100, 500, 1))
			for !long.answered() {
				rows := float64(m.rows())
				require.LessOrEqual(t, 10+rows, c.limit)
				if long.seqs[0].left() > 32 {
					require.GreaterOrEqual(t, 10+rows, c.least, "the prompt uses the time that the limit allows")
				}
			}
		})
	}
}

// steep returns the costs of steps that take 1 ms for each row and nothing more: a few rows take
// much longer than one.
func steep() *cost.Steps {
	return cost.NewSteps(cost.NewCurve([]int{1, 512}, []float64{0.001, 0.512}), 0, 0, 0)
}

// If the steps of an interactive sequence have no time even for a few rows of a prompt, the prompt
// gets many rows in few of the steps: at most one gap between tokens in twenty is long.
func TestAPromptRestsIfAStepHasNoTimeForIt(t *testing.T) {
	t.Parallel()
	m := generating(t, 1, Options{Steps: steep()}, true)
	m.loop.planner.arrivals.prompt = 1
	long := m.begin(batchRequest(100, 10*minChunk, 1))
	steps, slow := 0, 0
	for ; !long.answered(); steps++ {
		require.Less(t, steps, 10*(chunkInterval+1)+chunkInterval)
		switch n := m.rows(); n {
		case 1:
		case 1 + minChunk:
			slow++
		default:
			require.Fail(t, "a step with another number of rows", "%d", n)
		}
	}
	require.Equal(t, 10, slow)
	require.LessOrEqual(t, float64(slow-1), 0.05*float64(steps))
}

// While no interactive request waits, a prompt gets as many rows as the options allow, unless the
// step would take very long.
func TestAPromptAloneHasWholeSteps(t *testing.T) {
	t.Parallel()
	rows := func(steps *cost.Steps, streams int) int {
		m := answering(t, streams, Options{Steps: steps})
		long := m.begin(batchRequest(100, 900, 1))
		rows := m.rows()
		m.finish(long)
		return rows
	}
	slow := cost.NewSteps(cost.NewCurve([]int{1, 512}, []float64{0.02, 10.24}), 0, 0, 0)
	require.Equal(t, 512, rows(affine(), 0))
	require.Equal(t, 512, rows(affine(), 8), "next to generating batch requests")
	require.Equal(t, 200, rows(slow, 0), "200 rows take four seconds")
	require.Equal(t, 200, rows(slow, 8))
}

// The steps of an interactive prompt alone have only as many rows as throughput needs, because
// arriving requests wait for the end of a step.
func TestAnInteractivePromptTakesStepsOfTheBestThroughput(t *testing.T) {
	t.Parallel()
	m := newManual(t, setup{path: microLlama, options: Options{Steps: affine()}})
	long := m.begin(interactiveRequest(100, 900, 1))
	require.Equal(t, 256, m.rows(), "256 rows reach 95 % of the throughput of 512 rows")
	for long.open > 0 {
		require.LessOrEqual(t, m.rows(), 256)
	}
}

// After an interactive request, steps of a batch take no longer than the prompts of such requests,
// so that the next request waits no longer than its prompt takes. After a while without interactive
// requests, the steps are as long as before.
func TestABatchLeavesTimeForTheNextInteractiveRequest(t *testing.T) {
	t.Parallel()
	m := answering(t, 4, Options{Steps: affine()})
	m.finish(m.begin(interactiveRequest(7, 30, 1)))
	long := m.begin(batchRequest(100, 900, 1))
	for range 10 {
		rows := m.rows()
		require.LessOrEqual(t, 10+rows, (10+30)/2)
		require.Greater(t, rows, 4, "a step has a few prompt rows")
	}
	m.loop.planner.arrivals.last = m.loop.planner.arrivals.last.Add(-arrivalWindow)
	require.Greater(t, m.rows(), 400)
	m.finish(long)
}

// Even if the decoding sequences use up most of the time limit, which is relative to an interactive
// prompt, steps still have prompt rows.
func TestManyRowsLeaveTimeForPrompts(t *testing.T) {
	t.Parallel()
	m := answering(t, 30, Options{Steps: affine()})
	m.finish(m.begin(interactiveRequest(7, 5, 1)))
	long := m.begin(batchRequest(100, 100, 1))
	for long.seqs[0].left() > 10 {
		require.GreaterOrEqual(t, m.rows(), 30+9)
	}
	m.finish(long)
}

// Rows late in a prompt take longer, because of attention. A step has fewer of them.
func TestAttentionCounts(t *testing.T) {
	t.Parallel()
	steps := cost.NewSteps(cost.NewCurve([]int{1, 64}, []float64{0.011, 0.074}), 0, 0, 10e-6)
	m := newManual(t, setup{path: microLlama, options: Options{Steps: steps}})
	long := m.begin(generation.Request{Tokens: ascending(900), MaxTokens: 1, IgnoreEOS: true, Interactive: true})
	s, rows := long.seqs[0], []int{}
	for long.open > 0 {
		from := s.computed
		n := m.rows()
		if n > minChunk {
			require.LessOrEqual(t, steps.Seconds(cost.Rows(from, from+n, 0)), steps.Seconds(cost.Rows(0, 64, 0)))
		}
		rows = append(rows, n)
	}
	require.Equal(t, 64, rows[0])
	require.LessOrEqual(t, slices.Max(rows[len(rows)-3:]), minChunk)
}

// A prompt advances however long a row takes.
func TestAPromptAlwaysAdvances(t *testing.T) {
	t.Parallel()
	m := answering(t, 4, Options{Steps: affine(), StepTime: 1})
	c := m.begin(generation.Request{Tokens: ascending(20), MaxTokens: 1, IgnoreEOS: true})
	for range 20 {
		require.False(t, c.answered())
		require.Equal(t, 4+1, m.rows())
	}
	require.True(t, c.answered())
}

// Short prompts are answered within two steps while a long prompt is computed.
func TestShortPromptsGoBeforeALongOne(t *testing.T) {
	t.Parallel()
	m := newManual(t, setup{path: microLlama, limits: model.Limits{Rows: 64}})
	long := m.begin(generation.Request{Tokens: ascending(900), MaxTokens: 1, IgnoreEOS: true})
	m.step()
	for i := range int32(5) {
		short := m.begin(generation.Request{Tokens: slices.Repeat([]int32{i}, 50), MaxTokens: 1, IgnoreEOS: true})
		steps := 0
		for !short.answered() {
			m.step()
			steps++
		}
		require.LessOrEqual(t, steps, 2)
	}
	require.False(t, long.answered())
	m.finish(long)
}

// A long prompt advances in every fourth step, even if short prompts keep arriving and could fill
// every step.
func TestTheOldestPromptHasItsTurn(t *testing.T) {
	t.Parallel()
	m := newManual(t, setup{path: microLlama, limits: model.Limits{Rows: 32}})
	long := m.begin(generation.Request{Tokens: ascending(640), MaxTokens: 1, IgnoreEOS: true})
	m.step()
	const full = 640/32 - 1
	next, steps := int32(200), 0
	for ; !long.answered(); steps++ {
		require.LessOrEqual(t, steps, oldestTurn*full)
		for len(m.loop.planner.waiting)+len(m.loop.planner.running) < 4 {
			m.begin(generation.Request{Tokens: slices.Repeat([]int32{next}, 32), MaxTokens: 1, IgnoreEOS: true})
			next++
		}
		m.step()
	}
	require.Greater(t, steps, (oldestTurn-1)*full, "short prompts got rows too")
}

func TestArrivals(t *testing.T) {
	t.Parallel()
	now := time.Now()
	var a arrivals
	require.False(t, a.expected(now))
	a.last = now
	require.True(t, a.expected(now.Add(arrivalWindow-1)))
	require.False(t, a.expected(now.Add(arrivalWindow)))
	a.add(2)
	require.InDelta(t, 2, a.prompt, 1e-12)
	a.add(3)
	require.InDelta(t, 2.1, a.prompt, 1e-12)
}

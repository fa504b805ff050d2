package cost

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/cpu"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/engine/model"
)

func TestRowsOfASequence(t *testing.T) {
	t.Parallel()
	require.Equal(t, Size{Rows: 3, Outputs: 1, Reads: 5 + 6 + 7}, Rows(4, 7, 1))
	require.Equal(t, Size{Rows: 5, Outputs: 1, Reads: 18 + 1 + 2}, Rows(4, 7, 1).Add(Rows(0, 2, 0)))
	require.Zero(t, Rows(4, 4, 0))
}

func TestSecondsOfAStep(t *testing.T) {
	t.Parallel()
	s := NewSteps(NewCurve([]int{1, 10}, []float64{10, 19}), 100, 7, 0.5)
	require.InDelta(t, 10+9, s.Seconds(Size{Rows: 10}), 1e-9)
	require.InDelta(t, 13+100+2*7+20*0.5, s.Seconds(Size{Rows: 4, Outputs: 2, Reads: 20}), 1e-9)
	require.Zero(t, s.Seconds(Size{}))
	require.Zero(t, (*Steps)(nil).Seconds(Size{Rows: 4}))
}

// Efficient returns the smallest number of rows that reaches a given share of the best throughput.
// A step takes 10 ms plus 1 ms for each row.
func TestEfficientRows(t *testing.T) {
	t.Parallel()
	s := NewSteps(NewCurve([]int{1, 10, 32, 64, 512}, []float64{11, 20, 42, 74, 522}), 0, 0, 0)
	for share, want := range map[float64]int{0.01: 1, 0.5: 10, 0.75: 32, 0.86: 64, 0.95: 512} {
		require.Equal(t, want, s.Efficient(share), "%g", share)
	}
	require.Zero(t, (*Steps)(nil).Efficient(0.5))
}

// While a machine is half as fast, all estimates double. When it recovers, they fall again.
func TestEstimatesFollowTheMachine(t *testing.T) {
	t.Parallel()
	fresh := func() *Steps {
		return &Steps{trunk: NewCurve([]int{1, 8, 64}, []float64{1, 2, 9}), head: 1, output: 0.1, read: 0.001, measured: true}
	}
	s, sizes := fresh(), []Size{{Rows: 8, Outputs: 8, Reads: 900}, {Rows: 40, Reads: 800}, Rows(3000, 3004, 0), {Rows: 1, Outputs: 1, Reads: 20}}
	for _, slow := range []float64{2, 1} {
		for range 200 {
			for _, z := range sizes {
				s.Observe(z, slow*fresh().Seconds(z))
			}
		}
		for _, z := range sizes {
			require.InEpsilon(t, slow*fresh().Seconds(z), s.Seconds(z), 0.05)
		}
	}

	// Slow attention raises the estimate for attention, not the estimates for rows.
	for range 300 {
		s.Observe(Rows(5000, 5004, 0), 1.5+3*0.001*20_010)
		s.Observe(Size{Rows: 8, Outputs: 8}, fresh().Seconds(Size{Rows: 8, Outputs: 8}))
	}
	require.InEpsilon(t, 0.003, s.read, 0.15)
	require.InEpsilon(t, fresh().Seconds(Size{Rows: 8, Outputs: 8}), s.Seconds(Size{Rows: 8, Outputs: 8}), 0.15)

	given := NewSteps(NewCurve([]int{1}, []float64{1}), 0, 0, 0)
	given.Observe(Size{Rows: 1}, 9)
	require.InDelta(t, 1, given.Seconds(Size{Rows: 1}), 0, "Observe does not change given estimates")
}

// Steps of every size up to 16 are measured. From 17 to flatFrom, only those sizes are measured at
// which a tile of 8 rows ends or begins, such as 24 and 25.
func TestEverySizeIsMeasured(t *testing.T) {
	t.Parallel()
	tiles := func(n int) float64 { return float64((n + 7) / 8) } // the cost of a step whose products compute 8 rows at a time
	pairs := func(n int) float64 { return float64((n + 1) / 2) } // the same with 2 rows at a time
	for limit := 1; limit <= flatFrom; limit++ {
		_, dense := sizes(limit)
		for name, c := range map[string]struct {
			cost func(int) float64
			to   int
		}{"tiles": {tiles, limit}, "pairs": {pairs, min(limit, 16)}} {
			var seconds []float64
			for _, n := range dense {
				seconds = append(seconds, c.cost(n))
			}
			curve := NewCurve(dense, seconds)
			for n := 1; n <= c.to && n <= dense[len(dense)-1]; n++ {
				require.InDelta(t, c.cost(n), curve.Seconds(n), 1e-9, "%s: %d rows of %d", name, n, limit)
			}
		}
	}
	_, dense := sizes(1000)
	require.Equal(t, flatFrom, dense[len(dense)-1])
}

// Measure works with any limits of a model, even with a single page.
func TestMeasure(t *testing.T) {
	for _, limits := range []model.Limits{
		{Rows: 1, Outputs: 1, Context: 16, Pages: 1, PageSize: 16},
		{Rows: 3, Outputs: 2, Context: 100, Pages: 7, PageSize: 16},
		{Rows: 300, Outputs: 200, Context: 1000, Pages: 500, PageSize: 16},
	} {
		be, err := cpu.New(1)
		require.NoError(t, err)
		f, err := gguf.Open("../../model/testdata/micro-glm.gguf")
		require.NoError(t, err)
		m, err := model.Load(be, f, limits)
		require.NoError(t, err)
		s, err := Measure(m, limits)
		require.NoError(t, err)
		sizes := s.Sizes()
		require.LessOrEqual(t, sizes[len(sizes)-1], min(limits.Rows, limits.Outputs))
		before := 0.0
		for n := range 300 {
			seconds := s.Seconds(Rows(0, n, 0))
			require.GreaterOrEqual(t, seconds, before)
			before = seconds
		}
		require.Positive(t, before)
		require.Positive(t, s.Efficient(0.95))
		require.NoError(t, f.Close())
		require.NoError(t, be.Close())
	}
}

// Streams returns as many sequences as raise the tokens per second by more than a few percent.
func TestStreams(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		steps *Steps
		limit int
		depth int
		want  int
	}{
		"rows cost nothing":                {NewSteps(NewCurve([]int{1, 512}, []float64{1, 1}), 0, 0, 0), 256, 0, 248},
		"fewer are allowed":                {NewSteps(NewCurve([]int{1, 512}, []float64{1, 1}), 0, 0, 0), 40, 0, 40},
		"fewer than the minimum":           {NewSteps(NewCurve([]int{1, 512}, []float64{1, 1}), 0, 0, 0), 3, 0, 3},
		"rows cost in full":                {NewSteps(NewCurve([]int{1, 512}, []float64{1, 512}), 0, 0, 0), 256, 0, 8},
		"rows cost in full beyond 32":      {NewSteps(NewCurve([]int{1, 32, 512}, []float64{1, 1, 16}), 0, 0, 0), 256, 0, 32},
		"the output head costs in full":    {NewSteps(NewCurve([]int{1, 512}, []float64{1, 1}), 0, 1, 0), 256, 0, 24},
		"attention to many positions does": {NewSteps(NewCurve([]int{1, 512}, []float64{1, 1}), 0, 0, 0.001), 256, 1000, 24},
	} {
		require.Equal(t, c.want, c.steps.Streams(c.limit, c.depth), name)
	}
}

// One step moves each estimate by its weight.
func TestOneStepCorrectsEstimates(t *testing.T) {
	t.Parallel()
	z := Size{Rows: 4, Outputs: 2, Reads: 20} // 13+10+2*7+20*0.5 = 47 s
	for ratio, counts := range map[float64]float64{1.5: 1.5, 0.8: 0.8, 5: 2, 0.1: 0.5} {
		s := &Steps{trunk: NewCurve([]int{1, 10}, []float64{10, 19}), head: 10, output: 7, read: 0.5, measured: true}
		require.InDelta(t, 47, s.Seconds(z), 1e-9)
		s.Observe(z, ratio*47)
		change := counts - 1
		require.InDeltaSlice(t, []float64{1 + (0.03+0.02*2/3)*change, 1 + (0.03+0.02/3)*change}, s.trunk.drift, 1e-9)
		require.InDelta(t, 0.5*(1+(0.03+0.02*10/47)*change), s.read, 1e-9)
		require.InDeltaSlice(t, []float64{10 * (1 + 0.03*change), 7 * (1 + 0.03*change)}, []float64{s.head, s.output}, 1e-9)
	}
	s := &Steps{trunk: NewCurve([]int{1, 10}, []float64{10, 19}), measured: true}
	s.Observe(Size{}, 9)
	s.trunk.Observe(0, 9)
	require.Equal(t, []float64{1, 1}, s.trunk.drift)
	s = &Steps{trunk: NewCurve([]int{1, 10}, []float64{0, 0}), measured: true}
	s.Observe(z, 9)
	require.Equal(t, []float64{1, 1}, s.trunk.drift, "steps that take no time have no ratio")
	(*Steps)(nil).Observe(z, 9)

	// The share of the best throughput follows the corrected estimates.
	s = NewSteps(NewCurve([]int{1, 2}, []float64{1, 1}), 0, 0, 0)
	require.Equal(t, []int{2, 0}, []int{s.Efficient(1), s.Efficient(1.01)})
	s.trunk.drift[0] = 0.25
	require.Equal(t, 1, s.Efficient(1))
	require.Equal(t, []int{1, 64}, NewSteps(NewCurve([]int{1, 64, 65}, []float64{1, 1, 1}), 0, 0, 0).Sizes())
	require.Equal(t, 2, cap(NewSteps(NewCurve([]int{1, 64, 65}, []float64{1, 1, 1}), 0, 0, 0).Sizes()))
}

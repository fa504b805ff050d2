package cost

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/model"
)

var errBroken = errors.New("the device is lost")

// timed is a model whose steps take the time that a function gives. It is used where the clock is
// that of synctest, so that no test waits.
type timed struct {
	model.Model
	config  model.Config
	took    func(b *compute.Batch) time.Duration
	batches []compute.Batch // what Decode got
	failing int             // number of the call that fails, from 1 on; 0 for none
}

func (m *timed) Config() model.Config { return m.config }

func (m *timed) Decode(b *compute.Batch, _ int) error {
	c := *b
	c.Positions, c.Seqs = slices.Clone(b.Positions), slices.Clone(b.Seqs)
	m.batches = append(m.batches, c)
	if len(m.batches) == m.failing {
		return errBroken
	}
	if m.took != nil {
		<-time.After(m.took(b))
	}
	return nil
}

// affine takes base, and each for every row.
func affine(base, each time.Duration) func(*compute.Batch) time.Duration {
	return func(b *compute.Batch) time.Duration { return base + each*time.Duration(len(b.Tokens)) }
}

// What is measured of a model whose steps take exactly as long as the estimates assume.
func TestMeasuredCosts(t *testing.T) {
	t.Parallel()
	const base, row, head, output, read = 1000, 50, 300, 20, 1 // microseconds
	for name, c := range map[string]struct {
		limits model.Limits
		last   int // largest measured step
		read   float64
	}{
		"many rows":       {model.Limits{Rows: 2000, Outputs: 500, Context: 1000, Pages: 5000, PageSize: 16}, 512, 1},
		"up to 256 rows":  {model.Limits{Rows: 256, Outputs: 500, Context: 1000, Pages: 5000, PageSize: 16}, 256, 1},
		"as many pages":   {model.Limits{Rows: 2000, Outputs: 500, Context: 1000, Pages: 130, PageSize: 16}, 128, 1},
		"few outputs":     {model.Limits{Rows: 2000, Outputs: 40, Context: 1000, Pages: 5000, PageSize: 16}, 40, 1},
		"few pages":       {model.Limits{Rows: 2000, Outputs: 40, Context: 1000, Pages: 9, PageSize: 16}, 9, 1},
		"a short context": {model.Limits{Rows: 2000, Outputs: 40, Context: 2, Pages: 99, PageSize: 16}, 40, 1},
		"one position":    {model.Limits{Rows: 2000, Outputs: 40, Context: 1, Pages: 99, PageSize: 16}, 40, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := &timed{config: model.Config{Vocab: 100, Layers: 1}, took: func(b *compute.Batch) time.Duration {
					took := base + row*len(b.Tokens) + output*len(b.Outputs)
					if len(b.Outputs) > 0 {
						took += head
					}
					for _, p := range b.Positions {
						took += read * (int(p) + 1)
					}
					return time.Duration(took) * time.Microsecond
				}}
				s, err := Measure(m, c.limits)
				require.NoError(t, err)
				require.True(t, s.measured)
				require.Equal(t, c.last, s.trunk.rows[len(s.trunk.rows)-1])
				for i, n := range s.trunk.rows {
					require.InDelta(t, 1e-6*float64(base+(row+read)*n), s.trunk.seconds[i], 1e-12)
				}
				last := float64(min(c.last, flatFrom)) // the output head was measured with so many rows
				require.InDelta(t, 1e-6*output*(last-1)/last, s.output, 1e-12)
				require.InDelta(t, 1e-6*(head+output/last), s.head, 1e-12)
				require.InDelta(t, 1e-6*c.read, s.read, 1e-12)
			})
		})
	}
}

// Larger steps are not measured once they compute hardly more rows per second, or take long.
func TestLargeStepsThatAreMeasured(t *testing.T) {
	t.Parallel()
	limits := model.Limits{Rows: 1024, Outputs: 64, Context: 1000, Pages: 5000, PageSize: 16}
	for name, c := range map[string]struct {
		took func(*compute.Batch) time.Duration
		last int
	}{
		"rows cost nothing":           {affine(time.Millisecond, 0), 1024},
		"a gain of less than 5 %":     {affine(639*time.Microsecond, 95*time.Microsecond), 128},
		"a gain of more than 5 %":     {affine(700*time.Microsecond, 95*time.Microsecond), 256},
		"rows cost in full":           {affine(0, time.Millisecond), 128},
		"larger ones take too long":   {affine(290*time.Millisecond, 2*time.Millisecond), 128},
		"just not too long":           {affine(244*time.Millisecond, 2*time.Millisecond), 256},
		"64 rows take too long":       {affine(400*time.Millisecond, 2*time.Millisecond), 64},
		"a few rows take much longer": {affine(0, 30*time.Millisecond), 32},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, err := Measure(&timed{config: model.Config{Vocab: 100, Layers: 1}, took: c.took}, limits)
				require.NoError(t, err)
				require.Equal(t, c.last, s.trunk.rows[len(s.trunk.rows)-1])
			})
		})
	}
}

// A slow model is measured with few sizes.
func TestSizesThatAreMeasured(t *testing.T) {
	t.Parallel()
	coarse, dense := sizes(20)
	require.Equal(t, []int{1, 2, 3, 4, 6, 8, 12, 16}, coarse)
	require.Equal(t, []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17}, dense)
	coarse, dense = sizes(100)
	require.Equal(t, []int{24, 25, 32, 33, 40, 41, 48, 49, 56, 57, 64}, dense[17:])
	require.Equal(t, []int{24, 32, 48, 64}, coarse[8:])
	coarse, dense = sizes(1)
	require.Equal(t, []int{1}, coarse)
	require.Equal(t, []int{1}, dense)

	_, all := sizes(64)
	for name, c := range map[string]struct {
		took func(*compute.Batch) time.Duration
		want []int
	}{
		"fast":                     {affine(time.Millisecond, 0), all},
		"just not slow":            {affine(50*time.Millisecond, 0), all},
		"slow":                     {affine(51*time.Millisecond, 0), []int{1, 2, 4, 8, 16, 32, 64}},
		"slow from 12 rows on":     {affine(0, 5*time.Millisecond), []int{1, 2, 3, 4, 6, 8, 12, 16, 32, 64}},
		"very slow from 16 rows":   {affine(0, 40*time.Millisecond), []int{1, 2, 4, 8, 16}},
		"very slow in every size":  {affine(501*time.Millisecond, 0), []int{1}},
		"just not slow in any way": {affine(500*time.Millisecond, 0), []int{1, 2, 4, 8, 16, 32, 64}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				got, err := affordable(&timed{config: model.Config{Vocab: 100}, took: c.took}, 64)
				require.NoError(t, err)
				require.Equal(t, c.want, got)
			})
		})
	}
}

// Measuring ends with the error of a step, whichever it is.
func TestMeasureReturnsErrors(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limits := model.Limits{Rows: 128, Outputs: 64, Context: 1000, Pages: 500, PageSize: 16}
		config := model.Config{Vocab: 100, Layers: 1}
		whole := &timed{config: config, took: affine(20*time.Millisecond, 0)}
		_, err := Measure(whole, limits)
		require.NoError(t, err)
		calls := len(whole.batches)
		require.Greater(t, calls, 100)
		for failing := 1; failing <= calls; failing++ {
			_, err := Measure(&timed{config: config, took: affine(20*time.Millisecond, 0), failing: failing}, limits)
			require.ErrorIs(t, err, errBroken, "call %d", failing)
			require.ErrorContains(t, err, "measure the cost of steps")
		}
	})
}

// Steps are timed in rounds, of which the first one does not count, and slow ones only once.
func TestFastest(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		took  []time.Duration // of successive calls; the last one is that of all further calls
		calls int
		want  time.Duration
		rows  int // of each call
	}{
		"as many as there is time for": {[]time.Duration{ms}, maxRounds, ms, largeFrom},
		"until enough time has passed": {[]time.Duration{2 * ms}, 10, 2 * ms, largeFrom},
		"the minimum number":           {[]time.Duration{5 * ms}, 1 + measurements, 5 * ms, largeFrom},
		"the warm-up does not count":   {[]time.Duration{ms, 9 * ms, 8 * ms}, 1 + measurements, 8 * ms, largeFrom},
		"a slow warm-up":               {[]time.Duration{100 * ms, 7 * ms, 9 * ms}, 1 + measurements, 7 * ms, largeFrom},
		"the shortest":                 {[]time.Duration{9 * ms, 8 * ms, 3 * ms, 9 * ms}, 1 + measurements, 3 * ms, largeFrom},
		"just not slow":                {[]time.Duration{50 * ms}, 1 + measurements, 50 * ms, largeFrom},
		"slow":                         {[]time.Duration{51 * ms, 52 * ms}, 2, 52 * ms, largeFrom},
		"just not very slow":           {[]time.Duration{250 * ms}, 2, 250 * ms, largeFrom},
		"very slow":                    {[]time.Duration{251 * ms}, 1, 251 * ms, largeFrom},
		"as many of many rows":         {[]time.Duration{ms}, maxRounds, ms, largeFrom + 1},
		"the minimum of many rows":     {[]time.Duration{9 * ms, 8 * ms, 7 * ms, 6 * ms}, 1 + measurementsOfLarge, 7 * ms, largeFrom + 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var order []int
				calls := 0
				got, err := fastest([]int{c.rows, 1}, func(i int) error {
					order = append(order, i)
					if i == 1 {
						return nil // takes no time
					}
					<-time.After(c.took[min(calls, len(c.took)-1)])
					calls++
					return nil
				})
				require.NoError(t, err)
				require.Equal(t, c.calls, calls)
				require.InDeltaSlice(t, []float64{c.want.Seconds(), 0}, got, 1e-12)
				require.Equal(t, []int{0, 1}, order[:2])
				_, err = fastest([]int{1}, func(int) error { return errBroken })
				require.Equal(t, errBroken, err)
			})
		})
	}
}

// The rows with which attention is measured, and the pages that they need.
func TestRowsThatMeasureAttention(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		limits    model.Limits
		rows      int // largest measured step
		recurrent bool
		from, n   int // n is 0 if nothing is measured
		pages     int
	}{
		"deep in a text":      {limits: model.Limits{Context: 9000, Pages: 900, PageSize: 16}, rows: 64, from: 2032, n: 16, pages: 128},
		"a shorter context":   {limits: model.Limits{Context: 100, Pages: 900, PageSize: 16}, rows: 64, from: 84, n: 16, pages: 7},
		"few pages":           {limits: model.Limits{Context: 9000, Pages: 6, PageSize: 16}, rows: 64, from: 80, n: 16, pages: 6},
		"few rows":            {limits: model.Limits{Context: 97, Pages: 900, PageSize: 16}, rows: 3, from: 94, n: 3, pages: 7},
		"half of the context": {limits: model.Limits{Context: 9, Pages: 900, PageSize: 16}, rows: 64, from: 5, n: 4, pages: 1},
		"a chunk of states":   {limits: model.Limits{Context: 100, Pages: 900, PageSize: 16}, rows: 64, recurrent: true, from: 64, n: 16, pages: 5},
		"no whole chunk":      {limits: model.Limits{Context: 60, Pages: 900, PageSize: 16}, rows: 64, recurrent: true},
		"one position":        {limits: model.Limits{Context: 1, Pages: 900, PageSize: 16}, rows: 64},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := &timed{config: model.Config{Layers: 1}, took: func(b *compute.Batch) time.Duration { return time.Duration(b.Positions[0]) * time.Second }}
				if c.recurrent {
					m.config.States.Layers = 1
				}
				s := &Steps{trunk: NewCurve([]int{c.rows}, []float64{1})}
				require.NoError(t, s.measureReads(m, c.limits))
				if c.n == 0 {
					require.Empty(t, m.batches)
					require.Zero(t, s.read)
					return
				}
				require.InDelta(t, 1/float64(c.n), s.read, 1e-12)
				for i, from := range []int{0, c.from} {
					b := m.batches[i]
					require.Len(t, b.Tokens, c.n)
					require.Equal(t, []int{from, from + c.n - 1, c.n}, []int{int(b.Positions[0]), int(b.Positions[c.n-1]), b.Seqs[0].Rows})
				}
				require.Len(t, m.batches[1].Seqs[0].Pages, c.pages)
				require.EqualValues(t, c.pages-1, m.batches[1].Seqs[0].Pages[c.pages-1])
			})
		})
	}
	m := &timed{took: func(b *compute.Batch) time.Duration { return time.Second / time.Duration(1+b.Positions[0]) }}
	synctest.Test(t, func(t *testing.T) {
		s := &Steps{trunk: NewCurve([]int{8}, []float64{1})}
		require.NoError(t, s.measureReads(m, model.Limits{Context: 100, Pages: 9, PageSize: 16}))
		require.Zero(t, s.read, "later rows seem to be faster")
		m.failing = len(m.batches) + 1
		require.ErrorIs(t, s.measureReads(m, model.Limits{Context: 100, Pages: 9, PageSize: 16}), errBroken)
	})
}

// Batches of first tokens, as models with several page tables or with recurrent states need them.
func TestBatchesOfFirstTokens(t *testing.T) {
	t.Parallel()
	b := FirstTokens(4, 100)
	require.Equal(t, []int32{12, 37, 62, 87}, b.Tokens)
	require.Equal(t, []int32{0, 0, 0, 0}, b.Positions)
	require.Equal(t, []int32{0, 1, 2, 3}, b.Outputs)
	require.Equal(t, 1, b.Top)
	for i, s := range b.Seqs {
		require.Equal(t, compute.Seq{Rows: 1, Pages: []int32{int32(i)}}, s)
	}
	b = trunkOnly(2, 100)
	require.Equal(t, []int32{25, 75}, b.Tokens)
	require.Empty(t, b.Outputs)
	require.Zero(t, b.Top)

	m := &timed{}
	limits := model.Limits{States: 2, Context: 100, FreeWindows: true}
	require.Same(t, m, recurrent(m, limits))
	require.Same(t, m, grouped(m, limits))
	m.config = model.Config{Layers: 6, Sliding: 4, Window: 8}
	tables := m.config.Groups(limits)
	require.Equal(t, 3, tables.Full+tables.Sliding)
	batch := FirstTokens(2, 100)
	batch.Seqs[1].Further = [][]int32{{7}, {8}}
	require.NoError(t, grouped(m, limits).Decode(batch, 1))
	require.Equal(t, [][]int32{{0}, {0}}, m.batches[0].Seqs[0].Further)
	require.Equal(t, [][]int32{{7}, {8}}, m.batches[0].Seqs[1].Further)

	m = &timed{config: model.Config{States: compute.StateShape{Layers: 1}}}
	states := recurrent(m, limits)
	for _, b := range []*compute.Batch{FirstTokens(2, 100), FirstTokens(5, 100), chunkAt(64, 3, 16)} {
		require.NoError(t, states.Decode(b, 1))
	}
	generated, joined, prompt := m.batches[0], m.batches[1], m.batches[2]
	require.Equal(t, []compute.Seq{
		{Rows: 1, Pages: []int32{0}, State: compute.SeqState{From: 0, Slot: 0}}, {Rows: 1, Pages: []int32{1}, State: compute.SeqState{From: 1, Slot: 1}},
	}, generated.Seqs)
	require.Equal(t, []compute.Seq{
		{Rows: 2, Pages: []int32{0, 1}, State: compute.SeqState{From: -1, Slot: 0, Prompt: 2}},
		{Rows: 3, Pages: []int32{2, 3, 4}, State: compute.SeqState{From: -1, Slot: 1, Prompt: 3}},
	}, joined.Seqs)
	require.Equal(t, []int32{0, 1, 0, 1, 2}, joined.Positions)
	require.Len(t, joined.Tokens, 5)
	require.Equal(t, compute.SeqState{From: -1, Slot: 0, Prompt: 3}, prompt.Seqs[0].State)
}

// Given estimates need no step of the model, and are those of a step's fixed part and its rows.
func TestGivenCosts(t *testing.T) { // not parallel: Give is for all tests that run at the same time
	Give()
	defer given.Store(false)
	for name, c := range map[string]struct {
		rows, outputs, pages int
		last                 int // of the curve
	}{
		"many rows":   {2000, 500, 5000, 2 * flatFrom},
		"fewer rows":  {100, 500, 5000, flatFrom},
		"two sizes":   {2 * flatFrom, 500, 5000, 2 * flatFrom},
		"few outputs": {2000, 40, 5000, 40},
		"few pages":   {2000, 500, 12, 12},
	} {
		m := &timed{config: model.Config{Vocab: 100, Layers: 1}}
		s, err := Measure(m, model.Limits{Rows: c.rows, Outputs: c.outputs, Context: 100, Pages: c.pages, PageSize: 16})
		require.NoError(t, err)
		require.Empty(t, m.batches, name)
		require.True(t, s.measured, name)
		rows := s.trunk.rows
		require.Equal(t, c.last, rows[len(rows)-1], name)
		require.True(t, slices.IsSorted(rows))
		require.Len(t, slices.Compact(slices.Clone(rows)), len(rows))
		for _, n := range rows {
			require.InDelta(t, 100e-6+30e-6*float64(n), s.Seconds(Size{Rows: n}), 1e-12)
		}
		require.InDelta(t, 130e-6+10e-6+3*10e-6+7e-9, s.Seconds(Size{Rows: 1, Outputs: 3, Reads: 7}), 1e-12)
	}
}

// lost is a model whose device is lost.
type lost struct{ model.Model }

func (lost) Decode(*compute.Batch, int) error { return errBroken }

// Models that complete a measured batch return the errors of its step.
func TestErrorsOfMeasuredSteps(t *testing.T) {
	t.Parallel()
	for _, m := range []model.Model{&recurrentModel{lost{}, 2}, &groupedModel{lost{}, 1}} {
		b := &compute.Batch{Tokens: []int32{1}, Positions: []int32{0}, Seqs: []compute.Seq{{Rows: 1, Pages: []int32{0}}}}
		require.ErrorIs(t, m.Decode(b, 1), errBroken)
	}
}

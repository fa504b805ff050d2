package computetest

import (
	"fmt"
	"math"
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
)

type operation struct {
	what    string  // shapes and types, for errors
	groups  [][]int // indices of the rows; the rows of a group belong to one sequence, and every batch must have them adjacent and in order
	compute func(rows []int) [][]float32
	compare func(row int, got []float32) error
}

// verify compares all rows with their expected values. It then checks batch invariance: a row must
// have the same bits alone and among other rows in another order. With fast arithmetic, it compares
// the row with its expected values instead.
func (r *rig) verify(op operation) {
	r.what = op.what
	all := slices.Concat(op.groups...)
	want, byRow := op.compute(all), map[int][]float32{}
	for i, row := range all {
		if err := op.compare(row, want[i]); err != nil {
			r.fail("row %d of %d: %v", i, len(all), err)
		}
		byRow[row] = slices.Clone(want[i])
	}
	subsets := 4
	if r.brief {
		subsets = 2
	}
	for i := range subsets {
		rows := r.subset(op.groups, i < subsets/2)
		for i, got := range op.compute(rows) {
			err := sameBits(got, byRow[rows[i]])
			if r.fast {
				err = op.compare(rows[i], got)
			}
			if err != nil {
				r.fail("a row in a batch of %d differs from the same row in a batch of %d: %v", len(rows), len(all), err)
			}
		}
	}
}

func (r *rig) fail(format string, args ...any) {
	r.tb.Helper()
	r.tb.Fatalf("%s: %s", r.what, fmt.Sprintf(format, args...))
}

func (r *rig) subset(groups [][]int, single bool) []int {
	if single {
		g := groups[r.rand.IntN(len(groups))]
		i := r.rand.IntN(len(g))
		return g[i : i+1]
	}
	var rows []int
	for _, i := range r.rand.Perm(len(groups))[:1+r.rand.IntN(len(groups))] {
		g := groups[i]
		from := r.rand.IntN(len(g))
		rows = append(rows, g[from:from+1+r.rand.IntN(len(g)-from)]...)
	}
	return rows
}

func separate(n int) [][]int {
	groups := make([][]int, n)
	for i := range groups {
		groups[i] = []int{i}
	}
	return groups
}

// sheet is a view of a part of a buffer. The values around the view show whether an operation
// writes outside of it.
type sheet struct {
	compute.Tensor
	whole    compute.Tensor // the buffer
	values   [][]float32    // values of the buffer
	row, col int            // where the view starts in the buffer
}

// sheet makes a view with the given rows, at a random place in a buffer of other values.
func (r *rig) sheet(values [][]float32) *sheet {
	return r.view(len(values), len(values[0]), values)
}

// blank makes a view of any values.
func (r *rig) blank(rows, cols int) *sheet { return r.view(rows, cols, nil) }

func (r *rig) view(rows, cols int, values [][]float32) *sheet {
	s := &sheet{row: r.rand.IntN(3), col: r.rand.IntN(2) * r.rand.IntN(9)}
	s.values = r.drawn(s.row+rows+r.rand.IntN(3), s.col+cols+r.rand.IntN(2)*r.rand.IntN(9))
	for i, v := range values {
		copy(s.values[s.row+i][s.col:], v)
	}
	s.whole = r.newBuffer(len(s.values), len(s.values[0]))
	r.load(s)
	s.Tensor = s.whole.Slice(s.col, cols).Head(rows)
	s.Offset += s.row * s.Stride
	return s
}

// load writes a sheet's values to its buffer with Embed, the only operation that can do this.
func (r *rig) load(s *sheet) {
	r.step(r.flat(len(s.values), 1), func(step compute.Step) {
		table, err := r.be.Table(floats(s.values))
		require.NoError(r.tb, err)
		step.Embed(s.whole, table)
	})
}

// read returns the values of the view. It checks that the values around the view have not changed.
func (r *rig) read(s *sheet) [][]float32 {
	inside := r.be.Floats(s.Tensor)
	for i, row := range r.be.Floats(s.whole) {
		for j, v := range row {
			in := i >= s.row && i < s.row+s.Rows && j >= s.col && j < s.col+s.Cols
			if in && v != inside[i-s.row][j-s.col] && !math.IsNaN(float64(v)) {
				r.fail("the view has %g at row %d, column %d, but its buffer has %g there", inside[i-s.row][j-s.col], i-s.row, j-s.col, v)
			}
			if !in && v != s.values[i][j] {
				r.fail("the operation wrote outside of its view, %d rows and %d columns from the start of the view", i-s.row, j-s.col)
			}
		}
	}
	out := make([][]float32, len(inside))
	for i, row := range inside {
		out[i] = slices.Clone(row)
	}
	return out
}

func (r *rig) step(b *compute.Batch, ops ...func(s compute.Step)) {
	step := r.be.Begin(b)
	for _, op := range ops {
		op(step)
	}
	require.NoError(r.tb, step.Run(), r.what)
}

// run runs one step and returns the values that it wrote to out. The check fails if the step
// changes one of the input tensors.
func (r *rig) run(b *compute.Batch, record func(s compute.Step), out *sheet, in ...*sheet) [][]float32 {
	r.step(b, record)
	for n, s := range in {
		for i, row := range r.read(s) {
			if sameBits(row, s.values[s.row+i][s.col:s.col+s.Cols]) != nil {
				r.fail("the operation changed row %d of input %d, which it must only read", i, n)
			}
		}
	}
	return r.read(out)
}

// flat returns a batch of n sequences of one row each, at positions below the given bound.
func (r *rig) flat(n, positions int) *compute.Batch {
	b := &compute.Batch{}
	for i := range n {
		b.Tokens = append(b.Tokens, int32(i))
		b.Positions = append(b.Positions, int32(r.rand.IntN(positions)))
		b.Seqs = append(b.Seqs, compute.Seq{Rows: 1, Pages: make([]int32, positions)})
	}
	return b
}

func (r *rig) weight(t gguf.Tensor) compute.Weight {
	w, err := r.be.Weight(t)
	require.NoError(r.tb, err)
	return w
}

func (r *rig) newBuffer(rows, cols int) compute.Tensor {
	t, err := r.be.Buffer(rows, cols)
	require.NoError(r.tb, err)
	return t
}

func (r *rig) newRope(f compute.RopeFreqs, positions int) compute.Rope {
	rope, err := r.be.Rope(f, positions)
	require.NoError(r.tb, err)
	return rope
}

func (r *rig) newCache(shape compute.CacheShape) compute.Cache {
	cache, err := r.be.Cache(shape)
	require.NoError(r.tb, err)
	return cache
}

// normal draws rows of normally distributed values. Some rows have large values, some have small
// values, and a few have only zeros.
func (r *rig) normal(rows, cols int) [][]float32 {
	out := make([][]float32, rows)
	for i := range out {
		out[i] = make([]float32, cols)
		scale := r.scale()
		for j := range out[i] {
			out[i][j] = float32(scale * r.rand.NormFloat64())
		}
	}
	return out
}

func (r *rig) scale() float64 {
	if r.rand.IntN(30) == 0 {
		return 0
	}
	return math.Exp2(float64(r.rand.IntN(4) - 2))
}

// drawn is normal with values that were drawn before, for those that need not be independent.
func (r *rig) drawn(rows, cols int) [][]float32 {
	const pool = 8192
	for len(r.pool) < max(pool, cols) {
		r.pool = append(r.pool, float32(r.rand.NormFloat64()))
	}
	out := make([][]float32, rows)
	for i := range out {
		out[i] = slices.Clone(r.pool[r.rand.IntN(len(r.pool)-cols+1):][:cols])
		scale := float32(r.scale())
		for j := range out[i] {
			out[i][j] *= scale
		}
	}
	return out
}

// among draws a number in [from, to].
func (r *rig) among(from, to int) int { return from + r.rand.IntN(to-from+1) }

func pick[T any](all []T, rows []int) []T {
	out := make([]T, len(rows))
	for i, row := range rows {
		out[i] = all[row]
	}
	return out
}

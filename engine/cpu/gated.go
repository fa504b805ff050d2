package cpu

import (
	"slices"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/cpu/kernels"
)

// gated is the task of GatedMatMul and GatedExperts. For pairs of matrices gate and up, it computes
// act(gate·x, up·x) of the operands x. Each pair has its own range of the operands.
type gated struct {
	step *step
	operands
	cut        cut
	activation compute.Activation
	pairs      []pair
}

// pair is two matrices of the same shape that are multiplied with operands [from, to). first is the
// total number of groups in the earlier pairs.
type pair struct {
	gate, up         *weight
	matrix           int       // index of the matrix in gate and in up
	gateBias, upBias []float32 // biases of the matrix; empty for none
	first            int
	from, to         int
}

// A thread computes at most gatedRows rows of activations by gatedGroups groups of weight rows at
// once. This limits the size of its buffers.
const (
	gatedRows   = 64
	gatedGroups = 16
)

// ones are the factors of products if there are biases. A product with factors is added to the
// memory of its results, into which the biases are copied first.
var ones = slices.Repeat([]float32{1}, gatedRows)

func (t *gated) begin(x, out compute.Tensor, act compute.Activation) {
	t.operands.begin(x, out)
	t.pairs, t.cut.groups, t.activation = t.pairs[:0], 0, act
}

// addPair appends matrix number matrix of both weights, for operands [from, to). The caller may add
// biases to the result.
func (t *gated) addPair(gate, up *weight, matrix, from, to int) *pair {
	t.pairs = append(t.pairs, pair{gate: gate, up: up, matrix: matrix, first: t.cut.groups, from: from, to: to})
	t.cut.groups += gate.groups
	return &t.pairs[len(t.pairs)-1]
}

func matrixOf(v []float32, matrix, n int) []float32 {
	if v == nil {
		return nil
	}
	return v[matrix*n : (matrix+1)*n]
}

func (t *gated) run() {
	if len(t.pairs) == 0 {
		return
	}
	w, rows := t.pairs[0].gate, len(t.at)/len(t.pairs)
	t.cut = t.step.cut(w, t.cut.groups, 2*work(w, t.cut.groups, rows))
	if t.tileRows > 0 {
		t.cut = t.cut.tiled(len(t.step.scratch))
	}
	t.step.pool.do(t, t.cut.parts())
}

func (t *gated) part(thread, i int) {
	from, to := t.cut.span(i)
	rows := gatedRows
	if t.tileRows > 0 { // whole tiles
		rows -= gatedRows % t.tileRows
	}
	for k := range t.pairs {
		b := &t.pairs[k]
		end := min(to-b.first, b.gate.groups)
		for g := max(from-b.first, 0); g < end; g += gatedGroups {
			for r := b.from; r < b.to; r += rows {
				t.tile(thread, b, g, min(gatedGroups, end-g), r, min(r+rows, b.to))
			}
		}
	}
}

// tile computes the results of a pair for operands [from, to) and several groups of weight rows,
// from the first group on.
func (t *gated) tile(thread int, b *pair, group, groups, from, to int) {
	s := t.step
	m := &s.scratch[thread]
	width, rows := groups*kernels.GroupRows, to-from
	n := min(width, b.gate.out-group*kernels.GroupRows)
	m.gate, m.up, m.at = grow(m.gate, rows*width), grow(m.up, rows*width), grow(m.at, rows)
	for j := range rows {
		m.at[j] = int64(j * width)
	}
	var factors []float32
	if b.gateBias != nil { // the products are added to the biases
		at := group * kernels.GroupRows
		for j := range rows {
			copy(m.gate[j*width:], b.gateBias[at:at+n])
			copy(m.up[j*width:], b.upBias[at:at+n])
		}
		factors = ones[:rows]
	}
	s.call(thread, b.gate, b.matrix, group, groups, &t.operands, from, to, m.gate, m.at, factors)
	up := m.gate // if gate and up are the same weight
	if b.up != b.gate || b.gateBias != nil {
		up = m.up
		s.call(thread, b.up, b.matrix, group, groups, &t.operands, from, to, up, m.at, factors)
	}
	for j := range rows {
		a, dst := &m.gateBy, t.out[int(t.at[from+j])+group*kernels.GroupRows:]
		a.Kind, a.Dst, a.Gate, a.Up, a.N = int64(t.activation), &dst[0], &m.gate[j*width], &up[j*width], int64(n)
		s.kernels.Gate(a)
	}
}

func (s *step) GatedMatMul(dst, x compute.Tensor, gate, up compute.Weight, act compute.Activation) {
	g, u, t := gate.(*weight), up.(*weight), &s.gated
	t.begin(x, dst, act)
	t.tileRows = s.tileRows(g.form|u.form, dst.Rows)
	t.addRows(dst, x, g.in)
	s.quantise(g.form|u.form, t.tileRows, x, dst.Rows, 1, g.in, g.in)
	t.addPair(g, u, 0, 0, dst.Rows)
	t.run()
}

package cpu

import (
	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/cpu/kernels"
)

// gated is the task of GatedMatMul and GatedExperts: gated activations of pairs of matrices, each over its own rows.
type gated struct {
	step *step
	operands
	blocks []gatedBlock
}

// gatedBlock is some groups of a pair's rows, and the operands they are multiplied with.
type gatedBlock struct {
	gate, up              *weight
	matrix, group, groups int
	from, to              int
}

// gatedRows is how many rows a part holds results of at once.
const gatedRows = 64

// gatedGroups bounds the groups of a part, for the same reason.
const gatedGroups = 16

// cut appends the blocks of a matrix of a pair.
func (t *gated) cut(gate, up *weight, matrix, groups, from, to int) {
	groups = min(groups, gatedGroups)
	for g := 0; g < gate.groups; g += groups {
		t.blocks = append(t.blocks, gatedBlock{gate, up, matrix, g, min(groups, gate.groups-g), from, to})
	}
}

func (t *gated) part(thread, i int) {
	b, s := &t.blocks[i], t.step
	m := &s.scratch[thread]
	width := b.groups * kernels.GroupRows
	n := min(width, b.gate.out-b.group*kernels.GroupRows)
	most := min(gatedRows, b.to-b.from)
	m.gate, m.up, m.at = grow(m.gate, most*width), grow(m.up, most*width), grow(m.at, most)
	for j := range most {
		m.at[j] = int64(j * width)
	}
	for from := b.from; from < b.to; from += most {
		to := min(from+most, b.to)
		s.call(thread, b.gate, b.matrix, b.group, b.groups, &t.operands, from, to, m.gate, m.at, nil)
		s.call(thread, b.up, b.matrix, b.group, b.groups, &t.operands, from, to, m.up, m.at, nil)
		for r := from; r < to; r++ {
			a, at := &m.gateBy, (r-from)*width
			dst := t.out[int(t.at[r])+b.group*kernels.GroupRows:]
			a.Dst, a.Gate, a.Up, a.N = &dst[0], &m.gate[at], &m.up[at], int64(n)
			s.kernels.Gate(a)
		}
	}
}

// GatedMatMul implements compute.Step.
func (s *step) GatedMatMul(dst, x compute.Tensor, gate, up compute.Weight) {
	g, u, t := gate.(*weight), up.(*weight), &s.gated
	t.begin(x, dst)
	t.addRows(dst, x, g.in)
	if !g.takesFloats || !u.takesFloats {
		s.quantize(x, dst.Rows, 1, g.in, g.in)
	}
	t.blocks = t.blocks[:0]
	t.cut(g, u, 0, s.partGroups(g, g.groups), 0, dst.Rows)
	s.pool.run(t, len(t.blocks))
}

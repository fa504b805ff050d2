package cpu

import (
	"math"

	"github.com/ingot-run/ingot/engine/compute"
)

// chunk is how many rows of a weight one part of a product takes.
const chunk = 16

// ref is one row's share of a product: what is multiplied, and where the result goes.
type ref struct {
	in, out []float32
	scale   float32
}

// refsOf appends a ref a row.
func refsOf(refs []ref, dst, x compute.Tensor) []ref {
	for r := range dst.Rows {
		refs = append(refs, ref{in: row(x, r), out: row(dst, r), scale: 1})
	}
	return refs
}

// multiply computes rows from to from+chunk of matrix m of w against every ref, reading each row of the weight once. It
// sets the results, at off in the refs' outputs, or adds them.
func multiply(s *scratch, w *weight, m, from int, refs []ref, off int, add bool) {
	for o := from; o < min(from+chunk, w.out); o++ {
		line := w.row(s.row, m, o)
		for _, r := range refs {
			v := dot(line, r.in)
			if add {
				r.out[off+o] += r.scale * v
			} else {
				r.out[off+o] = v
			}
		}
	}
}

// gate computes rows from to from+chunk of silu(gate·x)*(up·x) against every ref.
func gate(s *scratch, gate, up *weight, m, from int, refs []ref) {
	for o := from; o < min(from+chunk, gate.out); o++ {
		g, u := gate.row(s.row, m, o), up.row(s.second, m, o)
		for _, r := range refs {
			r.out[o] = silu(dot(g, r.in)) * dot(u, r.in)
		}
	}
}

// silu is x·sigmoid(x).
func silu(x float32) float32 { return x / (1 + float32(math.Exp(-float64(x)))) }

// dot sums the products of a and b in eight interleaved sums, joined in a fixed order.
func dot(a, b []float32) float32 {
	var s0, s1, s2, s3, s4, s5, s6, s7 float32
	b = b[:len(a)]
	for len(a) >= 8 && len(b) >= 8 {
		s0 += a[0] * b[0]
		s1 += a[1] * b[1]
		s2 += a[2] * b[2]
		s3 += a[3] * b[3]
		s4 += a[4] * b[4]
		s5 += a[5] * b[5]
		s6 += a[6] * b[6]
		s7 += a[7] * b[7]
		a, b = a[8:], b[8:]
	}
	for i, v := range a {
		s0 += v * b[i]
	}
	return ((s0 + s4) + (s2 + s6)) + ((s1 + s5) + (s3 + s7))
}

// parts is the number of chunks in n rows.
func parts(n int) int { return (n + chunk - 1) / chunk }

// MatMul implements compute.Step.
func (s *step) MatMul(dst, x compute.Tensor, w ...compute.Weight) { s.multiply(dst, x, false, w...) }

// MatMulAdd implements compute.Step.
func (s *step) MatMulAdd(dst, x compute.Tensor, w compute.Weight) { s.multiply(dst, x, true, w) }

func (s *step) multiply(dst, x compute.Tensor, add bool, ws ...compute.Weight) {
	p := &s.product
	p.step, p.add = s, add
	p.refs, p.blocks = refsOf(p.refs[:0], dst, x), p.blocks[:0]
	off := 0
	for _, w := range ws {
		w := w.(*weight)
		for from := 0; from < w.out; from += chunk {
			p.blocks = append(p.blocks, productBlock{w, from, off})
		}
		off += w.out
	}
	s.backend.pool.run(p, len(p.blocks))
}

// product is the task of MatMul and MatMulAdd.
type product struct {
	step   *step
	refs   []ref
	blocks []productBlock
	add    bool
}

// productBlock is a chunk of a weight's rows, and where the weight's results start in a row of the output.
type productBlock struct {
	w         *weight
	from, off int
}

func (p *product) part(thread, i int) {
	b := p.blocks[i]
	multiply(&p.step.backend.scratch[thread], b.w, 0, b.from, p.refs, b.off, p.add)
}

// GatedMatMul implements compute.Step.
func (s *step) GatedMatMul(dst, x compute.Tensor, gate, up compute.Weight) {
	g := &s.gated
	g.begin(s)
	g.add(gate.(*weight), up.(*weight), 0, refsOf(nil, dst, x))
	g.run()
}

// gatedProduct is the task of GatedMatMul and GatedExperts: gated activations of several matrices, each over its own rows.
type gatedProduct struct {
	step   *step
	blocks []gatedBlock
}

type gatedBlock struct {
	gate, up *weight
	m, from  int
	refs     []ref
}

func (g *gatedProduct) begin(s *step) { g.step, g.blocks = s, g.blocks[:0] }

// add adds matrix m of a pair of weights.
func (g *gatedProduct) add(gate, up *weight, m int, refs []ref) {
	for from := 0; from < gate.out; from += chunk {
		g.blocks = append(g.blocks, gatedBlock{gate, up, m, from, refs})
	}
}

func (g *gatedProduct) run() { g.step.backend.pool.run(g, len(g.blocks)) }

func (g *gatedProduct) part(thread, i int) {
	b := g.blocks[i]
	gate(&g.step.backend.scratch[thread], b.gate, b.up, b.m, b.from, b.refs)
}

package computetest

import (
	"fmt"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
)

// shapes calls test with several sizes of a product for each type of weights. Backends have
// separate kernels for 1 row, for a few rows, and for tiles of 8 to 32 rows. The numbers of rows
// are chosen so that all of these kernels run.
func (r *rig) shapes(test func(t gguf.Type, in, out, rows int)) {
	for _, t := range r.types {
		for _, rows := range []int{1, r.among(2, 8), r.among(9, 40)} {
			longest := 600
			if rows > 8 {
				longest = 256
			}
			test(t, r.length(t, longest), r.among(1, 70), rows)
		}
	}
}

// checkMatMul multiplies with up to three weights side by side. Each weight has its own type and
// width.
func checkMatMul(r *rig) {
	r.shapes(func(t gguf.Type, in, out, rows int) {
		weights := []*matrix{r.matrix(t, in, out)}
		for range r.rand.IntN(3) {
			other := r.types[r.rand.IntN(len(r.types))]
			if in%other.BlockSize() == 0 {
				weights = append(weights, r.matrix(other, in, r.among(1, 40)))
			}
		}
		cols, what := 0, fmt.Sprintf("%d rows of %d values times", rows, in)
		var list []compute.Weight
		for _, w := range weights {
			list = append(list, w.weight)
			cols += w.out
			what += fmt.Sprintf(" %d of %v", w.out, w.kind)
		}
		x := r.normal(rows, in)
		r.verify(operation{
			what:   what,
			groups: separate(rows),
			compute: func(rows []int) [][]float32 {
				in, out := r.sheet(pick(x, rows)), r.blank(len(rows), cols)
				b := r.flat(len(rows)+r.rand.IntN(3), 1) // the output head takes fewer rows than the step has
				return r.run(b, func(s compute.Step) { s.MatMul(out.Tensor, in.Tensor, list...) }, out, in)
			},
			compare: func(row int, got []float32) error {
				var want []approx
				for _, w := range weights {
					want = append(want, w.product(0, x[row])...)
				}
				return within(got, want)
			},
		})
	})
}

func checkMatMulAdd(r *rig) {
	r.shapes(func(t gguf.Type, in, out, rows int) {
		w, x, before := r.matrix(t, in, out), r.normal(rows, in), r.normal(rows, out)
		r.verify(operation{
			what:   fmt.Sprintf("add %d rows of %d values times %d of %v", rows, in, out, t),
			groups: separate(rows),
			compute: func(rows []int) [][]float32 {
				in, out := r.sheet(pick(x, rows)), r.sheet(pick(before, rows))
				return r.run(r.flat(len(rows), 1), func(s compute.Step) { s.MatMulAdd(out.Tensor, in.Tensor, w.weight) }, out, in)
			},
			compare: func(row int, got []float32) error {
				want := exactly(before[row])
				for i, p := range w.product(0, x[row]) {
					want[i] = want[i].plus(p)
				}
				return within(got, want)
			},
		})
	})
}

func checkGatedMatMul(r *rig) {
	r.shapes(func(t gguf.Type, in, out, rows int) {
		gate, up, x := r.matrix(t, in, out), r.matrix(t, in, out), r.normal(rows, in)
		act := activations[r.rand.IntN(len(activations))]
		if act == compute.ReLU {
			up = gate // as models use it
		}
		r.verify(operation{
			what:   fmt.Sprintf("gate %d rows of %d values by %d of %v, activation %d", rows, in, out, t, act),
			groups: separate(rows),
			compute: func(rows []int) [][]float32 {
				in, out := r.sheet(pick(x, rows)), r.blank(len(rows), out)
				return r.run(r.flat(len(rows), 1), func(s compute.Step) { s.GatedMatMul(out.Tensor, in.Tensor, gate.weight, up.weight, act) }, out, in)
			},
			compare: func(row int, got []float32) error { return within(got, gated(act, gate, up, 0, x[row], nil, nil)) },
		})
	})
}

var activations = []compute.Activation{compute.SiLU, compute.GELU, compute.SwiGLU, compute.ReLU}

// gated returns the gated activations of x with matrix i of gate and up. The biases can be nil.
func gated(act compute.Activation, gate, up *matrix, i int, x []float32, gateBias, upBias *matrix) []approx {
	g, u := gate.product(i, x), up.product(i, x)
	for o := range g {
		if gateBias != nil {
			g[o] = g[o].plus(approx{value: float64(gateBias.values[i*gate.out+o])})
			u[o] = u[o].plus(approx{value: float64(upBias.values[i*gate.out+o])})
		}
	}
	return activated(act, g, u)
}

// activated returns the gated activations of g and u. It changes g.
func activated(act compute.Activation, g, u []approx) []approx {
	for o := range g {
		switch act {
		case compute.SiLU:
			g[o] = g[o].silu().times(u[o])
		case compute.GELU:
			g[o] = g[o].gelu().times(u[o])
		case compute.SwiGLU:
			g[o] = g[o].swish(swigluAlpha, swigluLimit).times(u[o].clamped(swigluLimit).plus(approx{value: 1}))
		case compute.ReLU:
			g[o] = approx{max(g[o].value, 0), g[o].tol}.times(u[o])
		}
	}
	return g
}

// The constants of gpt-oss's SwiGLU.
const (
	swigluAlpha = 1.702
	swigluLimit = 7
)

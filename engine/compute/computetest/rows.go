package computetest

import (
	"fmt"
	"math"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
)

// checkEmbed embeds tokens, in random order and with repetitions, from tables of every type.
func checkEmbed(r *rig) {
	for _, t := range r.types {
		table := r.matrix(t, r.length(t, 600), r.among(1, 40))
		tokens := make([]int32, r.among(1, 20))
		for i := range tokens {
			tokens[i] = int32(r.rand.IntN(table.out))
		}
		r.verify(operation{
			what:   fmt.Sprintf("embed %d of %d rows of %d values of %v", len(tokens), table.out, table.in, t),
			groups: separate(len(tokens)),
			compute: func(rows []int) [][]float32 {
				b := r.flat(len(rows), 1)
				for i, row := range rows {
					b.Tokens[i] = tokens[row]
				}
				out := r.blank(len(rows), table.in)
				return r.run(b, func(s compute.Step) { s.Embed(out.Tensor, table.weight) }, out)
			},
			compare: func(row int, got []float32) error {
				want := exactly(table.row(0, int(tokens[row])))
				if t.BlockSize() > 1 {
					for i := range want {
						want[i].tol = float16Step * (math.Abs(want[i].value) + 4) // scale·code - minimum, each of which may be rounded
					}
				}
				return within(got, want)
			},
		})
	}
}

func checkGather(r *rig) {
	for range 4 {
		values := r.normal(r.among(1, 30), r.among(1, 70))
		rows := make([]int32, r.among(1, len(values)))
		for i := range rows {
			rows[i] = int32(r.rand.IntN(len(values)))
		}
		r.what = fmt.Sprintf("gather %d of %d rows", len(rows), len(values))
		src, out := r.sheet(values), r.blank(len(rows), len(values[0]))
		got := r.run(r.flat(len(values), 1), func(s compute.Step) { s.Gather(out.Tensor, src.Tensor, rows) }, out, src)
		for i, row := range rows {
			if err := within(got[i], exactly(values[row])); err != nil {
				r.fail("row %d: %v", i, err)
			}
		}
	}
}

// checkRMSNorm norms random rows, rows of zeros, and rows of values so small that eps changes the
// result.
func checkRMSNorm(r *rig) {
	for i, cols := range []int{1, 2, 7, 64, 100, 576, 1025, 2048} {
		gain := r.matrix([]gguf.Type{gguf.TypeF32, gguf.TypeF16, gguf.TypeBF16}[i%3], cols)
		x := r.normal(r.among(1, 9), cols)
		const eps = 1e-5
		for j := range x[0] {
			x[0][j] *= 1e-3
		}
		for _, inPlace := range []bool{false, true} {
			r.verify(operation{
				what:   fmt.Sprintf("norm %d rows of %d values, in place %v", len(x), cols, inPlace),
				groups: separate(len(x)),
				compute: func(rows []int) [][]float32 {
					in := r.sheet(pick(x, rows))
					if inPlace {
						return r.run(r.flat(len(rows), 1), func(s compute.Step) { s.RMSNorm(in.Tensor, in.Tensor, gain.weight, eps) }, in)
					}
					out := r.blank(len(rows), cols)
					return r.run(r.flat(len(rows), 1), func(s compute.Step) { s.RMSNorm(out.Tensor, in.Tensor, gain.weight, eps) }, out, in)
				},
				compare: func(row int, got []float32) error { return within(got, normed(x[row], gain.row(0, 0), eps)) },
			})
		}
	}
}

func checkRMSNormAdd(r *rig) {
	for _, cols := range []int{1, 1025, 7, 64, 576} {
		gain, rows := r.matrix(gguf.TypeF32, cols), r.among(1, 9)
		x, before := r.normal(rows, cols), r.normal(rows, cols)
		const eps = 1e-5
		r.verify(operation{
			what:   fmt.Sprintf("add the norms of %d rows of %d values", rows, cols),
			groups: separate(rows),
			compute: func(rows []int) [][]float32 {
				in, out := r.sheet(pick(x, rows)), r.sheet(pick(before, rows))
				return r.run(r.flat(len(rows), 1), func(s compute.Step) { s.RMSNormAdd(out.Tensor, in.Tensor, gain.weight, eps) }, out, in)
			},
			compare: func(row int, got []float32) error {
				want := exactly(before[row])
				for i, v := range normed(x[row], gain.row(0, 0), eps) {
					want[i] = want[i].plus(v)
				}
				return within(got, want)
			},
		})
	}
}

func checkAffine(r *rig) {
	for i, cols := range []int{1, 65, 300, 30} {
		x, bias := r.normal(r.among(1, 9), cols), r.matrix(gguf.TypeF32, cols)
		scale, b := float32(1), bias.weight
		if i != 0 {
			scale = 0.3
		}
		if i == 1 {
			b = nil
		}
		if i == 3 { // the values do not matter
			scale, x[0][1], x[0][2] = 0, float32(math.NaN()), float32(math.Inf(1))
		}
		r.verify(operation{
			what:   fmt.Sprintf("%d rows of %d values by %g, bias %v", len(x), cols, scale, b != nil),
			groups: separate(len(x)),
			compute: func(rows []int) [][]float32 {
				t := r.sheet(pick(x, rows))
				return r.run(r.flat(len(rows), 1), func(s compute.Step) { s.Affine(t.Tensor, scale, b) }, t)
			},
			compare: func(row int, got []float32) error {
				want := exactly(x[row])
				for i := range want {
					want[i] = want[i].times(approx{value: float64(scale)})
					if scale == 0 {
						want[i] = approx{}
					}
					if b != nil {
						want[i] = want[i].plus(approx{value: float64(bias.values[i])})
					}
				}
				return within(got, want)
			},
		})
	}
}

// checkSoftCap limits values far below the limit, near it, and so far above it that an exponential
// would overflow. A backend may compute tanh from an exponential: its error is absolute.
func checkSoftCap(r *rig) {
	for _, cols := range []int{1, 65, 5000} {
		x := r.normal(r.among(1, 5), cols)
		const limit = 3
		x[0][0], x[len(x)-1][cols-1] = 1e-4, -1000
		r.verify(operation{
			what:   fmt.Sprintf("%d rows of %d values, limited to %d", len(x), cols, limit),
			groups: separate(len(x)),
			compute: func(rows []int) [][]float32 {
				t := r.sheet(pick(x, rows))
				return r.run(r.flat(len(rows), 1), func(s compute.Step) { s.SoftCap(t.Tensor, limit) }, t)
			},
			compare: func(row int, got []float32) error {
				want := exactly(x[row])
				for i, v := range want {
					want[i] = approx{limit * math.Tanh(v.value/limit), 2 * expStep * limit}
				}
				return within(got, want)
			},
		})
	}
}

package computetest

import (
	"fmt"
	"math"
	"slices"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
)

// checkShortConv uses rows that fill keys and values, keys and a part of the values, or a part of
// the keys.
func checkShortConv(r *rig) {
	for i, c := range []struct{ kvHeads, dim, cols, taps, pageSize int }{
		{4, 64, 512, 3, 16}, {2, 32, 96, 3, 8}, {4, 32, 64, 4, 3}, {1, 32, 64, 2, 1}, {2, 8, 24, 3, 16},
	} {
		for _, kind := range gguf.CacheTypes() {
			if c.dim%kind.BlockSize() == 0 {
				r.shortConv(c.kvHeads, c.dim, c.cols, c.taps, c.pageSize, kind, i)
			}
		}
	}
}

func (r *rig) shortConv(kvHeads, dim, cols, taps, pageSize int, kind gguf.Type, turn int) {
	w := r.matrix(gguf.TypeF32, taps*cols)
	p := &pagedSequences{
		shape:   compute.AttentionShape{KVHeads: kvHeads, KeyDim: dim, ValueDim: dim},
		keyCols: kvHeads * dim, valCols: kvHeads * dim, pageSize: pageSize, kind: kind,
	}
	if turn%2 == 1 {
		p.shape.Window = taps
	}
	record := func(s compute.Step, t compute.Tensor, cache compute.Cache, layer int) {
		s.ShortConv(t.Slice(0, cols), t.Slice(cols, cols), t.Slice(2*cols, cols), w.weight, p.shape, cache, layer)
	}
	p.store = func(s compute.Step, t compute.Tensor, _ compute.Rope, cache compute.Cache, layer int) {
		record(s, t, cache, layer)
	}
	r.drawLines(p, 3*cols, r.lengths(pageSize)...)
	m := r.storeAll(p, nil)
	rows, groups := r.drawRows(p)
	r.verify(operation{
		what:   fmt.Sprintf("a convolution of %d columns and %d rows in %d heads of %d, pages of %d slots of %v", cols, taps, kvHeads, dim, pageSize, kind),
		groups: groups,
		compute: func(some []int) [][]float32 {
			var lines [][]float32
			for _, row := range pick(rows, some) {
				lines = append(lines, p.lines[row.seq][row.position])
			}
			b := m.batch(pick(rows, some))
			m.slide(b, p.shape)
			t := r.sheet(lines)
			return r.run(b, func(s compute.Step) { record(s, t.Tensor, m.cache, m.layer) }, t)
		},
		compare: func(row int, got []float32) error {
			at := rows[row]
			return within(got, shortConvolved(p.lines[at.seq][:at.position+1], w.values, cols, taps, dim, kind))
		},
	})
}

// shortConvolved returns the last row [c | b | x] of a sequence after ShortConv. Stored values may
// be rounded like keys.
func shortConvolved(lines [][]float32, w []float32, cols, taps, dim int, kind gguf.Type) []approx {
	last := len(lines) - 1
	want := exactly(lines[last])
	sums := make([]approx, cols)
	for j := range taps {
		at := last - taps + 1 + j
		if at < 0 {
			continue
		}
		s := make([]float64, cols)
		for i := range s {
			s[i] = float64(lines[at][cols+i]) * float64(lines[at][2*cols+i])
		}
		values, steps := slices.Clone(s), make([]float64, cols)
		for from := 0; from < cols && at < last; from += dim {
			v, step := roundTrip(kind, s[from:from+dim])
			copy(values[from:], v)
			copy(steps[from:], step)
		}
		for i, v := range values {
			term := approx{v, 4*float32Step*math.Abs(v) + steps[i]/1000} // v, its product with the weight, and their sum
			if at < last {
				term.tol += float16Step * math.Abs(v)
			}
			if math.Abs(s[i]-v) > 0.43*steps[i] { // about half way between two codes: float32 may give the other one
				term.tol += steps[i]
			}
			sums[i] = sums[i].plus(approx{value: float64(w[i*taps+j])}.times(term))
		}
		if at == last {
			for i, v := range s {
				want[2*cols+i] = approx{v, 2 * float32Step * math.Abs(v)}
			}
		}
	}
	for i := range cols {
		want[i] = want[i].times(sums[i])
		want[i].tol += tiny
	}
	return want
}

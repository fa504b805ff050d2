package cpu

import (
	"math"

	"github.com/ingot-run/ingot/engine/compute"
)

func (s *step) Top(dst, logits compute.Tensor, k int) {
	t := &s.byRow
	t.dst, t.src, t.best = dst, logits, k
	t.run((*rowsTask).top, dst.Rows, logits.Cols)
}

func (t *rowsTask) top(thread, r int) { t.step.top(thread, row(t.dst, r), row(t.src, r), t.best) }

// top writes the k highest logits of a row to dst, in the format of compute.Step.Top. A NaN counts
// as the lowest value.
func (b *Backend) top(thread int, dst, logits []float32, k int) {
	a := &b.scratch[thread].highest
	a.X, a.N = &logits[0], int64(len(logits))
	b.kernels.Highest(a)
	dst[0], dst[k] = float32(a.ID), float32(a.Value)
	if k > 1 {
		insertBest(dst[:k], dst[k:2*k], logits)
	}
	dst[2*k] = float32(a.Value + math.Log(a.Sum))
}

// insertBest finds the len(ids) highest logits, highest first. Of equal logits, the lower id is
// first. A NaN counts as -Inf.
func insertBest(ids, values, logits []float32) {
	k, n := len(ids), 0
	for id, v := range logits {
		if n == k && v <= values[n-1] {
			continue
		}
		if math.IsNaN(float64(v)) {
			v = float32(math.Inf(-1))
		}
		if n < k {
			n++
		} else if v <= values[n-1] {
			continue
		}
		at := n - 1
		for ; at > 0 && v > values[at-1]; at-- {
			ids[at], values[at] = ids[at-1], values[at-1]
		}
		ids[at], values[at] = float32(id), v
	}
}

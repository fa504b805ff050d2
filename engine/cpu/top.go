package cpu

import (
	"math"

	"github.com/ingot-run/ingot/engine/compute"
)

// Top implements compute.Step.
func (s *step) Top(dst, logits compute.Tensor, k int) {
	t := &s.byRow
	t.dst, t.src, t.best = dst, logits, k
	t.run(topRows, dst.Rows, logits.Cols)
}

// top finds the k best of a row. A NaN counts as the lowest value.
func top(dst, logits []float32, k int) {
	ids, values := dst[:k], dst[k:2*k]
	n := 0
	for id, v := range logits {
		if math.IsNaN(float64(v)) {
			v = float32(math.Inf(-1))
		}
		if n == k && v <= values[n-1] {
			continue
		}
		if n < k {
			n++
		}
		at := n - 1
		for ; at > 0 && v > values[at-1]; at-- {
			ids[at], values[at] = ids[at-1], values[at-1]
		}
		ids[at], values[at] = float32(id), v
	}
	dst[2*k] = logSumExp(logits, float64(values[0]))
}

// exponent masks the exponent of a float32, which is all ones in infinities and NaNs alone.
const exponent = 0x7f800000

// logSumExp is log Σ exp of values of which the highest is best; infinite where one is not finite.
func logSumExp(values []float32, best float64) float32 {
	sum := 0.0
	for _, v := range values {
		if math.Float32bits(v)&exponent == exponent {
			return float32(math.Inf(1))
		}
		sum += math.Exp(float64(v) - best)
	}
	return float32(best + math.Log(sum))
}

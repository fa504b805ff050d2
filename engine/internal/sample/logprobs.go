package sample

import (
	"fmt"
	"math"

	"github.com/ingot-run/ingot/engine/generation"
)

// LogSumExp returns log(Σ exp(logit)) in float64. The log-probability of a token is its logit minus
// this value. If a logit is NaN or +Inf, or all are -Inf, the error wraps generation.ErrNotFinite.
func LogSumExp(logits []float32) (float64, error) {
	best := math.Inf(-1)
	for id, l := range logits {
		if math.IsInf(float64(l), 1) || l != l {
			return 0, fmt.Errorf("%w: the logit of token %d is %g", generation.ErrNotFinite, id, l)
		}
		best = max(best, float64(l))
	}
	if math.IsInf(best, -1) {
		return 0, fmt.Errorf("%w: all of them are %g", generation.ErrNotFinite, best)
	}
	sum := 0.0
	for _, l := range logits {
		sum += math.Exp(float64(l) - best)
	}
	return best + math.Log(sum), nil
}

// Top appends the ids of the n highest logits to dst, the highest first. Of equal logits, the
// lowest id is first.
func Top(dst []int32, logits []float32, n int) []int32 {
	from := len(dst)
	if n == 0 {
		return dst
	}
	for id, l := range logits {
		if len(dst)-from == n {
			if l <= logits[dst[len(dst)-1]] {
				continue
			}
			dst = dst[:len(dst)-1]
		}
		at := len(dst)
		dst = append(dst, int32(id))
		for ; at > from && l > logits[dst[at-1]]; at-- {
			dst[at] = dst[at-1]
		}
		dst[at] = int32(id)
	}
	return dst
}

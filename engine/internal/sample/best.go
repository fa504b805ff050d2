package sample

import (
	"fmt"
	"math"

	"github.com/ingot-run/ingot/engine/generation"
)

// Best has the highest logits of a row, which the backend found. The highest logit is first; of
// equal logits, the lowest id is first.
type Best struct {
	ids, values []float32 // ids, stored as floats, and logits
	sum         float32   // log Σ exp(logit) over the whole row
}

// ReadBest reads the highest k logits from a row that compute.Step.Top has written: [ids | values |
// log Σ exp].
func ReadBest(row []float32, k int) Best {
	return Best{ids: row[:k], values: row[k : 2*k], sum: row[2*k]}
}

// ID returns the id of the i-th highest logit, counted from 0.
func (b Best) ID(i int) int32 { return int32(b.ids[i]) }

// Logit returns the i-th highest logit, counted from 0.
func (b Best) Logit(i int) float32 { return b.values[i] }

// LogSumExp returns log Σ exp(logit) over the whole row. Except for rounding, it equals the result
// of the function LogSumExp for all logits, and so are its errors.
func (b Best) LogSumExp() (float64, error) {
	sum := float64(b.sum)
	if math.IsNaN(sum) || math.IsInf(sum, 0) {
		return 0, fmt.Errorf("%w: the logarithm of the sum of their exponentials is %g", generation.ErrNotFinite, sum)
	}
	return sum, nil
}

package sample

import (
	"fmt"
	"math"
	"slices"

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
// of the function LogSumExp for all logits. If a logit is not finite, the error wraps
// generation.ErrNotFinite.
func (b Best) LogSumExp() (float64, error) {
	sum := float64(b.sum)
	if math.IsNaN(sum) || math.IsInf(sum, 0) {
		return 0, fmt.Errorf("%w: the logarithm of the sum of their exponentials is %g", generation.ErrNotFinite, sum)
	}
	return sum, nil
}

// Greedy reports whether the next token is the one with the highest of the unchanged logits.
func (s *Sampler) Greedy() bool { return s.params.Temperature == 0 && s.Needs() == 1 }

// Needs returns the number of highest logits that SampleBest needs. It returns 0 if all logits are
// needed, so that only Sample can draw the next token.
func (s *Sampler) Needs() int {
	switch {
	case len(s.excluded) > 0 || len(s.bias) > 0 || penalises(&s.params):
		return 0
	case s.params.Temperature == 0:
		return 1
	case s.params.TopK > 0:
		return s.params.TopK + 1 // one more logit shows whether further logits equal the TopK-th highest
	}
	return 0
}

// SampleBest is like Sample, but for a row of which only the highest logits are known. b must have
// at least Needs logits. SampleBest returns the index in b of the token that Sample would draw from
// all logits. With a temperature above 0, ok is false if the last logit in b equals the TopK-th
// highest. Logits outside of b may also be equal to it, so only Sample can draw the token.
func (s *Sampler) SampleBest(b Best, position int, w *Scratch) (index int, ok bool, err error) {
	if _, err := b.LogSumExp(); err != nil {
		return 0, false, err
	}
	if s.params.Temperature == 0 {
		return 0, true, nil
	}
	n := s.params.TopK
	for n < len(b.values) && b.values[n] == b.values[s.params.TopK-1] {
		n++
	}
	if n == len(b.values) {
		return 0, false, nil
	}
	d := w.truncateBest(b, n, &s.params)
	id := d.IDs[0]
	if len(d.IDs) > 1 {
		id = d.Draw(s.uniform(position))
	}
	return slices.Index(b.ids, float32(id)), true, nil
}

package sample

import (
	"fmt"
	"math"
	"slices"

	"github.com/ingot-run/ingot/generation"
)

// Best has the highest logits of a row, as found by the backend. The highest logit is first; among equals, the lowest id is first.
type Best struct {
	ids, values []float32 // ids are whole numbers
	sum         float32   // log Σ exp of the whole row
}

// ReadBest reads the highest k logits from a row that compute.Step.Top has written: [ids | values | log Σ exp].
func ReadBest(row []float32, k int) Best {
	return Best{ids: row[:k], values: row[k : 2*k], sum: row[2*k]}
}

// ID returns the token of logit i.
func (b Best) ID(i int) int32 { return int32(b.ids[i]) }

// Logit is logit i.
func (b Best) Logit(i int) float32 { return b.values[i] }

// LogSumExp returns log Σ exp of the whole row. Except for rounding, it is the result of the function LogSumExp for all logits.
func (b Best) LogSumExp() (float64, error) {
	sum := float64(b.sum)
	if math.IsNaN(sum) || math.IsInf(sum, 0) {
		return 0, fmt.Errorf("%w: log Σ exp of the row is %g", generation.ErrNotFinite, sum)
	}
	return sum, nil
}

// Greedy reports whether the highest logit alone decides the next token.
func (s *Sampler) Greedy() bool { return s.params.Temperature == 0 && s.Needs() == 1 }

// Needs returns the number of highest logits that SampleBest needs. It returns 0 if the next token can be drawn only by
// Sample, from all logits.
func (s *Sampler) Needs() int {
	switch {
	case len(s.excluded) > 0 || len(s.bias) > 0 || penalises(&s.params):
		return 0
	case s.params.Temperature == 0:
		return 1
	case s.params.TopK > 0:
		return s.params.TopK + 1 // one more logit shows whether others are equal to the last of the top k
	}
	return 0
}

// SampleBest is Sample for a row of which only the highest logits are known. There must be at least Needs of them. It returns the
// index in b of the token that Sample would draw from all logits. ok is false if logits outside of b may be equal to the last of
// the top k. Then only Sample can draw the token.
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

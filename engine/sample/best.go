package sample

import (
	"fmt"
	"math"
	"slices"
)

// Best is the highest logits of a row, found where the logits are: best first, of equals the lowest id first.
type Best struct {
	ids, values []float32 // ids are whole numbers
	sum         float32   // log Σ exp of the whole row
}

// ReadBest takes the highest k logits from a row as compute.Step.Top writes it: [ids | values | log Σ exp].
func ReadBest(row []float32, k int) Best {
	return Best{ids: row[:k], values: row[k : 2*k], sum: row[2*k]}
}

// ID is the id of the logit at place i.
func (b Best) ID(i int) int32 { return int32(b.ids[i]) }

// Logit is the logit at place i.
func (b Best) Logit(i int) float32 { return b.values[i] }

// LogSumExp is that of the whole row, as LogSumExp of all logits but for rounding. It is finite where they are.
func (b Best) LogSumExp() (float64, error) {
	sum := float64(b.sum)
	if math.IsNaN(sum) || math.IsInf(sum, 0) {
		return 0, fmt.Errorf("log Σ exp of them is %g: %w", sum, ErrNotFinite)
	}
	return sum, nil
}

// Greedy tells whether the highest logit alone decides the next token, whatever its rivals.
func (s *Sampler) Greedy() bool { return s.params.Temperature == 0 && s.Needs() == 1 }

// Needs is how many of the highest logits SampleBest takes; 0 where only Sample can draw the next token, from all of them.
func (s *Sampler) Needs() int {
	switch {
	case len(s.barred) > 0 || len(s.bias) > 0 || penalises(&s.params):
		return 0
	case s.params.Temperature == 0:
		return 1
	case s.params.TopK > 0:
		return s.params.TopK + 1 // the last shows whether others equal the one before it
	}
	return 0
}

// SampleBest is Sample for at least Needs of the highest logits of a row, fewer than there are in all. It returns the place
// of the token that Sample would draw from all logits. ok is false where more logits may equal the last of the top k than
// are given: only Sample can tell then.
func (s *Sampler) SampleBest(b Best, position int, w *Scratch) (place int, ok bool, err error) {
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
		id = d.Draw(s.Uniform(position))
	}
	return slices.Index(b.ids, float32(id)), true, nil
}

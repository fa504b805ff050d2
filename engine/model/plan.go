package model

import (
	"fmt"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
)

// Plan adds the memory that Load would allocate on a backend, except the KV cache, to sums. It
// reads no weights.
func Plan(be compute.Backend, sums compute.Plan, f *gguf.File, lim Limits) error {
	counted := &planBackend{Backend: be, plan: sums}
	l, family, err := open(counted, f)
	if err != nil {
		return err
	}
	l.planning = true
	c := family.config(l)
	counted.vocab = c.Vocab
	if l.err == nil {
		family.load(l, c, lim)
	}
	if l.err != nil {
		return fmt.Errorf("plan the memory of %s: %w", f.Path(), l.err)
	}
	return nil
}

// prepare makes a backend compile the code for a model at once, if it compiles any. Otherwise it
// would compile the code for each type of weights when the first weight is loaded.
func prepare(be compute.Backend, f *gguf.File, lim Limits) error {
	p, ok := be.(compute.Preparer)
	if !ok {
		return nil
	}
	plan := be.Plan()
	if err := Plan(be, plan, f, lim); err != nil {
		return err
	}
	return p.Prepare(plan)
}

type planBackend struct {
	compute.Backend
	plan  compute.Plan
	vocab int
}

type plannedWeight struct{ tensor gguf.Tensor }

func (w plannedWeight) Type() gguf.Type { return w.tensor.Type }
func (w plannedWeight) Shape() []int    { return w.tensor.Shape }

func (b *planBackend) Weight(t gguf.Tensor) (compute.Weight, error) {
	return plannedWeight{t}, b.plan.Weight(t)
}

func (b *planBackend) Table(t gguf.Tensor) (compute.Weight, error) {
	return plannedWeight{t}, b.plan.Table(t)
}

// Buffer adds the memory of a buffer. The buffer of logits, which has a column per token of the
// vocabulary, is not multiplied with weights. All other buffers are counted as if they were
// multiplied with weights.
func (b *planBackend) Buffer(rows, cols int) (compute.Tensor, error) {
	b.plan.Buffer(rows, cols, cols != b.vocab)
	return compute.Tensor{Rows: rows, Cols: cols, Stride: cols}, nil
}

func (b *planBackend) Rope(f compute.RopeFreqs, positions int) (compute.Rope, error) {
	dims := 2 * len(f.Freqs)
	b.plan.Rope(dims, positions)
	return plannedRope(dims), nil
}

type plannedRope int

func (r plannedRope) Dims() int { return int(r) }

func (b *planBackend) Cache(shape compute.CacheShape) (compute.Cache, error) {
	b.plan.Cache(shape)
	return plannedCache{shape}, nil
}

func (b *planBackend) States(shape compute.StateShape) (compute.States, error) {
	b.plan.States(shape)
	return plannedStates{shape}, nil
}

type plannedStates struct{ shape compute.StateShape }

func (s plannedStates) Shape() compute.StateShape { return s.shape }

type plannedCache struct{ shape compute.CacheShape }

func (c plannedCache) Shape() compute.CacheShape { return c.shape }

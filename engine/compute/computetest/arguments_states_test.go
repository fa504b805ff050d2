package computetest

import (
	"slices"

	"github.com/ingot-run/ingot/engine/compute"
)

// changedStates makes steps that change what each sequence does with its state.
func changedStates(change func(st *compute.SeqState)) func(s site) compute.Step {
	return func(s site) compute.Step { return otherStates{s, change} }
}

type otherStates struct {
	site
	change func(st *compute.SeqState)
}

func (s otherStates) with(op func()) {
	seqs := slices.Clone(s.batch.Seqs)
	for i := range s.batch.Seqs {
		seq := &s.batch.Seqs[i]
		s.change(&seq.State)
		seq.State.Prompt = min(seq.State.Prompt, seq.Rows-seq.State.Drafts)
	}
	op()
	s.batch.Seqs = seqs
}

func (s otherStates) Convolve(dst, x compute.Tensor, w, bias compute.Weight, states compute.States, layer int) {
	s.with(func() { s.Step.Convolve(dst, x, w, bias, states, layer) })
}

func (s otherStates) DeltaNet(dst, qkv, gates compute.Tensor, d compute.Delta, states compute.States, layer int) {
	s.with(func() { s.Step.DeltaNet(dst, qkv, gates, d, states, layer) })
}

type regrouped struct{ site }

func (s regrouped) DeltaNet(dst, qkv, gates compute.Tensor, d compute.Delta, states compute.States, layer int) {
	d.Grouped = !d.Grouped
	s.Step.DeltaNet(dst, qkv, gates, d, states, layer)
}

type gateLast struct{ site }

func (s gateLast) GatedNorm(dst, x, gate compute.Tensor, n compute.GatedNorm) {
	n.GateFirst = false
	s.Step.GatedNorm(dst, x, gate, n)
}

func (s unbiased) Convolve(dst, x compute.Tensor, w, _ compute.Weight, states compute.States, layer int) {
	s.Step.Convolve(dst, x, w, nil, states, layer)
}

func (s otherLayer) Convolve(dst, x compute.Tensor, w, bias compute.Weight, states compute.States, _ int) {
	s.Step.Convolve(dst, x, w, bias, states, 0)
}

func (s otherStates) Scan(dst, xbc, dt compute.Tensor, sc compute.Scan, states compute.States, layer int) {
	s.with(func() { s.Step.Scan(dst, xbc, dt, sc, states, layer) })
}

type oneGroup struct{ site }

func (s oneGroup) Scan(dst, xbc, dt compute.Tensor, sc compute.Scan, states compute.States, layer int) {
	shape := states.Shape()
	xbc.Cols = shape.Heads*shape.ValueDim + 2*shape.KeyDim
	sc.Groups = 1
	s.Step.Scan(dst, xbc, dt, sc, states, layer)
}

type otherSkip struct{ site }

func (s otherSkip) Scan(dst, xbc, dt compute.Tensor, sc compute.Scan, states compute.States, layer int) {
	sc.Skip = sc.Bias
	s.Step.Scan(dst, xbc, dt, sc, states, layer)
}

func (s otherLayer) Scan(dst, xbc, dt compute.Tensor, sc compute.Scan, states compute.States, _ int) {
	s.Step.Scan(dst, xbc, dt, sc, states, 0)
}

func (s otherLayer) DeltaNet(dst, qkv, gates compute.Tensor, d compute.Delta, states compute.States, _ int) {
	s.Step.DeltaNet(dst, qkv, gates, d, states, 0)
}

// fromSlot continues what the slot holds instead of a copy of another one.
func fromSlot(st *compute.SeqState) {
	if st.From >= 0 {
		st.From = st.Slot
	}
}

package metal_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/metal"
)

// TestChunksInParts computes prompts whose chunks do not fit into scratch memory at once. A row
// must have the same bits as in steps that are short enough.
func TestChunksInParts(t *testing.T) {
	t.Parallel()
	be := emulated(t, metal.Options{})
	shape := compute.StateShape{Layers: 1, Slots: 3, ConvRows: 1, ConvCols: 1, Heads: 256, KeyDim: 4, ValueDim: 3} // 3 chunks fit
	states, err := be.States(shape)
	require.NoError(t, err)
	vector := func(name string) compute.Weight {
		w, err := be.Weight(gguf.Tensor{Name: name, Type: gguf.TypeF32, Shape: []int{shape.Heads}, Data: make([]byte, 4*shape.Heads)})
		require.NoError(t, err)
		return w
	}
	d := compute.Delta{KeyHeads: 1, Eps: 1e-6, Decay: vector("decay"), Bias: vector("bias")}
	values := shape.Heads * shape.ValueDim
	cols := 2*shape.KeyDim + values + 2*shape.Heads
	const rows = 400
	in, err := be.Buffer(rows, cols)
	require.NoError(t, err)
	out, err := be.Buffer(rows, values)
	require.NoError(t, err)
	prompt, source := make([][]float32, rows), rand.New(rand.NewPCG(1, 2))
	for i := range prompt {
		prompt[i] = make([]float32, cols)
		for j := range prompt[i] {
			prompt[i][j] = float32(source.NormFloat64())
		}
	}
	// compute returns the results of the rows [from, to) of one prompt, in slot 0 if it is alone,
	// after another prompt of one row in slot 1.
	compute := func(alone bool, from, to int) [][]float32 {
		state := compute.SeqState{From: -1, Prompt: to - from}
		if from > 0 {
			state.From = 0
		}
		lines, b := prompt[from:to], &compute.Batch{}
		if !alone {
			b.Seqs, lines = append(b.Seqs, compute.Seq{Rows: 1, State: compute.SeqState{From: -1, Slot: 1, Prompt: 1}}), append(prompt[:1:1], lines...)
		}
		b.Seqs = append(b.Seqs, compute.Seq{Rows: to - from, State: state})
		b.Tokens, b.Positions = make([]int32, len(lines)), make([]int32, len(lines))
		for i, row := range be.Floats(in.Head(len(lines))) {
			copy(row, lines[i])
		}
		step := be.Begin(b)
		step.DeltaNet(out.Head(len(lines)), in.Head(len(lines)).Slice(0, cols-2*shape.Heads), in.Head(len(lines)).Slice(cols-2*shape.Heads, 2*shape.Heads), d, states, 0)
		require.NoError(t, step.Run())
		var results [][]float32
		for _, row := range be.Floats(out.Head(len(lines)))[len(lines)-(to-from):] {
			results = append(results, slices.Clone(row))
		}
		return results
	}
	short := be.Counters().Dispatches
	want := compute(true, 0, 128)
	short = be.Counters().Dispatches - short
	want = append(want, compute(true, 128, 320)...)
	want = append(want, compute(true, 320, rows-2)...)
	long := be.Counters().Dispatches
	require.Equal(t, want, compute(false, 0, rows-2))
	require.Equal(t, 3*short, be.Counters().Dispatches-long, "the step was computed in parts")
	require.NoError(t, be.Close())
}

// TestUnsupportedStates requests states that the kernels do not support.
func TestUnsupportedStates(t *testing.T) {
	t.Parallel()
	be := emulated(t, metal.Options{})
	for _, c := range []struct {
		change func(s *compute.StateShape)
		want   string
	}{
		{func(s *compute.StateShape) { s.KeyDim = 129 }, "keys of 129 values are not supported on GPUs, only up to 128; use --backend cpu"},
		{func(s *compute.StateShape) { s.ConvRows = 9 }, "convolutions of 9 earlier rows are not supported on GPUs, only up to 8; use --backend cpu"},
		{func(s *compute.StateShape) { s.Slots = 1 << 40 }, "both numbers must be below 2³¹"},
	} {
		shape := compute.StateShape{Layers: 1, Slots: 1, ConvRows: 1, ConvCols: 1, Heads: 1, KeyDim: 128, ValueDim: 1}
		c.change(&shape)
		_, err := be.States(shape)
		require.ErrorContains(t, err, c.want)
	}
	require.NoError(t, be.Close())
}

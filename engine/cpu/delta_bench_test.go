package cpu_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/compute/computetest"
	"github.com/ingot-run/ingot/engine/cpu"
	"github.com/ingot-run/ingot/engine/gguf"
)

// BenchmarkDeltaNet runs the operations of a recurrent layer of Qwen3.5-0.8B on one thread: those
// of generated tokens of several sequences, and those of a prompt.
func BenchmarkDeltaNet(b *testing.B) {
	const heads, dim, cols = 16, 128, 3 * 16 * 128
	be, err := cpu.New(1)
	require.NoError(b, err)
	defer func() { require.NoError(b, be.Close()) }()
	r := rand.New(rand.NewPCG(1, 2))
	vector := func(n int, deviation float64) compute.Weight {
		w, err := be.Weight(computetest.RandomTensor(r, "weight", gguf.TypeF32, deviation, n))
		require.NoError(b, err)
		return w
	}
	w, bias, gain := vector(4*cols, 0.3), vector(heads, 0.1), vector(dim, 1)
	d := compute.Delta{KeyHeads: heads, Eps: 1e-6, Decay: vector(heads, 1e-3), Bias: bias}
	states, err := be.States(compute.StateShape{Layers: 1, Slots: 16, ConvRows: 3, ConvCols: cols, Heads: heads, KeyDim: dim, ValueDim: dim})
	require.NoError(b, err)
	for _, c := range []struct{ seqs, rows int }{{1, 1}, {16, 1}, {1, 256}} {
		b.Run(fmt.Sprintf("%d sequences of %d rows", c.seqs, c.rows), func(b *testing.B) {
			n := c.seqs * c.rows
			buffer := func(cols int) compute.Tensor {
				t, err := be.Buffer(n, cols)
				require.NoError(b, err)
				for _, row := range be.Floats(t) {
					for i := range row {
						row[i] = float32(math.Sin(float64(i)))
					}
				}
				return t
			}
			x, qkv, gates, out := buffer(cols), buffer(cols), buffer(2*heads), buffer(heads*dim)
			batch := &compute.Batch{Tokens: make([]int32, n), Positions: make([]int32, n)}
			for i := range c.seqs {
				seq := compute.Seq{Rows: c.rows, State: compute.SeqState{From: i, Slot: i}}
				if c.rows > 1 {
					seq.State.Prompt = c.rows
				}
				batch.Seqs = append(batch.Seqs, seq)
			}
			for b.Loop() {
				s := be.Begin(batch)
				s.Convolve(qkv, x, w, nil, states, 0)
				s.DeltaNet(out, qkv, gates, d, states, 0)
				s.GatedNorm(out, out, x.Slice(0, heads*dim), compute.GatedNorm{Gain: gain, Dims: dim, Eps: 1e-6})
				require.NoError(b, s.Run())
			}
		})
	}
}

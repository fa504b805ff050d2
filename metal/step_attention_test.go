package metal_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/engine/model/modeltest"
	"github.com/ingot-run/ingot/metal"
	"github.com/ingot-run/ingot/metal/emulator"
)

// TestDecodingWithPrompts runs steps with decoding rows and a prompt. The keys of the decoding rows
// before the prompt must be split, and every row must have the same bits as in a separate step.
func TestDecodingWithPrompts(t *testing.T) {
	t.Parallel()
	be := open(t, metal.Options{}, emulator.Options{Seed: 5})
	defer func() { require.NoError(t, be.Close()) }()
	o := &operations{t, be, rand.New(rand.NewPCG(1, 2))}
	const heads, dim, positions = 4, 32, 512
	shape := compute.AttentionShape{Heads: heads, KVHeads: 2, KeyDim: dim, ValueDim: dim, Scale: 0.2}
	cache, err := be.Cache(compute.CacheShape{Layers: 1, Pages: modeltest.Limits.Pages, PageSize: modeltest.Limits.PageSize, KeyCols: 2 * dim, ValueCols: 2 * dim, Type: gguf.TypeF16})
	require.NoError(t, err)
	rope, err := be.Rope(compute.RopeFreqs{Freqs: []float32{0.3}, Scale: 1}, positions)
	require.NoError(t, err)
	qkv := o.values(positions, (heads+4)*dim)
	o.bits(o.buffer(positions, 1), 0, func(s compute.Step) { s.RopeStore(qkv, compute.Projection{}, shape, rope, cache, 0) })

	table := modeltest.Batch([]int32{0}, 0).Seqs[0].Pages                   // page table of the stored positions, which all sequences share
	sequences := [][2]int{{1, 400}, {3, 500}, {12, 300}, {1, 511}, {9, 40}} // number of rows, position of the last row
	all := &compute.Batch{}
	for _, s := range sequences {
		all.Seqs = append(all.Seqs, compute.Seq{Rows: s[0], Pages: table})
		for i := range s[0] {
			all.Tokens, all.Positions = append(all.Tokens, 0), append(all.Positions, int32(s[1]-s[0]+1+i))
		}
	}
	rows := len(all.Tokens)
	dst, alone := o.buffer(rows, heads*dim), o.buffer(rows, heads*dim)
	for split, want := range map[bool]int{true: 3, false: 2} { // number of dispatches: tiles, decoding rows and, if split, the join
		for _, row := range be.Floats(dst) {
			clear(row)
		}
		if !split {
			require.NoError(t, be.Use(metal.Geometry{{Kernel: metal.Attention, From: 1 << 20}}))
		}
		before := be.Counters().Dispatches
		s := be.Begin(all)
		s.Attention(dst, qkv.Head(rows), shape, cache, 0)
		require.NoError(t, s.Run())
		require.Equal(t, want, be.Counters().Dispatches-before)
		require.NoError(t, be.Use(nil))
		for r := range rows {
			one := &compute.Batch{Tokens: []int32{0}, Positions: all.Positions[r : r+1], Seqs: []compute.Seq{{Rows: 1, Pages: table}}}
			q, to := qkv.Head(1), alone.Head(1)
			q.Offset, to.Offset = r*q.Stride, r*to.Stride
			s := be.Begin(one)
			s.Attention(to, q, shape, cache, 0)
			require.NoError(t, s.Run())
		}
		require.Equal(t, be.Floats(alone), be.Floats(dst))
	}
}

// TestScratchInParts checks that operations have the same bits if they are done in parts because
// scratch memory is small.
func TestScratchInParts(t *testing.T) {
	t.Parallel()
	be := open(t, metal.Options{Geometry: tilesFrom(2)}, emulator.Options{})
	defer func() { require.NoError(t, be.Close()) }()
	o := &operations{t, be, rand.New(rand.NewPCG(1, 2))}
	const in, ffn, used, experts, rows = 32, 2048, 20, 24, 700
	e := compute.Experts{
		Gate: o.weight(gguf.TypeF16, in, 64, experts), Up: o.weight(gguf.TypeF16, in, 64, experts),
		Down: o.weight(gguf.TypeF16, 64, in, experts),
	}
	gate, up := o.weight(gguf.TypeF16, in, ffn), o.weight(gguf.TypeF32, in, ffn)
	x, routing, h := o.values(rows, in), o.buffer(rows, 2*used), o.buffer(rows, used*64)
	out, gated := o.buffer(rows, in), o.buffer(rows, ffn)
	router := o.weight(gguf.TypeF32, in, experts)
	all := func(s compute.Step, first, n int) {
		view := func(t compute.Tensor) compute.Tensor {
			t.Offset += first * t.Stride
			return t.Head(n)
		}
		s.Route(view(routing), view(x), router, nil, compute.RouteShape{Experts: experts, Used: used, Gating: compute.GatingSigmoid, Scale: 1})
		s.GatedExperts(view(h), view(x), view(routing), e)
		s.ExpertsAdd(view(out), view(h), view(routing), e)
		s.GatedMatMul(view(gated), view(x), gate, up, compute.SiLU)
	}
	run := func(part int) (values []float32) {
		for first := 0; first < rows; first += part {
			n := min(part, rows-first)
			o.bits(o.buffer(n, 1), 0, func(s compute.Step) { all(s, first, n) })
		}
		for _, t := range []compute.Tensor{out, gated} {
			for _, row := range be.Floats(t) {
				values = append(values, row...)
				clear(row)
			}
		}
		return values
	}
	require.Equal(t, run(50), run(rows))
}

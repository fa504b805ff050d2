package computetest

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
)

// TestTilesAreChecks checks that every name in a list of checks is the name of one.
func TestTilesAreChecks(t *testing.T) {
	t.Parallel()
	for _, name := range Tiles {
		require.True(t, slices.ContainsFunc(checks, func(c check) bool { return c.name == name }), name)
	}
}

// TestAllowsCoarserArithmetic runs the suite on a backend that rounds as much as the suite allows.
// It rounds activations to float16 for products with all weights except F32.
func TestAllowsCoarserArithmetic(t *testing.T) {
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			require.NoError(t, verdict(t, c.name, func(s site) compute.Step {
				return rounding{s, toFloat16}
			}))
		})
	}
}

// rounding rounds the rows that weights multiply, the queries, and the stored keys and values.
type rounding struct {
	site
	round func(x []float32, t gguf.Type)
}

// with runs an operation while x is rounded.
func (s rounding) with(x compute.Tensor, t gguf.Type, op func()) {
	rows := s.be.Floats(x)
	var before [][]float32
	for _, row := range rows {
		before = append(before, slices.Clone(row))
		s.round(row, t)
	}
	op()
	for i, row := range rows {
		copy(row, before[i])
	}
}

func (s rounding) MatMul(dst, x compute.Tensor, w ...compute.Weight) {
	for _, w := range w {
		part := dst.Slice(0, w.Shape()[1])
		s.with(x, w.Type(), func() { s.Step.MatMul(part, x, w) })
		dst = dst.Slice(w.Shape()[1], dst.Cols-w.Shape()[1])
	}
}

func (s rounding) MatMulAdd(dst, x compute.Tensor, w compute.Weight) {
	s.with(x, w.Type(), func() { s.Step.MatMulAdd(dst, x, w) })
}

func (s rounding) GatedMatMul(dst, x compute.Tensor, gate, up compute.Weight, act compute.Activation) {
	s.with(x, gate.Type(), func() { s.Step.GatedMatMul(dst, x, gate, up, act) })
}

func (s rounding) Expand(dst, ctx compute.Tensor, vb compute.Weight) {
	s.with(ctx, vb.Type(), func() { s.Step.Expand(dst, ctx, vb) })
}

func (s rounding) Attention(dst, q compute.Tensor, shape compute.AttentionShape, cache compute.Cache, layer int) {
	s.with(q, gguf.TypeF16, func() { s.Step.Attention(dst, q, shape, cache, layer) })
}

// RopeStore stores its result again, rounded, with a rotation by zero and without biases and norms,
// which the result has already.
func (s rounding) RopeStore(qkv compute.Tensor, p compute.Projection, shape compute.AttentionShape, rope compute.Rope, cache compute.Cache, layer int) {
	s.Step.RopeStore(qkv, p, shape, rope, cache, layer)
	still, err := s.be.Rope(compute.RopeFreqs{Freqs: []float32{0}, Scale: 1}, cache.Shape().Pages*cache.Shape().PageSize)
	if err != nil {
		panic(err)
	}
	s.with(qkv, gguf.TypeF16, func() { s.Step.RopeStore(qkv, compute.Projection{}, shape, still, cache, layer) })
}

func (s rounding) GatedExperts(dst, x, routing compute.Tensor, e compute.Experts) {
	chosen := routing.Cols / 2 * e.Gate.Shape()[1]
	if gate, up := e.SharedGate, e.SharedUp; gate != nil {
		t := gate.Type()
		if t != up.Type() {
			t = gguf.TypeF32 // round only if both weights allow it
		}
		s.with(x, t, func() { s.Step.GatedMatMul(dst.Slice(chosen, gate.Shape()[1]), x, gate, up, e.Activation) })
	}
	s.with(x, e.Gate.Type(), func() { s.Step.GatedExperts(dst.Slice(0, chosen), x, routing, chosenAlone(e)) })
}

func (s rounding) ExpertsAdd(dst, h, routing compute.Tensor, e compute.Experts) {
	chosen := routing.Cols / 2 * e.Down.Shape()[0]
	s.with(h, e.Down.Type(), func() { s.Step.ExpertsAdd(dst, h.Slice(0, chosen), routing, chosenAlone(e)) })
	if down := e.SharedDown; down != nil {
		s.MatMulAdd(dst, h.Slice(chosen, down.Shape()[0]), down)
	}
}

func chosenAlone(e compute.Experts) compute.Experts {
	e.SharedGate, e.SharedUp, e.SharedDown = nil, nil, nil
	return e
}

func toFloat16(x []float32, t gguf.Type) {
	if t == gguf.TypeF32 {
		return
	}
	for i, v := range x {
		x[i] = gguf.F16ToF32(gguf.F32ToF16(v))
	}
}

// eightBits rounds activations for weights of blocks to 8 bits in runs of 32.
func eightBits(x []float32, t gguf.Type) {
	if t.BlockSize() == 1 {
		toFloat16(x, t)
		return
	}
	for run := range slices.Chunk(x, 32) {
		largest := 0.0
		for _, v := range run {
			largest = max(largest, math.Abs(float64(v)))
		}
		if step := largest / 127; step > 0 {
			for i, v := range run {
				run[i] = float32(math.Round(float64(v)/step) * step)
			}
		}
	}
}

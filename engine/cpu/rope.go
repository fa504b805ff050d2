package cpu

import (
	"fmt"
	"math"

	"github.com/ingot-run/ingot/engine/compute"
)

// rope is a table of cosines and sines, [positions][dims]: cos and sin of pair i at 2i and 2i+1.
type rope struct {
	dims  int
	table []float32
}

// Dims implements compute.Rope.
func (r *rope) Dims() int { return r.dims }

// at returns the table's row of a position.
func (r *rope) at(position int32) []float32 {
	return r.table[int(position)*r.dims : (int(position)+1)*r.dims]
}

// Rope implements compute.Backend.
func (b *Backend) Rope(f compute.RopeFreqs, positions int) (compute.Rope, error) {
	if positions < 1 || len(f.Freqs) == 0 {
		return nil, fmt.Errorf("make a RoPE table of %d frequencies and %d positions: both must be at least 1", len(f.Freqs), positions)
	}
	r := &rope{dims: 2 * len(f.Freqs), table: make([]float32, 2*len(f.Freqs)*positions)}
	for p := range positions {
		at := r.at(int32(p))
		for i, freq := range f.Freqs {
			// The angle is rounded to float32, as in the reference implementations.
			sin, cos := math.Sincos(float64(float32(p) * freq))
			at[2*i], at[2*i+1] = float32(cos)*f.Scale, float32(sin)*f.Scale
		}
	}
	return r, nil
}

// rotate turns the leading pairs of heads of src by a row of a RoPE table; dst may be src. Heads stand the given strides
// apart.
func (b *Backend) rotate(thread int, dst, src, angles []float32, heads, dstStride, srcStride int) {
	a := &b.scratch[thread].rotate
	a.Dst, a.Src, a.Angles, a.N = &dst[0], &src[0], &angles[0], int64(len(angles))
	a.Heads, a.DstStride, a.SrcStride = int64(heads), int64(dstStride), int64(srcStride)
	b.kernels.Rotate(a)
}

// norm writes src/sqrt(mean(src²)+eps)·gain to dst, which may be src.
func (b *Backend) norm(thread int, dst, src, gain []float32, eps float32) {
	a := &b.scratch[thread].norm
	a.Dst, a.Src, a.Gain, a.N, a.Eps = &dst[0], &src[0], &gain[0], int64(len(gain)), float64(eps)
	b.kernels.RMSNorm(a)
}

package cpu

import (
	"github.com/ingot-run/ingot/engine/compute"
)

// rope is a table [positions][dims] of cosines and sines. Pair i has its cosine at 2i and its sine at 2i+1.
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
	table, err := f.Table(positions)
	if err != nil {
		return nil, err
	}
	return &rope{dims: 2 * len(f.Freqs), table: table}, nil
}

// rotate rotates the leading pairs of the heads of src by a row of a RoPE table. dst may be src. The strides are the
// distances between heads.
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

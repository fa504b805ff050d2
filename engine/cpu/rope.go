package cpu

import "github.com/ingot-run/ingot/engine/compute"

// rope is a table [positions][dims] of cosines and sines. Pair i has its cosine at 2i and its sine
// at 2i+1. If halves is set, a pair is a value in the first half of a head and one in the second
// half, and a row of the table has all cosines, then all sines.
type rope struct {
	dims   int
	halves bool
	table  []float32
}

func (r *rope) Dims() int { return r.dims }

func (r *rope) at(position int32) []float32 {
	return r.table[int(position)*r.dims : (int(position)+1)*r.dims]
}

// Rope implements compute.Backend.
func (b *Backend) Rope(f compute.RopeFreqs, positions int) (compute.Rope, error) {
	table, err := f.Table(positions)
	if err != nil {
		return nil, err
	}
	r := &rope{dims: 2 * len(f.Freqs), halves: f.Halves, table: table}
	if r.halves {
		line := make([]float32, r.dims)
		for p := range positions {
			angles := r.at(int32(p))
			copy(line, angles)
			for i := range f.Freqs {
				angles[i], angles[len(f.Freqs)+i] = line[2*i], line[2*i+1]
			}
		}
	}
	return r, nil
}

// rotate applies RoPE to the first values of each head of src, and writes them to dst, which may be
// src.
func (b *Backend) rotate(thread int, dst, src []float32, r *rope, position int32, heads, dstStride, srcStride int) {
	a, angles := &b.scratch[thread].rotate, r.at(position)
	a.Halves = 0
	if r.halves {
		a.Halves = 1
	}
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

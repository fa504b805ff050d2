package metal

import "github.com/ingot-run/ingot/engine/compute"

type embedArgs struct {
	cols, rowBytes, tokenStride, dstStride uint32
}

// Embed implements compute.Step.
func (s *step) Embed(dst compute.Tensor, table compute.Weight) {
	w := table.(*weight)
	if w.integer != nil {
		s.integerEmbed(dst, w, s.tokens, s.tokenStep)
		return
	}
	chunks := (w.in + 15) / 16
	a := embedArgs{uint32(w.in), uint32(w.rowBytes), uint32(s.tokenStep), uint32(dst.Stride)}
	record(s, "embed", w.kernels.embed, grid{x: (chunks + embedThreads - 1) / embedThreads, y: dst.Rows, simdgroups: embedThreads / 32}, &a,
		Binding{Buffer: w.buffer}, s.tokens, at(dst))
}

type gatherArgs struct {
	cols, srcStride, dstStride uint32
}

// Gather implements compute.Step.
func (s *step) Gather(dst, src compute.Tensor, rows []int32) {
	list, ints := s.take(len(rows))
	copy(ints, rows)
	a := gatherArgs{uint32(dst.Cols), uint32(src.Stride), uint32(dst.Stride)}
	record(s, "gather", s.kernels.gather, grid{x: (dst.Cols + copyThreads - 1) / copyThreads, y: dst.Rows, simdgroups: copyThreads / 32}, &a,
		at(src), list, at(dst))
}

// normGroups returns the number of simdgroups that normalise a row of cols values.
func normGroups(cols int) int { return min(max((cols+127)/128, 1), maxNormGroups) }

type normArgs struct {
	cols, srcStride, dstStride uint32
	eps                        float32
	add                        uint32 // always 0 for native kernels
}

// RMSNorm implements compute.Step.
func (s *step) RMSNorm(dst, src compute.Tensor, gain compute.Weight, eps float32) {
	w := gain.(*weight)
	a := normArgs{uint32(w.in), uint32(src.Stride), uint32(dst.Stride), eps, 0}
	if s.normQuantises(w.in) {
		s.integerNorm(dst, src, w, &a)
		return
	}
	s.norm(dst, src, w, &a)
}

// RMSNormAdd implements compute.Step.
func (s *step) RMSNormAdd(dst, src compute.Tensor, gain compute.Weight, eps float32) {
	w := gain.(*weight)
	s.norm(dst, src, w, &normArgs{uint32(w.in), uint32(src.Stride), uint32(dst.Stride), eps, 1})
}

// norm records the portable kernel of RMSNorm.
func (s *step) norm(dst, src compute.Tensor, w *weight, a *normArgs) {
	groups := normGroups(w.in)
	record(s, "rms_norm", s.kernels.norm, grid{x: dst.Rows, y: 1, simdgroups: groups, shared: 4 * groups}, a,
		at(src), Binding{Buffer: w.buffer}, at(dst))
}

type affineArgs struct {
	cols, stride, biased uint32
	scale                float32
}

// Affine implements compute.Step.
func (s *step) Affine(t compute.Tensor, scale float32, bias compute.Weight) {
	a := affineArgs{uint32(t.Cols), uint32(t.Stride), flag(bias != nil), scale}
	record(s, "affine", s.kernels.affine, grid{x: (t.Cols + copyThreads - 1) / copyThreads, y: t.Rows, simdgroups: copyThreads / 32}, &a,
		at(t), bind(bias, at(t)))
}

type topArgs struct {
	cols, k, srcStride, dstStride uint32
}

// Top implements compute.Step.
func (s *step) Top(dst, logits compute.Tensor, k int) {
	if k == 1 && s.nativeTop(dst, logits) {
		return
	}
	a := topArgs{uint32(logits.Cols), uint32(k), uint32(logits.Stride), uint32(dst.Stride)}
	groups := min(max((logits.Cols+127)/128, 1), topGroups)
	record(s, "top", s.kernels.top, grid{x: dst.Rows, y: 1, simdgroups: groups, shared: 8 * groups}, &a, at(logits), at(dst))
}

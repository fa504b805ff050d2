package metal

import "github.com/ingot-run/ingot/engine/compute"

type embedArgs struct {
	cols, rowBytes, tokenStride, dstStride uint32
}

func (p *portable) Embed(dst compute.Tensor, table compute.Weight) {
	w := table.(*weight)
	chunks := (w.in + 15) / 16
	a := embedArgs{uint32(w.in), uint32(w.rowBytes), uint32(p.tokenStep), uint32(dst.Stride)}
	record(p.step, "embed", w.kernels.embed, grid{x: (chunks + embedThreads - 1) / embedThreads, y: dst.Rows, simdgroups: embedThreads / 32}, &a,
		Binding{Buffer: w.buffer}, p.tokens, at(dst))
}

type gatherArgs struct {
	cols, srcStride, dstStride uint32
}

func (p *portable) Gather(dst, src compute.Tensor, rows []int32) {
	list, ints := p.take(len(rows))
	copy(ints, rows)
	a := gatherArgs{uint32(dst.Cols), uint32(src.Stride), uint32(dst.Stride)}
	record(p.step, "gather", p.kernels.gather, grid{x: (dst.Cols + copyThreads - 1) / copyThreads, y: dst.Rows, simdgroups: copyThreads / 32}, &a,
		at(src), list, at(dst))
}

func normGroups(cols int) int { return min(max((cols+127)/128, 1), maxNormGroups) }

type normArgs struct {
	cols, srcStride, dstStride uint32
	eps                        float32
	add                        uint32 // 1 to add the result to dst; always 0 for NVIDIA's kernel
}

func (p *portable) RMSNorm(dst, src compute.Tensor, gain compute.Weight, eps float32) {
	p.norm(dst, src, gain.(*weight), eps, false)
}

func (p *portable) RMSNormAdd(dst, src compute.Tensor, gain compute.Weight, eps float32) {
	p.norm(dst, src, gain.(*weight), eps, true)
}

func (p *portable) norm(dst, src compute.Tensor, w *weight, eps float32, add bool) {
	groups := normGroups(w.in)
	a := normArgs{uint32(w.in), uint32(src.Stride), uint32(dst.Stride), eps, flag(add)}
	record(p.step, "rms_norm", p.kernels.norm, grid{x: dst.Rows, y: 1, simdgroups: groups, shared: 4 * groups}, &a,
		at(src), Binding{Buffer: w.buffer}, at(dst))
}

type affineArgs struct {
	cols, stride, biased uint32
	scale                float32
}

func (p *portable) Affine(t compute.Tensor, scale float32, bias compute.Weight) {
	a := affineArgs{uint32(t.Cols), uint32(t.Stride), flag(bias != nil), scale}
	record(p.step, "affine", p.kernels.affine, grid{x: (t.Cols + copyThreads - 1) / copyThreads, y: t.Rows, simdgroups: copyThreads / 32}, &a,
		at(t), bind(bias, at(t)))
}

type topArgs struct {
	cols, k, srcStride, dstStride uint32
}

func (p *portable) Top(dst, logits compute.Tensor, k int) {
	a := topArgs{uint32(logits.Cols), uint32(k), uint32(logits.Stride), uint32(dst.Stride)}
	groups := min(max((logits.Cols+127)/128, 1), topThreads/32)
	record(p.step, "top", p.kernels.top, grid{x: dst.Rows, y: 1, simdgroups: groups, shared: 8 * groups}, &a, at(logits), at(dst))
}

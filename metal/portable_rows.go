package metal

type embedArgs struct {
	cols, rowBytes, tokenStride, dstStride uint32
}

func (o *embedding) portable(p *portable) {
	w := o.table.(*weight)
	chunks := (w.in + 15) / 16
	a := embedArgs{cols: uint32(w.in), rowBytes: uint32(w.rowBytes), tokenStride: uint32(p.tokenStep), dstStride: uint32(o.dst.Stride)}
	record(p.step, "embed", w.kernels.embed, grid{x: (chunks + embedThreads - 1) / embedThreads, y: o.dst.Rows, simdgroups: embedThreads / 32}, &a,
		Binding{Buffer: w.buffer}, p.tokens, into(o.dst))
}

// byColumn returns the grid of a kernel with a thread per column.
func byColumn(cols, rows int) grid {
	return grid{x: (cols + copyThreads - 1) / copyThreads, y: rows, simdgroups: copyThreads / 32}
}

type gatherArgs struct {
	cols, srcStride, dstStride uint32
}

func (o *gather) portable(p *portable) {
	list, ints := p.take(len(o.rows))
	copy(ints, o.rows)
	a := gatherArgs{cols: uint32(o.dst.Cols), srcStride: uint32(o.src.Stride), dstStride: uint32(o.dst.Stride)}
	record(p.step, "gather", p.kernels.gather, byColumn(o.dst.Cols, o.dst.Rows), &a, at(o.src), list, into(o.dst))
}

func normGroups(cols int) int { return min(max((cols+127)/128, 1), maxNormGroups) }

type normArgs struct {
	cols, srcStride, dstStride uint32
	eps                        float32
	add                        uint32 // 1 to add the result to dst; always 0 for NVIDIA's kernel
}

func (o *norm) args() normArgs {
	return normArgs{cols: uint32(weightOf(o.gain).in), srcStride: uint32(o.src.Stride), dstStride: uint32(o.dst.Stride), eps: o.eps, add: flag(o.add)}
}

func (o *norm) portable(p *portable) {
	a := o.args()
	groups := normGroups(int(a.cols))
	record(p.step, "rms_norm", p.kernels.norm, grid{x: o.dst.Rows, y: 1, simdgroups: groups, shared: 4 * groups}, &a,
		at(o.src), bind(o.gain, Binding{}), into(o.dst))
}

type affineArgs struct {
	cols, stride, biased uint32
	scale                float32
}

func (o *affine) portable(p *portable) {
	a := affineArgs{cols: uint32(o.t.Cols), stride: uint32(o.t.Stride), biased: flag(o.bias != nil), scale: o.scale}
	record(p.step, "affine", p.kernels.affine, byColumn(o.t.Cols, o.t.Rows), &a, into(o.t), bind(o.bias, at(o.t)))
}

type gatingArgs struct {
	cols, gates, gateStride, stride uint32
}

func (o *gating) portable(p *portable) {
	a := gatingArgs{cols: uint32(o.dst.Cols), gates: uint32(o.gate.Cols), gateStride: uint32(o.gate.Stride), stride: uint32(o.dst.Stride)}
	record(p.step, "sigmoid_gate", p.kernels.sigmoidGate, byColumn(o.dst.Cols, o.dst.Rows), &a, at(o.gate), into(o.dst))
}

type softCapArgs struct {
	cols, stride uint32
	limit        float32
}

func (o *softCap) portable(p *portable) {
	a := softCapArgs{cols: uint32(o.t.Cols), stride: uint32(o.t.Stride), limit: o.limit}
	record(p.step, "soft_cap", p.kernels.softCap, byColumn((o.t.Cols+cappedValues-1)/cappedValues, o.t.Rows), &a, into(o.t))
}

type topArgs struct {
	cols, k, srcStride, dstStride uint32
}

func (o *top) portable(p *portable) {
	const groups, partInts = topThreads / 32, 3 // simdgroups; values of four bytes of a TopPart (sample.metal)
	a := topArgs{cols: uint32(o.logits.Cols), k: uint32(o.k), srcStride: uint32(o.logits.Stride), dstStride: uint32(o.dst.Stride)}
	p.inParts(o.dst.Rows, partInts*topParts, func(from, to int) {
		src := at(o.logits.Span(from, to))
		record(p.step, "top", p.kernels.topParts, grid{x: topParts, y: to - from, simdgroups: groups, shared: 8 * groups}, &a, src, p.scratch.write())
		join := grid{x: to - from, y: 1, simdgroups: 1, shared: 8}
		if o.k > 1 {
			join.simdgroups, join.shared = groups, 8*groups
		}
		record(p.step, "top", p.kernels.topJoin, join, &a, src, p.scratch.read(), into(o.dst.Span(from, to)))
	})
}

package metal

import (
	"github.com/ingot-run/ingot/engine/compute"
)

// MatMul implements compute.Step. Up to three consecutive weights of one type share a dispatch.
func (s *step) MatMul(dst, x compute.Tensor, ws ...compute.Weight) {
	if s.integer.shared != nil {
		s.integerMatMul(dst, x, ws)
		return
	}
	s.matMul(dst, x, ws)
}

// matMul is MatMul with the portable kernels.
func (s *step) matMul(dst, x compute.Tensor, ws []compute.Weight) {
	s.flush()
	concurrent := false
	if dst.Rows >= ws[0].(*weight).kernels.productTile.from {
		for _, w := range ws {
			out := w.(*weight).out
			s.productTile("product", dst.Slice(0, out), x, w.(*weight), tileArgs{}, concurrent)
			dst, concurrent = dst.Slice(out, dst.Cols-out), true
		}
		return
	}
	for len(ws) > 0 {
		n, cols := 1, ws[0].(*weight).out
		for n < min(len(ws), 3) && ws[n].Type() == ws[0].Type() {
			cols += ws[n].(*weight).out
			n++
		}
		s.product("product", dst.Slice(0, cols), x, ws[:n], concurrent, false)
		dst, ws, concurrent = dst.Slice(cols, dst.Cols-cols), ws[n:], true
	}
}

// MatMulAdd implements compute.Step.
func (s *step) MatMulAdd(dst, x compute.Tensor, w compute.Weight) {
	if w.(*weight).integer != nil {
		s.integerProduct("product_add", dst, x, []compute.Weight{w}, true)
		return
	}
	s.flush()
	if dst.Rows >= w.(*weight).kernels.productTile.from {
		s.productTile("product_add", dst, x, w.(*weight), tileArgs{add: 1}, false)
		return
	}
	s.product("product_add", dst, x, []compute.Weight{w}, false, true)
}

type productArgs struct {
	n, rowBytes, rows  uint32
	xStride, dstStride uint32
	xMatrix, dstMatrix uint32
	add                uint32
	out                [3]uint32
	groups0, groups1   uint32
}

// bindProducts returns the bindings of up to three weights that share a dispatch. For each weight, it also returns the number of rows, and
// the number of threadgroups, which groupsOf computes from the rows. If there are fewer than three weights, the other bindings repeat the
// first one.
func bindProducts(ws []compute.Weight, groupsOf func(rows int) int) (bound [3]Binding, out [3]uint32, groups [3]int) {
	for i := range bound {
		bound[i] = bind(ws[0], Binding{})
		if i < len(ws) {
			w := ws[i].(*weight)
			bound[i].Buffer, out[i], groups[i] = w.buffer, uint32(w.out), groupsOf(w.out)
		}
	}
	return bound, out, groups
}

// product records the product of up to three weights of one type.
func (s *step) product(name string, dst, x compute.Tensor, ws []compute.Weight, concurrent, add bool) {
	first := ws[0].(*weight)
	k := forRows(first.kernels.product, dst.Rows)
	a := productArgs{
		n: uint32(first.in), rowBytes: uint32(first.rowBytes), rows: uint32(dst.Rows),
		xStride: uint32(x.Stride), dstStride: uint32(dst.Stride), add: flag(add),
	}
	bound, out, groups := bindProducts(ws, k.groups)
	a.out = out
	a.groups0, a.groups1 = uint32(groups[0]), uint32(groups[1])
	g := grid{x: groups[0] + groups[1] + groups[2], y: (dst.Rows + k.inputs - 1) / k.inputs, simdgroups: k.simdgroups, concurrent: concurrent}
	record(s, name, k.pipeline, g, &a, bound[0], bound[1], bound[2], at(x), at(dst))
}

type tileArgs struct {
	n, rowBytes, out, rows, xStride, dstStride, xMatrix, dstMatrix, add, activation uint32
}

// productTile records the product of a weight with many rows of activations. In the argument struct, productTile sets the sizes, and the
// caller sets the fields that depend on the operation.
func (s *step) productTile(name string, dst, x compute.Tensor, w *weight, a tileArgs, concurrent bool) {
	a.n, a.rowBytes, a.out, a.rows = uint32(w.in), uint32(w.rowBytes), uint32(w.out), uint32(dst.Rows)
	a.xStride, a.dstStride = uint32(x.Stride), uint32(dst.Stride)
	k := w.kernels.productTile
	g := k.grid(w.out, k.rows, dst.Rows)
	g.z, g.concurrent = w.matrices, concurrent
	record(s, name, k.pipeline, g, &a, Binding{Buffer: w.buffer}, at(x), at(dst))
}

// gatedTile records a gated product with many rows of activations.
func (s *step) gatedTile(dst, x compute.Tensor, gate, up compute.Weight, act compute.Activation, concurrent bool) {
	w := gate.(*weight)
	a := tileArgs{
		n: uint32(w.in), rowBytes: uint32(w.rowBytes), out: uint32(w.out), rows: uint32(dst.Rows),
		xStride: uint32(x.Stride), dstStride: uint32(dst.Stride), activation: uint32(act),
	}
	k := w.kernels.gatedTile
	g := k.grid(w.out, k.rows/2, dst.Rows)
	g.concurrent = concurrent
	record(s, "gated_product", k.pipeline, g, &a, bind(gate, Binding{}), bind(up, Binding{}), at(x), at(dst))
}

type gatedArgs struct {
	n, rowBytes, rows, xStride, dstStride, out, activation uint32
}

// GatedMatMul implements compute.Step.
func (s *step) GatedMatMul(dst, x compute.Tensor, gate, up compute.Weight, act compute.Activation) {
	s.flush()
	w := gate.(*weight)
	if gate.Type() != up.Type() || w.integer != nil && act != compute.SiLU {
		s.gateSeparately(dst, x, gate, up, act)
		return
	}
	if w.integer != nil {
		s.integerGated(dst, x, w, up.(*weight))
		return
	}
	if dst.Rows >= w.kernels.gatedTile.from {
		s.gatedTile(dst, x, gate, up, act, false)
		return
	}
	k := forRows(w.kernels.gated, dst.Rows)
	a := gatedArgs{uint32(w.in), uint32(w.rowBytes), uint32(dst.Rows), uint32(x.Stride), uint32(dst.Stride), uint32(w.out), uint32(act)}
	record(s, "gated_product", k.pipeline, grid{x: k.groups(w.out), y: (dst.Rows + k.inputs - 1) / k.inputs, simdgroups: k.simdgroups}, &a,
		bind(gate, Binding{}), bind(up, Binding{}), at(x), at(dst))
}

type gateArgs struct {
	cols, stride, dstStride, activation uint32
}

// gateSeparately is GatedMatMul for weights of two types, and for activations that no product kernel supports. It writes both products to
// scratch memory first.
func (s *step) gateSeparately(dst, x compute.Tensor, gate, up compute.Weight, act compute.Activation) {
	out := gate.(*weight).out
	s.inParts(dst.Rows, 2*out, func(first, n int) {
		both := compute.Tensor{Buffer: &s.scratch.memory, Rows: n, Cols: 2 * out, Stride: 2 * out}
		s.MatMul(both, rowsFrom(x, first, n), gate, up)
		a := gateArgs{uint32(out), uint32(both.Stride), uint32(dst.Stride), uint32(act)}
		record(s, "gate", s.kernels.gate, grid{x: (out + copyThreads - 1) / copyThreads, y: n, simdgroups: copyThreads / 32}, &a,
			at(both), at(rowsFrom(dst, first, n)))
	})
}

// Expand implements compute.Step.
func (s *step) Expand(dst, ctx compute.Tensor, vb compute.Weight) {
	w := vb.(*weight)
	if w.integer != nil {
		s.integerMatrices("expand", dst, ctx, w, w.in, w.out)
		return
	}
	s.flush()
	if dst.Rows >= w.kernels.productTile.from {
		s.productTile("expand", dst, ctx, w, tileArgs{xMatrix: uint32(w.in), dstMatrix: uint32(w.out)}, false)
		return
	}
	k := forRows(w.kernels.product, dst.Rows)
	a := productArgs{
		n: uint32(w.in), rowBytes: uint32(w.rowBytes), rows: uint32(dst.Rows), xStride: uint32(ctx.Stride), dstStride: uint32(dst.Stride),
		xMatrix: uint32(w.in), dstMatrix: uint32(w.out), out: [3]uint32{uint32(w.out)}, groups0: uint32(k.groups(w.out)),
	}
	b := Binding{Buffer: w.buffer}
	record(s, "expand", k.pipeline, grid{x: k.groups(w.out), y: (dst.Rows + k.inputs - 1) / k.inputs, z: w.matrices, simdgroups: k.simdgroups}, &a,
		b, b, b, at(ctx), at(dst))
}

type absorbArgs struct {
	nope, latent, dims, rowBytes, rows, qStride, dstStride, groups uint32
}

// Absorb implements compute.Step.
func (s *step) Absorb(dst, q compute.Tensor, kb compute.Weight, table compute.Rope) {
	s.flush()
	w, r := kb.(*weight), table.(*rope)
	if w.integer != nil {
		s.integerAbsorb(dst, q, w, r)
		return
	}
	k := forRows(w.kernels.absorb, dst.Rows)
	groups, tiles := k.groups(w.out), dst.Rows >= w.kernels.productTile.from
	if tiles { // the tiled kernel only multiplies; the kernel below rotates
		s.productTile("absorb", dst, q, w, tileArgs{xMatrix: uint32(w.in + r.dims), dstMatrix: uint32(w.out + r.dims)}, false)
		groups = 0
	}
	a := absorbArgs{
		nope: uint32(w.in), latent: uint32(w.out), dims: uint32(r.dims), rowBytes: uint32(w.rowBytes), rows: uint32(dst.Rows),
		qStride: uint32(q.Stride), dstStride: uint32(dst.Stride), groups: uint32(groups),
	}
	record(s, "absorb", k.pipeline, grid{x: groups + 1, y: (dst.Rows + k.inputs - 1) / k.inputs, z: w.matrices, simdgroups: k.simdgroups, concurrent: tiles}, &a,
		Binding{Buffer: w.buffer}, at(q), Binding{Buffer: r.buffer}, s.slotMapping, at(dst))
}

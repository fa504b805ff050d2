package metal

import (
	"github.com/ingot-run/ingot/engine/compute"
)

// MatMul implements compute.Step. Up to three consecutive weights of one type share a dispatch.
func (p *portable) MatMul(dst, x compute.Tensor, ws ...compute.Weight) {
	concurrent := false
	if dst.Rows >= ws[0].(*weight).kernels.productTile.from {
		for _, w := range ws {
			out := w.(*weight).out
			p.productTile("product", dst.Slice(0, out), x, w.(*weight), tileArgs{}, concurrent)
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
		p.product("product", dst.Slice(0, cols), x, ws[:n], concurrent, false)
		dst, ws, concurrent = dst.Slice(cols, dst.Cols-cols), ws[n:], true
	}
}

func (p *portable) MatMulAdd(dst, x compute.Tensor, w compute.Weight) {
	if dst.Rows >= w.(*weight).kernels.productTile.from {
		p.productTile("product_add", dst, x, w.(*weight), tileArgs{add: 1}, false)
		return
	}
	p.product("product_add", dst, x, []compute.Weight{w}, false, true)
}

type productArgs struct {
	n, rowBytes, rows  uint32
	xStride, dstStride uint32
	xMatrix, dstMatrix uint32
	add                uint32
	out                [3]uint32
	groups0, groups1   uint32
}

// bindProducts returns the bindings of up to three weights that share a dispatch. For each weight,
// it also returns the number of rows, and the number of threadgroups, which groupsOf computes from
// the rows. If there are fewer than three weights, the other bindings repeat the first one.
func bindProducts(ws []compute.Weight, groupsOf func(rows int) int) (bound [3]Binding, out [3]uint32, groups [3]int) {
	for i := range bound {
		bound[i] = bind(ws[0], Binding{})
		if i < len(ws) {
			w := weightOf(ws[i])
			bound[i].Buffer, out[i], groups[i] = w.buffer, uint32(w.out), groupsOf(w.out)
		}
	}
	return bound, out, groups
}

func (p *portable) product(name string, dst, x compute.Tensor, ws []compute.Weight, concurrent, add bool) {
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
	record(p.step, name, k.pipeline, g, &a, bound[0], bound[1], bound[2], at(x), at(dst))
}

type tileArgs struct {
	n, rowBytes, out, rows, xStride, dstStride, xMatrix, dstMatrix, add, activation uint32
}

// productTile records the product of a weight with many rows of activations. In the argument
// struct, productTile sets the sizes, and the caller sets the fields that depend on the operation.
func (p *portable) productTile(name string, dst, x compute.Tensor, w *weight, a tileArgs, concurrent bool) {
	a.n, a.rowBytes, a.out, a.rows = uint32(w.in), uint32(w.rowBytes), uint32(w.out), uint32(dst.Rows)
	a.xStride, a.dstStride = uint32(x.Stride), uint32(dst.Stride)
	k := w.kernels.productTile
	g := k.grid(w.out, k.rows, dst.Rows)
	g.z, g.concurrent = w.matrices, concurrent
	record(p.step, name, k.pipeline, g, &a, Binding{Buffer: w.buffer}, at(x), at(dst))
}

func (p *portable) gatedTile(dst, x compute.Tensor, gate, up compute.Weight, act compute.Activation, concurrent bool) {
	w := gate.(*weight)
	a := tileArgs{
		n: uint32(w.in), rowBytes: uint32(w.rowBytes), out: uint32(w.out), rows: uint32(dst.Rows),
		xStride: uint32(x.Stride), dstStride: uint32(dst.Stride), activation: uint32(act),
	}
	k := w.kernels.gatedTile
	g := k.grid(w.out, k.rows/2, dst.Rows)
	g.concurrent = concurrent
	record(p.step, "gated_product", k.pipeline, g, &a, bind(gate, Binding{}), bind(up, Binding{}), at(x), at(dst))
}

type gatedArgs struct {
	n, rowBytes, rows, xStride, dstStride, out, activation uint32
}

func (p *portable) GatedMatMul(dst, x compute.Tensor, gate, up compute.Weight, act compute.Activation) {
	w := gate.(*weight)
	if gate.Type() != up.Type() {
		p.gateSeparately(dst, x, gate, up, act, p.MatMul)
		return
	}
	if dst.Rows >= w.kernels.gatedTile.from {
		p.gatedTile(dst, x, gate, up, act, false)
		return
	}
	k := forRows(w.kernels.gated, dst.Rows)
	a := gatedArgs{uint32(w.in), uint32(w.rowBytes), uint32(dst.Rows), uint32(x.Stride), uint32(dst.Stride), uint32(w.out), uint32(act)}
	record(p.step, "gated_product", k.pipeline, grid{x: k.groups(w.out), y: (dst.Rows + k.inputs - 1) / k.inputs, simdgroups: k.simdgroups}, &a,
		bind(gate, Binding{}), bind(up, Binding{}), at(x), at(dst))
}

type gateArgs struct {
	cols, stride, dstStride, activation uint32
}

// gateSeparately is GatedMatMul for weights of two types, and for activations that no product
// kernel supports. matMul writes both products to scratch memory first.
func (p *portable) gateSeparately(dst, x compute.Tensor, gate, up compute.Weight, act compute.Activation, matMul func(dst, x compute.Tensor, ws ...compute.Weight)) {
	out := weightOf(gate).out
	p.inParts(dst.Rows, 2*out, func(first, n int) {
		both := compute.Tensor{Buffer: &p.scratch.memory, Rows: n, Cols: 2 * out, Stride: 2 * out}
		matMul(both, rowsFrom(x, first, n), gate, up)
		a := gateArgs{uint32(out), uint32(both.Stride), uint32(dst.Stride), uint32(act)}
		record(p.step, "gate", p.kernels.gate, grid{x: (out + copyThreads - 1) / copyThreads, y: n, simdgroups: copyThreads / 32}, &a,
			at(both), at(rowsFrom(dst, first, n)))
	})
}

func (p *portable) Expand(dst, ctx compute.Tensor, vb compute.Weight) {
	w := vb.(*weight)
	if dst.Rows >= w.kernels.productTile.from {
		p.productTile("expand", dst, ctx, w, tileArgs{xMatrix: uint32(w.in), dstMatrix: uint32(w.out)}, false)
		return
	}
	k := forRows(w.kernels.product, dst.Rows)
	a := productArgs{
		n: uint32(w.in), rowBytes: uint32(w.rowBytes), rows: uint32(dst.Rows), xStride: uint32(ctx.Stride), dstStride: uint32(dst.Stride),
		xMatrix: uint32(w.in), dstMatrix: uint32(w.out), out: [3]uint32{uint32(w.out)}, groups0: uint32(k.groups(w.out)),
	}
	b := Binding{Buffer: w.buffer}
	record(p.step, "expand", k.pipeline, grid{x: k.groups(w.out), y: (dst.Rows + k.inputs - 1) / k.inputs, z: w.matrices, simdgroups: k.simdgroups}, &a,
		b, b, b, at(ctx), at(dst))
}

type absorbArgs struct {
	nope, latent, dims, rowBytes, rows, qStride, dstStride, groups uint32
}

func (p *portable) Absorb(dst, q compute.Tensor, kb compute.Weight, table compute.Rope) {
	w, r := kb.(*weight), table.(*rope)
	k := forRows(w.kernels.absorb, dst.Rows)
	groups, tiles := k.groups(w.out), dst.Rows >= w.kernels.productTile.from
	if tiles { // the tiled kernel only multiplies; the kernel below rotates
		p.productTile("absorb", dst, q, w, tileArgs{xMatrix: uint32(w.in + r.dims), dstMatrix: uint32(w.out + r.dims)}, false)
		groups = 0
	}
	a := absorbArgs{
		nope: uint32(w.in), latent: uint32(w.out), dims: uint32(r.dims), rowBytes: uint32(w.rowBytes), rows: uint32(dst.Rows),
		qStride: uint32(q.Stride), dstStride: uint32(dst.Stride), groups: uint32(groups),
	}
	record(p.step, "absorb", k.pipeline, grid{x: groups + 1, y: (dst.Rows + k.inputs - 1) / k.inputs, z: w.matrices, simdgroups: k.simdgroups, concurrent: tiles}, &a,
		Binding{Buffer: w.buffer}, at(q), Binding{Buffer: r.buffer}, p.slotMapping, at(dst))
}

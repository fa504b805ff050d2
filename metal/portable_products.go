package metal

import (
	"github.com/ingot-run/ingot/engine/compute"
)

// tiles reports whether the product with some rows of activations is computed in tiles.
func (w *weight) tiles(rows int) bool {
	return w.kernels.productTile.fits(w, rows)
}

// sharedProducts is the maximum number of weights that share a dispatch on NVIDIA's GPUs. The
// portable kernels take three.
const sharedProducts = 4

// sameType returns the number of weights at the beginning that have the same type, at most the
// given one, and the sum of their rows.
func sameType(ws []compute.Weight, most int) (n, cols int) {
	for n < min(len(ws), most) && ws[n].Type() == ws[0].Type() {
		cols += weightOf(ws[n]).out
		n++
	}
	return n, cols
}

func (o *product) name() string {
	if o.add {
		return "product_add"
	}
	return "product"
}

// portable records the products of a tensor with several weights. Consecutive weights of one type
// share a dispatch.
func (o *product) portable(p *portable) {
	dst, ws, concurrent := o.dst, o.weights, false
	for len(ws) > 0 {
		n, cols := 1, weightOf(ws[0]).out
		if ws[0].(*weight).tiles(dst.Rows) {
			p.productTile(o.name(), dst.Slice(0, cols), o.x, ws[0].(*weight), tileArgs{add: flag(o.add)}, concurrent)
		} else {
			n, cols = sameType(ws, len(productArgs{}.out))
			for i := range n { // weights for which tiles are faster have their own dispatch
				if ws[i].(*weight).tiles(dst.Rows) {
					n = i
					break
				}
			}
			p.productFew(o.name(), dst.Slice(0, cols), o.x, ws[:n], productArgs{add: flag(o.add)}, concurrent)
		}
		dst, ws, concurrent = dst.Slice(cols, dst.Cols-cols), ws[n:], true
	}
}

type productArgs struct {
	n, rowBytes, rows  uint32
	xStride, dstStride uint32
	xMatrix, dstMatrix uint32
	add                uint32
	out                [3]uint32
	groups0, groups1   uint32
}

// bindProducts returns the bindings of up to four weights that share a dispatch. For each weight,
// it also returns the number of rows, and the number of threadgroups, which groupsOf computes from
// the rows. If there are fewer weights, the other bindings repeat the first one.
func bindProducts(ws []compute.Weight, groupsOf func(rows int) int) (bound [sharedProducts]Binding, out [sharedProducts]uint32, groups [sharedProducts]int) {
	for i := range bound {
		bound[i] = bind(ws[0], Binding{})
		if i < len(ws) {
			w := weightOf(ws[i])
			bound[i].Buffer, out[i], groups[i] = w.buffer, uint32(w.out), groupsOf(w.out)
		}
	}
	return bound, out, groups
}

// productFew records the product of up to three weights of one type with few rows of activations,
// or of all matrices of one weight. In the argument struct, it sets the sizes, and the caller sets
// the fields that depend on the operation.
func (p *portable) productFew(name string, dst, x compute.Tensor, ws []compute.Weight, a productArgs, concurrent bool) {
	first := ws[0].(*weight)
	k := forRows(first.kernels.product, dst.Rows)
	bound, out, groups := bindProducts(ws, k.groups)
	a.n, a.rowBytes, a.rows = uint32(first.in), uint32(first.rowBytes), uint32(dst.Rows)
	a.xStride, a.dstStride = uint32(x.Stride), uint32(dst.Stride)
	a.out, a.groups0, a.groups1 = [3]uint32(out[:]), uint32(groups[0]), uint32(groups[1])
	g := k.grid(groups[0]+groups[1]+groups[2], dst.Rows, first.in)
	g.z, g.concurrent = first.matrices, concurrent
	record(p.step, name, k.pipeline(p, x, int(a.xMatrix)), g, &a, bound[0], bound[1], bound[2], at(x), into(dst))
}

type tileArgs struct {
	n, rowBytes, out, rows, xStride, dstStride, xMatrix, dstMatrix, add, activation uint32
}

// sizes sets the fields that do not depend on the operation.
func (a *tileArgs) sizes(dst, x compute.Tensor, w *weight) {
	a.n, a.rowBytes, a.out, a.rows = uint32(w.in), uint32(w.rowBytes), uint32(w.out), uint32(dst.Rows)
	a.xStride, a.dstStride = uint32(x.Stride), uint32(dst.Stride)
}

// productTile is productFew for many rows of activations.
func (p *portable) productTile(name string, dst, x compute.Tensor, w *weight, a tileArgs, concurrent bool) {
	a.sizes(dst, x, w)
	k := w.kernels.productTile.forRows(w, dst.Rows)
	g := k.grid(w.out, dst.Rows)
	g.z, g.concurrent = w.matrices, concurrent
	record(p.step, name, k.pipeline(p, x, int(a.xMatrix)), g, &a, Binding{Buffer: w.buffer}, at(x), into(dst))
}

func (p *portable) gatedTile(o *gatedProduct, concurrent bool) {
	w := o.gate.(*weight)
	a := tileArgs{activation: uint32(o.activation)}
	a.sizes(o.dst, o.x, w)
	k := w.kernels.gatedTile.forRows(w, o.dst.Rows)
	g := k.grid(w.out, o.dst.Rows)
	g.concurrent = concurrent
	record(p.step, "gated_product", k.pipeline(p, o.x, 0), g, &a, bind(o.gate, Binding{}), bind(o.up, Binding{}), at(o.x), into(o.dst))
}

type gatedArgs struct {
	n, rowBytes, rows, xStride, dstStride, out, activation uint32
}

func (o *gatedProduct) portable(p *portable) {
	w := o.gate.(*weight)
	if o.gate.Type() != o.up.Type() {
		p.gateSeparately(o, func(products *product) { products.portable(p) })
		return
	}
	if w.kernels.gatedTile.fits(w, o.dst.Rows) {
		p.gatedTile(o, false)
		return
	}
	k := forRows(w.kernels.gated, o.dst.Rows)
	a := gatedArgs{
		n: uint32(w.in), rowBytes: uint32(w.rowBytes), rows: uint32(o.dst.Rows), xStride: uint32(o.x.Stride), dstStride: uint32(o.dst.Stride),
		out: uint32(w.out), activation: uint32(o.activation),
	}
	record(p.step, "gated_product", k.pipeline(p, o.x, 0), k.grid(k.groups(w.out), o.dst.Rows, w.in), &a,
		bind(o.gate, Binding{}), bind(o.up, Binding{}), at(o.x), into(o.dst))
}

type gateArgs struct {
	cols, gateStride, upStride, dstStride, activation uint32
}

func (o *activating) portable(p *portable) {
	a := gateArgs{
		cols: uint32(o.dst.Cols), gateStride: uint32(o.gate.Stride), upStride: uint32(o.up.Stride), dstStride: uint32(o.dst.Stride), activation: uint32(o.activation),
	}
	record(p.step, "gate", p.kernels.gate, byColumn(o.dst.Cols, o.dst.Rows), &a, at(o.gate), at(o.up), into(o.dst))
}

// gateSeparately is GatedMatMul for weights of two types, and for activations that no product
// kernel supports. It first writes both products to scratch memory, with multiply.
func (p *portable) gateSeparately(o *gatedProduct, multiply func(products *product)) {
	out := weightOf(o.gate).out
	p.inParts(o.dst.Rows, 2*out, func(from, to int) {
		both := compute.Tensor{Buffer: &p.scratch.memory, Rows: to - from, Cols: 2 * out, Stride: 2 * out}
		p.products = append(p.products, product{dst: both, x: o.x.Span(from, to), weights: hold(&p.operands, o.gate, o.up)})
		multiply(&p.products[len(p.products)-1]) // in the step's list, since a new product would be allocated
		g := activating{dst: o.dst.Span(from, to), gate: both.Slice(0, out), up: both.Slice(out, out), activation: o.activation}
		g.portable(p)
	})
}

func (o *expand) portable(p *portable) {
	w := o.vb.(*weight)
	if w.tiles(o.dst.Rows) {
		p.productTile("expand", o.dst, o.ctx, w, tileArgs{xMatrix: uint32(w.in), dstMatrix: uint32(w.out)}, false)
		return
	}
	p.productFew("expand", o.dst, o.ctx, []compute.Weight{w}, productArgs{xMatrix: uint32(w.in), dstMatrix: uint32(w.out)}, false)
}

type absorbArgs struct {
	nope, latent, dims, rowBytes, rows, qStride, dstStride, groups uint32
}

func (o *absorb) portable(p *portable) {
	w, dims := o.kb.(*weight), o.rope.dims
	k := forRows(w.kernels.absorb, o.dst.Rows)
	groups, tiles := k.groups(w.out), w.tiles(o.dst.Rows)
	if tiles { // the tiled kernel only multiplies; the kernel below rotates
		p.productTile("absorb", o.dst, o.q, w, tileArgs{xMatrix: uint32(w.in + dims), dstMatrix: uint32(w.out + dims)}, false)
		groups = 0
	}
	a := absorbArgs{
		nope: uint32(w.in), latent: uint32(w.out), dims: uint32(dims), rowBytes: uint32(w.rowBytes), rows: uint32(o.dst.Rows),
		qStride: uint32(o.q.Stride), dstStride: uint32(o.dst.Stride), groups: uint32(groups),
	}
	g := k.grid(groups+1, o.dst.Rows, w.in)
	g.z, g.concurrent, g.shared = w.matrices, tiles, 0 // nothing is staged
	record(p.step, "absorb", k.pipeline(p, o.q, w.in+dims), g, &a, Binding{Buffer: w.buffer}, at(o.q), Binding{Buffer: o.rope.buffer}, p.slotMapping, into(o.dst))
}

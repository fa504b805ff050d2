package metal

import (
	"math"
	"slices"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
)

// The argument structs of product.h and activations.h.
type (
	rotateArgs        struct{ rows, nope, dims, latent, qStride, dstStride uint32 }
	packedProductArgs struct {
		blocks, rows, room, dstStride, dstMatrix, add uint32
		out                                           [sharedProducts]uint32
		tiles                                         [sharedProducts - 1]uint32
		columnTiles                                   uint32
	}
	rowArgs struct {
		blocks, xMatrix, dstMatrix, add uint32
		out                             [sharedProducts]uint32
		tiles                           [sharedProducts - 1]uint32
		dims                            uint32
		normThreads                     uint32
		eps                             float32
		splits, valueDim                uint32
		firstSplit, window, sinks       uint32
		latent                          latentArgs
	}
	rowGatedProductArgs struct {
		blocks, out, activation, normThreads uint32
		eps                                  float32
	}
	packedGatedArgs struct{ blocks, rows, out, dstStride, columnTiles, activation, quantised uint32 }
)

// nvidia records the products of a tensor with several weights. Consecutive weights of one type
// share a dispatch. The first dispatch also computes the prior operation, if there is one.
func (o *product) nvidia(n *nvidia) {
	if w, ok := narrowFloats(o); ok {
		a := nvidiaRouteArgs{n: uint32(w.in), experts: uint32(w.out), rows: uint32(o.dst.Rows), xStride: uint32(o.x.Stride), logitsStride: uint32(o.dst.Stride)}
		router, logits := Binding{Buffer: w.buffer}, into(o.dst)
		n.routeLogits(o.name(), router, router, at(o.x), logits, logits, &a)
		return
	}
	if !slices.ContainsFunc(o.weights, isPacked) {
		o.portable(n.general)
		return
	}
	dst, ws, part := o.dst, o.weights, *o
	for len(ws) > 0 {
		count, cols := sameType(ws, sharedProducts)
		part.dst, part.weights = dst.Slice(0, cols), ws[:count]
		if w, ok := ws[0].(*packedWeight); ok {
			n.product(&part, w)
		} else {
			part.portable(n.general)
		}
		dst, ws, part.prior = dst.Slice(cols, dst.Cols-cols), ws[count:], nil
	}
}

// narrowFloats returns the weight of a product for which the kernels of routing are faster: it is
// in float32 and has so few rows that the portable kernels would run on few threadgroups. The gate
// of shared experts, which has one row, is such a weight.
func narrowFloats(o *product) (*weight, bool) {
	const rows = 16
	w, ok := o.weights[0].(*weight)
	return w, ok && len(o.weights) == 1 && w.kind == gguf.TypeF32 && w.matrices == 1 && w.out <= rows && !o.add && o.prior == nil
}

// product records the product of up to four packed weights of the type of w, which is the first of
// them.
func (n *nvidia) product(o *product, w *packedWeight) {
	if k, ok := n.rowKernel(o.dst, w); ok && (o.prior != nil || quantisedRows(o.x.Head(1), w.in, partsOf(w.kind)) != n.quantised) {
		n.rowProduct(o.name(), k, o.dst, o.x, o.prior, w, o.weights, rowArgs{add: flag(o.add)}, Binding{Buffer: w.buffer})
		return
	}
	n.inColumns(0, o.dst.Rows, 1, w.in, partsOf(w.kind), func(from, to int) {
		q := quantisedRows(o.x.Span(from, to), w.in, partsOf(w.kind))
		n.quantise(q)
		n.quantisedProduct(o.name(), o.dst.Span(from, to), q, w, o.weights, packedProductArgs{add: flag(o.add)})
	})
}

// quantisedProduct records the product of weights with quantised activations. In the argument
// struct, the caller sets the fields that depend on the operation.
func (n *nvidia) quantisedProduct(name string, dst compute.Tensor, q quantised, w *packedWeight, ws []compute.Weight, a packedProductArgs) {
	a.blocks, a.rows, a.room, a.dstStride = uint32(w.activationBlocks()), uint32(dst.Rows), uint32(q.room()), uint32(dst.Stride)
	if split, ok := n.splitFor(w.packed.splits, ws, dst, q.x); ok {
		n.splitProduct(name, split, dst, ws, a)
		return
	}
	k := n.forColumns(w.packed.product, dst.Rows)
	if dst.Rows > 16 && dst.Rows <= 32 && threadgroups(k, ws, dst.Rows) <= fewThreadgroups {
		k = w.packed.small
	}
	k = n.fetches(w.packed.fetchedProduct, k, dst.Rows, dst.Rows, &w.weight, nil)
	if tile, ok := n.tileFor(ProductTile, w.packed.productTiles, ws, dst.Rows); ok {
		k = tile
		if n.balances(k, w.packed.balanced, ws, dst, q.x) {
			n.balancedProduct(name, w.packed.balanced, dst, ws, a)
			return
		}
	}
	a.columnTiles = uint32(k.tiles(dst.Rows))
	bound, out, groups := bindProducts(ws, k.groups)
	a.out, a.tiles = out, firstTiles(groups)
	g := grid{x: sum(groups) * k.tiles(dst.Rows), y: 1, z: w.matrices, simdgroups: k.simdgroups(), shared: k.memory(&w.weight, nil)}
	record(n.step, name, k.pipeline, g, &a, bound[0], bound[1], bound[2], bound[3], n.held(), into(dst))
}

// sum and firstTiles return all threadgroups of weights that share a dispatch, and those of each
// weight but the last one.
func sum(groups [sharedProducts]int) int { return groups[0] + groups[1] + groups[2] + groups[3] }

func firstTiles(groups [sharedProducts]int) (tiles [sharedProducts - 1]uint32) {
	for i := range tiles {
		tiles[i] = uint32(groups[i])
	}
	return tiles
}

// rowKernel returns the kernel for a product of one row of activations. It returns false if another
// kernel is better, as for a weight of many rows: quantising the activations once is then cheaper
// than quantising them in every threadgroup.
func (n *nvidia) rowKernel(dst compute.Tensor, w *packedWeight) (packedKernel, bool) {
	k := w.packed.row
	if w.activationBlocks() <= shortRow && w.matrices*k.groups(w.out) > fewThreadgroups {
		k = w.packed.shortRow
	}
	return k, dst.Rows == 1 && w.out < wideRows && w.activationBlocks() <= longRow && n.fitsTwice(k.rowMemory(w))
}

// rowMemory returns the threadgroup memory of a kernel that stages a row of activations and its
// rows of a weight.
func (k packedKernel) rowMemory(w *packedWeight) int {
	return rowBytes(&w.weight) + k.rows()/groupRows*groupBytes(&w.weight)
}

// fitsTwice reports whether two threadgroups with the given number of bytes of threadgroup memory
// run on a multiprocessor at the same time.
func (n *nvidia) fitsTwice(bytes int) bool { return 2*bytes <= n.memory }

// rowProduct records a product of one row. prior is the operation that makes x if the kernel is to
// compute it too. In the argument struct, the caller sets the fields that depend on the operation.
// table has the angles of Absorb's rotations.
func (n *nvidia) rowProduct(name string, k packedKernel, dst, x compute.Tensor, prior operation, w *packedWeight, ws []compute.Weight, a rowArgs, table Binding) {
	from, row, slots, gain, latent, latentGain, keys := at(x), at(x), n.slotMapping, table, table, table, table
	g := grid{y: 1, z: w.matrices, simdgroups: k.simdgroups(), shared: k.rowMemory(w)}
	if prior != nil {
		row = into(x)
	}
	switch prior := prior.(type) {
	case *latents:
		n.locate(prior.cache, prior.layer)
		in := n.stored(prior.cache, prior.layer)
		a.latent, a.normThreads, a.eps = prior.args(), latentThreads, prior.eps
		from, gain, table, slots = at(prior.t), Binding{Buffer: prior.qGain.buffer}, Binding{Buffer: prior.rope.buffer}, in.slots
		latent, latentGain, keys = into(prior.kvPart()), Binding{Buffer: prior.kvGain.buffer}, in.keys
		g.x++
	case *norm:
		a.normThreads, a.eps = uint32(prior.threads()), prior.eps
		from, gain = at(prior.src), bind(prior.gain, table)
	case *attention:
		splits := n.splitsOf(prior)
		a.splits, a.firstSplit, a.valueDim = uint32(splits.count), uint32(splits.first), uint32(prior.shape.ValueDim)
		a.window, a.sinks = uint32(prior.shape.Window), flag(prior.shape.Sinks != nil)
		from, gain = n.scratch.read(), bind(prior.shape.Sinks, table)
	}
	bound, out, groups := bindProducts(ws, k.groups)
	a.out = out
	a.blocks, a.tiles = uint32(w.activationBlocks()), firstTiles(groups)
	g.x += sum(groups)
	if a.dims > 0 {
		g.x++
	}
	record(n.step, name, k.pipeline, g, &a, bound[0], bound[1], bound[2], bound[3], from, table, slots, gain, row, into(dst), latent, latentGain, keys)
}

// matrices records the products of a weight's matrices. Each matrix has its own slice of the rows
// of x and of dst. In the argument struct, the caller sets the distances of the slices and, for
// Absorb, the number of values to rotate, of which table has the angles.
func (n *nvidia) matrices(name string, dst, x compute.Tensor, prior operation, w *packedWeight, a rowArgs, table Binding) {
	ws := []compute.Weight{w}
	if k, ok := n.rowKernel(dst, w); ok {
		n.rowProduct(name, k, dst, x, prior, w, ws, a, table)
		return
	}
	if a.dims > 0 {
		r := rotateArgs{rows: uint32(dst.Rows), nope: uint32(w.in), dims: a.dims, latent: uint32(w.out), qStride: uint32(x.Stride), dstStride: uint32(dst.Stride)}
		record(n.step, "rotate", n.anyType.rotate, perLane(dst.Rows*int(a.dims)/2, w.matrices), &r, at(x), table, n.slotMapping, into(dst))
	}
	n.inColumns(0, dst.Rows, w.matrices, w.in, partsOf(w.kind), func(from, to int) {
		q := quantisedSlices(x.Span(from, to), w.matrices, w.in, int(a.xMatrix), partsOf(w.kind))
		n.quantise(q)
		n.quantisedProduct(name, dst.Span(from, to), q, w, ws, packedProductArgs{dstMatrix: a.dstMatrix})
	})
}

func (o *gatedProduct) nvidia(n *nvidia) {
	w, packed := o.gate.(*packedWeight)
	switch {
	case o.gate.Type() != o.up.Type():
		n.general.gateSeparately(o, func(products *product) { products.nvidia(n) })
	case packed:
		n.gated(o, w)
	default:
		o.portable(n.general)
	}
}

// rowGatedKernel returns the kernel for a gated product of one row of activations that quantises
// the row itself, or false if another kernel is better, as in rowKernel.
func (n *nvidia) rowGatedKernel(o *gatedProduct, w *packedWeight) (packedKernel, bool) {
	k := w.packed.rowGatedProduct
	return k, o.dst.Rows == 1 && o.gate.Type() == o.up.Type() && w.out < wideRows && w.activationBlocks() <= longRow && n.fitsTwice(k.gatedRowMemory(w))
}

// gatedRowMemory returns the threadgroup memory of row_gated_product.
func (k packedKernel) gatedRowMemory(w *packedWeight) int {
	return rowBytes(&w.weight) + 2*k.teams*groupBytes(&w.weight)
}

// gatedRowProduct records a gated product of one row. If there is a prior operation, it is the
// RMSNorm that makes the row, which the kernel computes too.
func (n *nvidia) gatedRowProduct(o *gatedProduct, w *packedWeight, k packedKernel) {
	a := rowGatedProductArgs{blocks: uint32(w.activationBlocks()), out: uint32(w.out), activation: uint32(o.activation)}
	from, gain, made := at(o.x), Binding{Buffer: w.buffer}, at(o.x)
	if prior, ok := o.prior.(*norm); ok {
		a.normThreads, a.eps = uint32(prior.threads()), prior.eps
		from, gain, made = at(prior.src), bind(prior.gain, gain), into(o.x)
	}
	record(n.step, "gated_product", k.pipeline, grid{x: k.groups(w.out), y: 1, simdgroups: k.simdgroups(), shared: k.gatedRowMemory(w)}, &a,
		Binding{Buffer: w.buffer}, bind(o.up, Binding{}), from, gain, made, into(o.dst))
}

// gated records the activation of gate·x and up·x. Both weights have the same type.
func (n *nvidia) gated(o *gatedProduct, w *packedWeight) {
	if k, ok := n.rowGatedKernel(o, w); ok && (o.prior != nil || quantisedRows(o.x, w.in, partsOf(w.kind)) != n.quantised) {
		n.gatedRowProduct(o, w, k)
		return
	}
	n.inColumns(0, o.dst.Rows, 1, w.in, partsOf(w.kind), func(from, to int) {
		n.quantise(quantisedRows(o.x.Span(from, to), w.in, partsOf(w.kind)))
		rows := to - from
		k := n.forGated(w, rows)
		a := packedGatedArgs{
			blocks: uint32(w.activationBlocks()), rows: uint32(rows), out: uint32(w.out), dstStride: uint32(o.dst.Stride), columnTiles: uint32(k.tiles(rows)),
			activation: uint32(o.activation),
		}
		x, dst := n.held(), into(o.dst.Span(from, to))
		packed := n.result(&o.fusion, &a.quantised, quantisedRows(o.dst.Span(from, to), w.out, 1))
		record(n.step, "gated_product", k.pipeline, grid{x: k.groups(w.out) * k.tiles(rows), y: 1, simdgroups: k.simdgroups(), shared: k.memory(&w.weight, nil)}, &a,
			Binding{Buffer: w.buffer}, bind(o.up, Binding{}), x, dst, packed)
	})
}

func (o *expand) nvidia(n *nvidia) {
	if w, ok := o.vb.(*packedWeight); ok {
		n.matrices("expand", o.dst, o.ctx, o.prior, w, rowArgs{xMatrix: uint32(w.in), dstMatrix: uint32(w.out)}, Binding{Buffer: w.buffer})
	} else {
		o.portable(n.general)
	}
}

func (o *absorb) nvidia(n *nvidia) {
	if w, ok := o.kb.(*packedWeight); ok {
		dims := o.rope.dims
		a := rowArgs{xMatrix: uint32(w.in + dims), dstMatrix: uint32(w.out + dims), dims: uint32(dims)}
		n.matrices("absorb", o.dst, o.q, nil, w, a, Binding{Buffer: o.rope.buffer})
	} else {
		o.portable(n.general)
	}
}

// floatRows is the maximum number of rows per dispatch that copies a weight in float32.
const floatRows = 16384

// inFloats returns w or, if w is packed, a copy in float32. The first step that needs the copy
// makes it. Routers need it, since their kernels read weights that are not packed.
func (n *nvidia) inFloats(weight compute.Weight) compute.Weight {
	w, packed := weight.(*packedWeight)
	if !packed {
		return weight
	}
	if w.floats == nil {
		w.floats = n.copyInFloats(w)
	}
	return w.floats
}

func (n *nvidia) copyInFloats(w *packedWeight) *weight {
	made := &weight{kind: gguf.TypeF32, shape: w.shape, in: w.in, out: w.out, matrices: w.matrices, rowBytes: 4 * w.in}
	var err error
	if made.kernels, err = n.kernels.forWeight(weightShape{made.kind, w.in, w.out}); err == nil {
		made.buffer, err = n.newBuffer(made.fileBytes(), Private, "make a float32 copy of a packed weight")
	}
	if err != nil {
		n.fail(err)
		return made
	}
	all := compute.Tensor{Buffer: &memory{buffer: made.buffer}, Rows: w.matrices * w.out, Stride: w.in}
	padded := (w.out + groupRows - 1) / groupRows * groupRows // a packed matrix has whole groups of rows
	for first := 0; first < all.Rows; first += floatRows {
		part := all.Span(first, min(first+floatRows, all.Rows))
		rows, ints := n.take(part.Rows)
		for i := range ints {
			row := (first+i)/w.out*padded + (first+i)%w.out
			ints[i] = int32(math.Float32bits(float32(row)))
		}
		n.embedPacked(part, w, rows, 1)
	}
	return made
}

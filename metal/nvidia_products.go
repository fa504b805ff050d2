package metal

import (
	"math"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
)

// The argument structs of product.h and activations.h.
type (
	rotateArgs        struct{ rows, nope, dims, latent, qStride, dstStride uint32 }
	packedProductArgs struct {
		blocks, rows, room, dstStride, dstMatrix, add uint32
		out                                           [3]uint32
		tiles0, tiles1                                uint32
		columnTiles                                   uint32
	}
	rowArgs struct {
		blocks, xMatrix, dstMatrix, add uint32
		out                             [3]uint32
		tiles0, tiles1                  uint32
		dims                            uint32
		normThreads                     uint32
		eps                             float32
		splits, valueDim                uint32
		latent                          latentArgs
	}
	packedGatedArgs struct{ blocks, rows, out, dstStride, columnTiles uint32 }
)

// separateProducts writes the products of a gated product whose weights have no common kernel.
func (n *nvidia) separateProducts(dst, x compute.Tensor, ws ...compute.Weight) {
	n.products(dst, x, ws, nil)
}

// products is MatMul. Up to three consecutive weights of one type share a dispatch. prior is the
// operation that the first dispatch also computes, or nil.
func (n *nvidia) products(dst, x compute.Tensor, ws []compute.Weight, prior *operation) {
	if n.shared == nil {
		n.portable().MatMul(dst, x, ws...)
		return
	}
	for len(ws) > 0 {
		count, cols := 1, weightOf(ws[0]).out
		for count < min(len(ws), 3) && ws[count].Type() == ws[0].Type() {
			cols += weightOf(ws[count]).out
			count++
		}
		part := dst.Slice(0, cols)
		if w, ok := ws[0].(*packedWeight); ok {
			n.product("product", part, x, w, ws[:count], prior, false)
		} else {
			n.portable().MatMul(part, x, ws[:count]...)
		}
		dst, ws, prior = dst.Slice(cols, dst.Cols-cols), ws[count:], nil
	}
}

func (n *nvidia) matMulAdd(dst, x compute.Tensor, ws []compute.Weight, prior *operation) {
	if w, ok := ws[0].(*packedWeight); ok {
		n.product("product_add", dst, x, w, ws, prior, true)
	} else {
		n.portable().MatMulAdd(dst, x, ws[0])
	}
}

// product records the product of up to three packed weights of the type of w, which is the first of
// them.
func (n *nvidia) product(name string, dst, x compute.Tensor, w *packedWeight, ws []compute.Weight, prior *operation, add bool) {
	if k, ok := n.rowKernel(dst, w); ok && (prior != nil || quantisedRows(x.Head(1), w.in) != n.quantised) {
		n.rowProduct(name, k, dst, x, prior, w, ws, rowArgs{add: flag(add)}, Binding{Buffer: w.buffer})
		return
	}
	n.inColumns(dst.Rows, 1, w.in, func(first, rows int) {
		q := quantisedRows(rowsFrom(x, first, rows), w.in)
		n.quantise(q)
		n.quantisedProduct(name, rowsFrom(dst, first, rows), q, w, ws, packedProductArgs{add: flag(add)})
	})
}

// quantisedProduct records the product of weights with quantised activations. In the argument
// struct, the caller sets the fields that depend on the operation.
func (n *nvidia) quantisedProduct(name string, dst compute.Tensor, q quantised, w *packedWeight, ws []compute.Weight, a packedProductArgs) {
	k := forColumns(w.packed.product, dst.Rows)
	if dst.Rows > 4 && dst.Rows <= w.packed.wide.algorithm.columns && w.out >= wideRows {
		k = w.packed.wide
	}
	a.blocks, a.rows, a.room, a.dstStride = uint32(w.in/blockValues), uint32(dst.Rows), uint32(q.room()), uint32(dst.Stride)
	a.columnTiles = uint32(k.tiles(dst.Rows))
	bound, out, groups := bindProducts(ws, k.groups)
	a.out = out
	a.tiles0, a.tiles1 = uint32(groups[0]), uint32(groups[1])
	g := grid{x: (groups[0] + groups[1] + groups[2]) * k.tiles(dst.Rows), y: 1, z: w.matrices, simdgroups: k.simdgroups()}
	recordFor(n, name, k.pipeline, g, &a, dst, bound[0], bound[1], bound[2], Binding{Buffer: n.activations}, at(dst))
}

// rowKernel returns the kernel for a product of one row of activations. It returns false if another
// kernel is better, as for a weight of many rows: quantising the activations once is then cheaper
// than quantising them in every threadgroup.
func (n *nvidia) rowKernel(dst compute.Tensor, w *packedWeight) (packedKernel, bool) {
	k := w.packed.row
	if w.in/blockValues <= shortRow {
		k = w.packed.shortRow
	}
	return k, dst.Rows == 1 && w.out < wideRows && n.fitsTwice(k.rowMemory(w))
}

// rowMemory returns the threadgroup memory of a kernel that stages a row of activations and its
// rows of a weight.
func (k packedKernel) rowMemory(w *packedWeight) int {
	return rowBytes(w.in) + k.rows()/groupRows*groupBytes(&w.weight)
}

// fitsTwice reports whether two threadgroups with the given number of bytes of threadgroup memory
// run on a multiprocessor at the same time.
func (n *nvidia) fitsTwice(bytes int) bool { return 2*bytes <= n.memory }

// rowProduct records a product of one row. prior is the operation that makes x if the kernel is to
// compute it too. In the argument struct, the caller sets the fields that depend on the operation.
// table has the angles of Absorb's rotations.
func (n *nvidia) rowProduct(name string, k packedKernel, dst, x compute.Tensor, prior *operation, w *packedWeight, ws []compute.Weight, a rowArgs, table Binding) {
	from, slots, gain, latent, latentGain, keys := at(x), n.slotMapping, table, table, table, table
	g := grid{y: 1, z: w.matrices, simdgroups: k.simdgroups(), shared: k.rowMemory(w)}
	if prior != nil {
		n.written(x)
		switch prior.kind {
		case opLatents:
			l := n.latentsOf(prior)
			a.latent, table = l.args, Binding{Buffer: l.rope.buffer}
			latent, latentGain, keys, slots = at(l.t), Binding{Buffer: l.gain.buffer}, l.to.keys, l.to.slots
			g.x++
			n.written(l.t)
			fallthrough
		case opNorm:
			a.normThreads, a.eps = uint32(prior.normThreads()), prior.eps
			from, gain = at(prior.x), bind(prior.gain, table)
		case opAttention:
			a.splits, a.valueDim = uint32(n.splitsOf(prior)), uint32(prior.attention.ValueDim)
			from = Binding{Buffer: n.scratch.buffer}
		}
	}
	bound, out, groups := bindProducts(ws, k.groups)
	a.out = out
	a.blocks, a.tiles0, a.tiles1 = uint32(w.in/blockValues), uint32(groups[0]), uint32(groups[1])
	g.x += groups[0] + groups[1] + groups[2]
	if a.dims > 0 {
		g.x++
	}
	recordFor(n, name, k.pipeline, g, &a, dst, bound[0], bound[1], bound[2], from, table, slots, gain, at(x), at(dst), latent, latentGain, keys)
}

// matrices records the products of a weight's matrices. Each matrix has its own slice of the rows
// of x.
func (n *nvidia) matrices(name string, dst, x compute.Tensor, w *packedWeight, prior *operation, xMatrix, dstMatrix int) {
	ws := []compute.Weight{w}
	if k, ok := n.rowKernel(dst, w); ok {
		n.rowProduct(name, k, dst, x, prior, w, ws, rowArgs{xMatrix: uint32(xMatrix), dstMatrix: uint32(dstMatrix)}, Binding{Buffer: w.buffer})
		return
	}
	n.inColumns(dst.Rows, w.matrices, w.in, func(first, rows int) {
		q := quantisedSlices(rowsFrom(x, first, rows), w.matrices, w.in, xMatrix)
		n.quantise(q)
		n.quantisedProduct(name, rowsFrom(dst, first, rows), q, w, ws, packedProductArgs{dstMatrix: uint32(dstMatrix)})
	})
}

func (n *nvidia) gatedMatMul(dst, x compute.Tensor, gate, up compute.Weight, act compute.Activation) {
	w, packed := gate.(*packedWeight)
	switch {
	case gate.Type() != up.Type() || packed && act != compute.SiLU:
		n.general.gateSeparately(dst, x, gate, up, act, n.separateProducts)
		n.forget()
	case packed:
		n.gated(dst, x, w, up.(*packedWeight))
	default:
		n.portable().GatedMatMul(dst, x, gate, up, act)
	}
}

// gated records silu(gate·x)*(up·x). Both weights have the same type.
func (n *nvidia) gated(dst, x compute.Tensor, gate, up *packedWeight) {
	n.inColumns(dst.Rows, 1, gate.in, func(first, rows int) {
		n.quantise(quantisedRows(rowsFrom(x, first, rows), gate.in))
		k := forColumns(gate.packed.gated, rows)
		dst := rowsFrom(dst, first, rows)
		a := packedGatedArgs{uint32(gate.in / blockValues), uint32(rows), uint32(gate.out), uint32(dst.Stride), uint32(k.tiles(rows))}
		recordFor(n, "gated_product", k.pipeline, grid{x: k.groups(gate.out) * k.tiles(rows), y: 1, simdgroups: k.simdgroups()}, &a, dst,
			Binding{Buffer: gate.buffer}, Binding{Buffer: up.buffer}, Binding{Buffer: n.activations}, at(dst))
	})
}

func (n *nvidia) expand(op *operation) {
	if w, ok := op.weights[0].(*packedWeight); ok {
		n.matrices("expand", op.dst, op.x, w, op.prior, w.in, w.out)
	} else {
		n.portable().Expand(op.dst, op.x, op.weights[0])
	}
}

func (n *nvidia) absorb(op *operation) {
	w, packed := op.weights[0].(*packedWeight)
	if !packed {
		n.portable().Absorb(op.dst, op.x, op.weights[0], op.rope)
		return
	}
	dst, q, r := op.dst, op.x, op.rope.(*rope)
	if k, ok := n.rowKernel(dst, w); ok {
		a := rowArgs{xMatrix: uint32(w.in + r.dims), dstMatrix: uint32(w.out + r.dims), dims: uint32(r.dims)}
		n.rowProduct("absorb", k, dst, q, nil, w, op.weights, a, Binding{Buffer: r.buffer})
		return
	}
	a := rotateArgs{uint32(dst.Rows), uint32(w.in), uint32(r.dims), uint32(w.out), uint32(q.Stride), uint32(dst.Stride)}
	recordFor(n, "rotate", n.shared.rotate, grid{x: (dst.Rows*r.dims/2 + rowThreads - 1) / rowThreads, y: w.matrices, simdgroups: rowThreads / 32}, &a, dst,
		at(q), Binding{Buffer: r.buffer}, n.slotMapping, at(dst))
	n.matrices("absorb", dst, q, w, nil, w.in+r.dims, w.out+r.dims)
}

// floatRows is the maximum number of rows per dispatch that copies a weight in float32.
const floatRows = 16384

// inFloats returns w or, if w is packed, a copy in float32. The first step that needs the copy
// makes it. Routers need it, since their kernels read weights that are not packed. Experts with
// biases, or with another activation than SiLU, need it, since only the portable kernels compute
// such experts.
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

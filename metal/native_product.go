package metal

import (
	"fmt"
	"math"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
)

// The argument structs of the kernels, with the same fields.
type (
	quantiseArgs struct{ blocks, rows, room, xStride, xSlice uint32 }
	rotateArgs   struct{ rows, nope, dims, latent, qStride, dstStride uint32 }
	packedArgs   struct{ blocks, tokenStride, dstStride uint32 }

	integerProductArgs struct {
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
	integerGatedArgs struct{ blocks, rows, out, dstStride, columnTiles uint32 }
)

// recordInteger is record for kernels that write only dst. After recordInteger, the quantised activations and grouped choices of
// other tensors remain valid; after record, they do not.
func recordInteger[A any](s *step, name string, p Pipeline, g grid, args *A, dst compute.Tensor, buffers ...Binding) {
	activations, grouped := s.integer.quantised, s.integer.grouped
	record(s, name, p, g, args, buffers...)
	if dst.Buffer != activations.x.Buffer {
		s.integer.quantised = activations
	}
	if dst.Buffer != grouped.routing.Buffer && dst.Buffer != any(&s.scratch.memory) {
		s.integer.grouped = grouped
	}
}

// quantise records the quantisation of count slices of each row of x. A slice has n values, and the starts of two slices are stride values
// apart. It records nothing if the buffer of activations already holds the result.
func (s *step) quantise(x compute.Tensor, count, n, stride int) quantised {
	q := quantised{x, count, n, stride}
	if s.isQuantised(q) {
		return q
	}
	q.x.Cols = 0
	s.quantiseTo(q, 0)
	s.integer.quantised = q
	return q
}

// isQuantised reports whether the buffer of activations holds q.
func (s *step) isQuantised(q quantised) bool {
	q.x.Cols = 0
	return q == s.integer.quantised
}

// quantiseTo records a quantisation to an offset in the buffer of activations.
func (s *step) quantiseTo(q quantised, offset int) {
	if offset+q.bytes() > s.integer.activationsBytes {
		s.fail(fmt.Errorf("quantise %d rows of %d slices of %d values: the quantised activations need %d bytes, but their buffer has %d",
			q.x.Rows, q.count, q.n, offset+q.bytes(), s.integer.activationsBytes))
		return
	}
	a := quantiseArgs{uint32(q.n / blockValues), uint32(q.x.Rows), uint32(q.room()), uint32(q.x.Stride), uint32(q.stride)}
	lanes := 4 * q.n / blockValues * q.x.Rows
	recordInteger(s, "quantise", s.integer.shared.quantise, grid{x: (lanes + rowThreads - 1) / rowThreads, y: 1, z: q.count, simdgroups: rowThreads / 32}, &a,
		compute.Tensor{}, at(q.x), Binding{s.integer.activations, offset})
	s.integer.quantised = quantised{}
}

// inColumns records an operation in parts. Each part has as many rows as fit into the buffer of activations. A row has
// count slices of n values.
func (s *step) inColumns(rows, count, n int, op func(first, rows int)) {
	each := count * n / blockValues * columnBytes
	limit := s.integer.activationsBytes / each * columnRows
	if limit == 0 {
		s.fail(fmt.Errorf("quantise a row of %d slices of %d values: the quantised activations need %d bytes, but their buffer has %d", count, n, each, s.integer.activationsBytes))
		return
	}
	for first := 0; first < rows; first += limit {
		op(first, min(limit, rows-first))
	}
}

// integerMatMul is MatMul for weights of which some or all are packed.
func (s *step) integerMatMul(dst, x compute.Tensor, ws []compute.Weight) {
	for len(ws) > 0 {
		first, n := ws[0].(*weight), 1
		cols := first.out
		for n < min(len(ws), 3) && ws[n].Type() == ws[0].Type() {
			cols += ws[n].(*weight).out
			n++
		}
		part := dst.Slice(0, cols)
		if first.integer == nil {
			s.matMul(part, x, ws[:n])
		} else {
			s.integerProduct("product", part, x, ws[:n], false)
		}
		dst, ws = dst.Slice(cols, dst.Cols-cols), ws[n:]
	}
}

// integerProduct records the product of up to three packed weights of one type.
func (s *step) integerProduct(name string, dst, x compute.Tensor, ws []compute.Weight, add bool) {
	w := ws[0].(*weight)
	k, ok := s.rowKernel(dst, w)
	p := s.fold(dst, x, ok && suitsRow(k, w, &s.pending))
	if ok && (p.dst.Buffer != nil || !s.isQuantised(quantised{x.Head(1), 1, w.in, 0})) {
		s.rowProduct(name, k, dst, x, p, ws, rowArgs{add: flag(add)}, Binding{Buffer: w.buffer})
		return
	}
	s.inColumns(dst.Rows, 1, w.in, func(first, rows int) {
		q := s.quantise(rowsFrom(x, first, rows), 1, w.in, 0)
		s.integerProductOf(name, rowsFrom(dst, first, rows), q, ws, integerProductArgs{add: flag(add)})
	})
}

// integerProductOf records the product of weights with quantised activations. In the argument struct, the caller sets the fields that
// depend on the operation.
func (s *step) integerProductOf(name string, dst compute.Tensor, q quantised, ws []compute.Weight, a integerProductArgs) {
	w := ws[0].(*weight)
	k := forColumns(w.integer.product, dst.Rows)
	if dst.Rows > 4 && dst.Rows <= w.integer.wide.columns && w.out >= wideRows {
		k = w.integer.wide
	}
	a.blocks, a.rows, a.room, a.dstStride = uint32(w.in/blockValues), uint32(dst.Rows), uint32(q.room()), uint32(dst.Stride)
	a.columnTiles = uint32(k.tiles(dst.Rows))
	bound, out, groups := bindProducts(ws, k.groups)
	a.out = out
	a.tiles0, a.tiles1 = uint32(groups[0]), uint32(groups[1])
	g := grid{x: (groups[0] + groups[1] + groups[2]) * k.tiles(dst.Rows), y: 1, z: w.matrices, simdgroups: k.simdgroups}
	recordInteger(s, name, k.pipeline, g, &a, dst, bound[0], bound[1], bound[2], Binding{Buffer: s.integer.activations}, at(dst))
}

// rowKernel returns the kernel for a product of one row of activations. It returns false if another kernel is better, as for a weight of
// many rows: quantising the activations once is then cheaper than quantising them in every threadgroup.
func (s *step) rowKernel(dst compute.Tensor, w *weight) (integerKernel, bool) {
	k := w.integer.row
	if w.in/blockValues <= shortRow {
		k = w.integer.shortRow
	}
	return k, dst.Rows == 1 && w.out < wideRows && s.fitsTwice(k.rowMemory(w))
}

// rowMemory returns the threadgroup memory of a kernel that stages a row of activations and its rows of a weight.
func (k integerKernel) rowMemory(w *weight) int {
	return rowBytes(w.in) + k.rows/groupRows*groupBytes(w)
}

// fitsTwice reports whether two threadgroups with the given number of bytes of threadgroup memory run on a multiprocessor at the same time.
func (s *step) fitsTwice(bytes int) bool { return 2*bytes <= s.native.memory }

// suitsRow reports whether kernel k can compute a pending operation before its product with w.
func suitsRow(k integerKernel, w *weight, p *pending) bool {
	cols := w.matrices * w.in
	if p.gain != nil {
		longest := k.normRounds * 8 * p.threads()
		return p.gain.in == cols && cols <= longest && (p.latents.gain == nil || p.latents.gain.in <= longest)
	}
	return int(p.join.heads*p.join.valueDim) == cols && int(p.join.splits)*w.in <= maxFoldedJoin
}

// rowProduct records a product of one row. p is the operation that makes x if the kernel is to compute it too; otherwise it has no buffer.
// In the argument struct, the caller sets the fields that depend on the operation. table has the angles of Absorb's rotations.
func (s *step) rowProduct(name string, k integerKernel, dst, x compute.Tensor, p pending, ws []compute.Weight, a rowArgs, table Binding) {
	w := ws[0].(*weight)
	from, slots, gain, latent, latentGain, keys := at(x), s.slotMapping, table, table, table, table
	g := grid{y: 1, z: w.matrices, simdgroups: k.simdgroups, shared: k.rowMemory(w)}
	switch {
	case p.gain != nil:
		a.normThreads, a.eps = uint32(p.threads()), p.eps
		from, gain = at(p.src), Binding{Buffer: p.gain.buffer}
		if l := p.latents; l.gain != nil {
			a.latent, table = l.args(), Binding{Buffer: l.rope.buffer}
			latent, latentGain, keys, slots = at(l.t), Binding{Buffer: l.gain.buffer}, l.to.keys, l.to.slots
			g.x++
		}
	case p.dst.Buffer != nil:
		a.splits, a.valueDim = p.join.splits, p.join.valueDim
		from = Binding{Buffer: s.scratch.buffer}
	}
	bound, out, groups := bindProducts(ws, k.groups)
	a.out = out
	a.blocks, a.tiles0, a.tiles1 = uint32(w.in/blockValues), uint32(groups[0]), uint32(groups[1])
	g.x += groups[0] + groups[1] + groups[2]
	if a.dims > 0 {
		g.x++
	}
	recordInteger(s, name, k.pipeline, g, &a, dst, bound[0], bound[1], bound[2], from, table, slots, gain, at(x), at(dst), latent, latentGain, keys)
}

// integerMatrices records the products of a weight's matrices. Each matrix has its own slice of the rows of x.
func (s *step) integerMatrices(name string, dst, x compute.Tensor, w *weight, xMatrix, dstMatrix int) {
	k, ok := s.rowKernel(dst, w)
	p := s.fold(dst, x, ok && suitsRow(k, w, &s.pending))
	if ok {
		s.rowProduct(name, k, dst, x, p, []compute.Weight{w}, rowArgs{xMatrix: uint32(xMatrix), dstMatrix: uint32(dstMatrix)}, Binding{Buffer: w.buffer})
		return
	}
	s.inColumns(dst.Rows, w.matrices, w.in, func(first, rows int) {
		q := s.quantise(rowsFrom(x, first, rows), w.matrices, w.in, xMatrix)
		s.integerProductOf(name, rowsFrom(dst, first, rows), q, []compute.Weight{w}, integerProductArgs{dstMatrix: uint32(dstMatrix)})
	})
}

// integerGated records silu(gate·x)*(up·x). Both weights have the same type.
func (s *step) integerGated(dst, x compute.Tensor, gate, up *weight) {
	s.inColumns(dst.Rows, 1, gate.in, func(first, rows int) {
		s.quantise(rowsFrom(x, first, rows), 1, gate.in, 0)
		k := forColumns(gate.integer.gated, rows)
		dst := rowsFrom(dst, first, rows)
		a := integerGatedArgs{uint32(gate.in / blockValues), uint32(rows), uint32(gate.out), uint32(dst.Stride), uint32(k.tiles(rows))}
		recordInteger(s, "gated_product", k.pipeline, grid{x: k.groups(gate.out) * k.tiles(rows), y: 1, simdgroups: k.simdgroups}, &a, dst,
			Binding{Buffer: gate.buffer}, Binding{Buffer: up.buffer}, Binding{Buffer: s.integer.activations}, at(dst))
	})
}

// integerAbsorb is Absorb for a packed weight.
func (s *step) integerAbsorb(dst, q compute.Tensor, w *weight, r *rope) {
	if k, ok := s.rowKernel(dst, w); ok {
		a := rowArgs{xMatrix: uint32(w.in + r.dims), dstMatrix: uint32(w.out + r.dims), dims: uint32(r.dims)}
		s.rowProduct("absorb", k, dst, q, pending{}, []compute.Weight{w}, a, Binding{Buffer: r.buffer})
		return
	}
	a := rotateArgs{uint32(dst.Rows), uint32(w.in), uint32(r.dims), uint32(w.out), uint32(q.Stride), uint32(dst.Stride)}
	recordInteger(s, "rotate", s.integer.shared.rotate, grid{x: (dst.Rows*r.dims/2 + rowThreads - 1) / rowThreads, y: w.matrices, simdgroups: rowThreads / 32}, &a, dst,
		at(q), Binding{Buffer: r.buffer}, s.slotMapping, at(dst))
	s.integerMatrices("absorb", dst, q, w, w.in+r.dims, w.out+r.dims)
}

// maxNormCols is the longest row that norm_quantise takes.
const maxNormCols = 8192

// normQuantises reports whether RMSNorm of rows of cols values also quantises its result.
func (s *step) normQuantises(cols int) bool {
	return s.integer.shared != nil && cols%blockValues == 0 && cols <= maxNormCols
}

// integerNorm is RMSNorm that also quantises its result.
func (s *step) integerNorm(dst, src compute.Tensor, gain *weight, eps float32) {
	a := normArgs{uint32(gain.in), uint32(src.Stride), uint32(dst.Stride), eps, 0}
	s.inColumns(dst.Rows, 1, gain.in, func(first, rows int) {
		q := quantised{rowsFrom(dst, first, rows), 1, gain.in, 0}
		record(s, "rms_norm", s.integer.shared.norm, grid{x: rows, y: 1, simdgroups: normGroups(gain.in)}, &a,
			at(rowsFrom(src, first, rows)), Binding{Buffer: gain.buffer}, at(q.x), Binding{Buffer: s.integer.activations})
		q.x.Cols = 0
		s.integer.quantised = q
	})
}

// The argument structs of Latents in activations.h.
type (
	latentArgs struct {
		latent, dims uint32
		eps          float32
	}
	nativeLatentsArgs struct {
		latentArgs
		q, stride, dstStride uint32
	}
)

const (
	latentThreads = 128  // threads that normalise a latent: latent_threads of activations.h
	maxLatents    = 4096 // maximum number of values of a compressed query and of a latent
)

// latentRows has the rows [latent | key] of MLA's Latents, and the pages in which they are stored.
type latentRows struct {
	t    compute.Tensor
	gain *weight
	rope *rope
	to   stored
	eps  float32
}

func (l *latentRows) args() latentArgs {
	return latentArgs{uint32(l.gain.in), uint32(l.rope.dims), l.eps}
}

// nativeLatents is Latents for pages of float16. It also quantises the compressed queries. It returns false and records nothing if the
// portable kernel has to compute the latents.
func (s *step) nativeLatents(dst, t compute.Tensor, qGain compute.Weight, gain *weight, eps float32, r *rope, c *cache, layer int) bool {
	q := 0
	if qGain != nil {
		q = qGain.(*weight).in
	}
	if s.integer.shared == nil || c.shape.Type != gguf.TypeF16 || q%blockValues != 0 || gain.in%blockValues != 0 || r.dims%4 != 0 || max(q, gain.in) > maxLatents {
		return false
	}
	l := latentRows{t.Slice(q, gain.in+r.dims), gain, r, s.stored(c, layer), eps}
	if q == 0 {
		s.latents(0, t.Rows, compute.Tensor{}, t, nil, l)
		return true
	}
	s.pending = pending{dst: dst, src: t.Slice(0, q), gain: qGain.(*weight), eps: eps, latents: l}
	if t.Rows > 1 || overlap(dst, t) {
		s.flush()
	}
	return true
}

// storeLatents records Latents with compressed queries.
func (s *step) storeLatents(dst, queries compute.Tensor, gain *weight, l latentRows) {
	s.inColumns(queries.Rows, 1, gain.in, func(first, rows int) {
		s.latents(first, rows, dst, queries, gain, l)
		x := rowsFrom(dst, first, rows)
		x.Cols = 0
		s.integer.quantised = quantised{x, 1, gain.in, 0}
	})
}

// latents records Latents of the given number of rows. The parameter first is the index of the first of them. queries begins with the first
// column of each row. Without compressed queries, gain is nil.
func (s *step) latents(first, rows int, dst, queries compute.Tensor, gain *weight, l latentRows) {
	from := at(rowsFrom(queries, first, rows))
	slots := Binding{l.to.slots.Buffer, l.to.slots.Offset + slotBytes*first}
	a, g, to := nativeLatentsArgs{latentArgs: l.args(), stride: uint32(queries.Stride)}, grid{x: rows, y: 1, simdgroups: latentThreads / 32}, from
	gains := Binding{Buffer: l.gain.buffer}
	if gain != nil {
		a.q, a.dstStride, g.y = uint32(gain.in), uint32(dst.Stride), 2
		gains, to = Binding{Buffer: gain.buffer}, at(rowsFrom(dst, first, rows))
	}
	record(s, "latents", s.integer.shared.latents, g, &a, from, gains, Binding{Buffer: l.gain.buffer}, Binding{Buffer: l.rope.buffer}, slots,
		l.to.keys, to, Binding{Buffer: s.integer.activations})
}

// integerEmbed is Embed for a packed weight.
func (s *step) integerEmbed(dst compute.Tensor, w *weight, tokens Binding, tokenStep int) {
	a := packedArgs{uint32(w.in / blockValues), uint32(tokenStep), uint32(dst.Stride)}
	recordInteger(s, "embed", w.integer.embed, grid{x: (4*w.in/blockValues + rowThreads - 1) / rowThreads, y: dst.Rows, simdgroups: rowThreads / 32}, &a, dst,
		Binding{Buffer: w.buffer}, tokens, at(dst))
}

// floatRows is the maximum number of rows per dispatch that copies a weight in float32.
const floatRows = 16384

// floats returns w or, if w is packed, a copy in float32. The first step that needs the copy makes it. Routers need it, since their kernels
// read weights that are not packed. Experts with biases, or with another activation than SiLU, need it, since only the portable kernels
// compute such experts.
func (s *step) floats(w *weight) *weight {
	if w.integer == nil {
		return w
	}
	if w.floats != nil {
		return w.floats
	}
	made := &weight{kind: gguf.TypeF32, shape: w.shape, in: w.in, out: w.out, matrices: w.matrices, rowBytes: 4 * w.in}
	var err error
	if made.kernels, err = s.kernels.forWeight(weightShape{made.kind, w.in, w.out}); err == nil {
		made.buffer, err = s.newBuffer(w.matrices*w.out*made.rowBytes, Private, "make a float32 copy of a packed weight")
	}
	if err != nil {
		s.fail(err)
		return made
	}
	all := compute.Tensor{Buffer: &memory{buffer: made.buffer}, Rows: w.matrices * w.out, Stride: w.in}
	padded := (w.out + groupRows - 1) / groupRows * groupRows // a packed matrix has whole groups of rows
	for first := 0; first < all.Rows; first += floatRows {
		part := all.Span(first, min(first+floatRows, all.Rows))
		rows, ints := s.take(part.Rows)
		for i := range ints {
			row := (first+i)/w.out*padded + (first+i)%w.out
			ints[i] = int32(math.Float32bits(float32(row)))
		}
		s.integerEmbed(part, w, rows, 1)
	}
	w.floats = made
	return made
}

package metal

import (
	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
)

// nvidiaRows has the kernels of Top.
type nvidiaRows struct{ topParts, topJoin Pipeline }

const (
	topPartCount = 32 // parts into which a row of logits is divided
	topPartInts  = 3  // values of four bytes per part: the fields of TopPart in choose.cu
)

func (r *nvidiaRows) compile(dev Device, mode Mode) error {
	return makePipelines(dev, mode, "top.cu", map[string]*Pipeline{"top_parts": &r.topParts, "top_join": &r.topJoin})
}

type nvidiaTopArgs struct{ cols, parts, srcStride, dstStride uint32 }

func (n *nvidia) top(op *operation) {
	if op.k > 1 {
		n.portable().Top(op.dst, op.x, op.k)
		return
	}
	parts := Binding{Buffer: n.scratch.buffer}
	n.forget()
	n.inParts(op.dst.Rows, topPartInts*topPartCount, func(first, rows int) {
		a := nvidiaTopArgs{uint32(op.x.Cols), topPartCount, uint32(op.x.Stride), uint32(op.dst.Stride)}
		record(n.step, "top", n.topParts, grid{x: topPartCount, y: rows, simdgroups: 8}, &a, at(rowsFrom(op.x, first, rows)), parts)
		record(n.step, "top", n.topJoin, grid{x: rows, y: 1, simdgroups: 1}, &a, parts, at(rowsFrom(op.dst, first, rows)))
	})
}

type packedArgs struct{ blocks, tokenStride, dstStride uint32 }

func (n *nvidia) embed(op *operation) {
	if w, ok := op.weights[0].(*packedWeight); ok {
		n.embedPacked(op.dst, w, n.tokens, n.tokenStep)
	} else {
		n.portable().Embed(op.dst, op.weights[0])
	}
}

func (n *nvidia) embedPacked(dst compute.Tensor, w *packedWeight, tokens Binding, tokenStep int) {
	a := packedArgs{uint32(w.in / blockValues), uint32(tokenStep), uint32(dst.Stride)}
	recordFor(n, "embed", w.packed.embed, grid{x: (4*w.in/blockValues + rowThreads - 1) / rowThreads, y: dst.Rows, simdgroups: rowThreads / 32}, &a, dst,
		Binding{Buffer: w.buffer}, tokens, at(dst))
}

// maxNormCols is the longest row that norm_quantise takes.
const maxNormCols = 8192

func (n *nvidia) normQuantises(op *operation) bool {
	cols := weightOf(op.gain).in
	return n.shared != nil && cols%blockValues == 0 && cols <= maxNormCols
}

// norm records an RMSNorm, unless the next operation's kernel computes it.
func (n *nvidia) norm(op *operation) {
	switch {
	case op.continued:
	case !n.normQuantises(op):
		n.portable().RMSNorm(op.dst, op.x, op.gain, op.eps)
	default:
		gain := weightOf(op.gain)
		a := normArgs{uint32(gain.in), uint32(op.x.Stride), uint32(op.dst.Stride), op.eps, 0}
		n.forget()
		n.inColumns(op.dst.Rows, 1, gain.in, func(first, rows int) {
			dst := rowsFrom(op.dst, first, rows)
			record(n.step, "rms_norm", n.shared.norm, grid{x: rows, y: 1, simdgroups: normGroups(gain.in)}, &a,
				at(rowsFrom(op.x, first, rows)), Binding{Buffer: gain.buffer}, at(dst), Binding{Buffer: n.activations})
			n.quantised = quantisedRows(dst, gain.in)
		})
	}
}

// The argument structs of Latents in activations.h.
type (
	latentArgs struct {
		latent, dims uint32
		eps          float32
	}
	nvidiaLatentsArgs struct {
		latentArgs
		q, stride, dstStride uint32
	}
)

// maxLatents is the maximum number of values of a compressed query and of a latent.
const maxLatents = 4096

// latentRows has the rows [latent | key] of MLA's Latents, and the pages in which they are stored.
type latentRows struct {
	t    compute.Tensor
	gain *weight
	rope *rope
	to   stored
	args latentArgs
}

// latentsOf returns the rows of a Latents. It sets their slots in the slot mapping.
func (n *nvidia) latentsOf(op *operation) latentRows {
	n.locate(op.cache, op.layer)
	gain, r := weightOf(op.kvGain), op.rope.(*rope)
	return latentRows{
		t: op.x.Slice(queryCols(op), gain.in+r.dims), gain: gain, rope: r, to: n.stored(op.cache, op.layer),
		args: latentArgs{uint32(gain.in), uint32(r.dims), op.eps},
	}
}

// queryCols returns the number of values of Latents' compressed query.
func queryCols(op *operation) int {
	if op.gain == nil {
		return 0
	}
	return weightOf(op.gain).in
}

// computesLatents reports whether NVIDIA's kernel computes a Latents: if the pages are of float16,
// in blocks of whole values.
func (n *nvidia) computesLatents(op *operation) bool {
	q, latent := queryCols(op), weightOf(op.kvGain).in
	return n.shared != nil && op.cache.shape.Type == gguf.TypeF16 && q%blockValues == 0 && latent%blockValues == 0 && op.rope.Dims()%4 == 0 && max(q, latent) <= maxLatents
}

// latents records a Latents, unless the next operation's kernel computes it. It also quantises the
// compressed queries.
func (n *nvidia) latents(op *operation) {
	switch {
	case op.continued:
	case !n.computesLatents(op):
		n.portable().Latents(op.dst, op.x, op.gain, op.kvGain, op.eps, op.rope, op.cache, op.layer)
	case op.gain == nil:
		n.forget()
		n.storeLatents(op, n.latentsOf(op), 0, op.x.Rows)
	default:
		l := n.latentsOf(op)
		n.forget()
		n.inColumns(op.x.Rows, 1, queryCols(op), func(first, rows int) {
			n.storeLatents(op, l, first, rows)
			n.quantised = quantisedRows(rowsFrom(op.dst, first, rows), queryCols(op))
		})
	}
}

// storeLatents records the Latents of the given number of rows. The parameter first is the index of
// the first of them.
func (n *nvidia) storeLatents(op *operation, l latentRows, first, rows int) {
	from := at(rowsFrom(op.x, first, rows))
	slots := Binding{l.to.slots.Buffer, l.to.slots.Offset + slotBytes*first}
	a, g, to := nvidiaLatentsArgs{latentArgs: l.args, stride: uint32(op.x.Stride)}, grid{x: rows, y: 1, simdgroups: latentThreads / 32}, from
	latentGain := Binding{Buffer: l.gain.buffer}
	if op.gain != nil {
		a.q, a.dstStride, g.y = uint32(queryCols(op)), uint32(op.dst.Stride), 2
		to = at(rowsFrom(op.dst, first, rows))
	}
	record(n.step, "latents", n.shared.latents, g, &a, from, bind(op.gain, latentGain), latentGain, Binding{Buffer: l.rope.buffer}, slots,
		l.to.keys, to, Binding{Buffer: n.activations})
}

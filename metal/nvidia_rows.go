package metal

import (
	"fmt"
	"slices"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
)

// nvidiaRows has the kernels of RopeStore, by the number of values per head that they take at most.
type nvidiaRows struct {
	ropeStore [len(storedValues)]Pipeline
}

var storedValues = [...]int{128, 256, 512}

func (r *nvidiaRows) compile(dev Device, mode Mode) error {
	pipelines := map[string]*Pipeline{}
	for i, values := range storedValues {
		pipelines[fmt.Sprintf("rope_store_%d", values)] = &r.ropeStore[i]
	}
	return makeFilePipelines(dev, mode, "store.cu", pipelines)
}

// ropeStoreKernel returns the kernel for a RopeStore, or false if NVIDIA's kernels do not compute
// it: they store pages of float16, and a lane has both values of a pair of halves.
func (n *nvidia) ropeStoreKernel(o *ropeStore) (Pipeline, bool) {
	most := max(o.shape.KeyDim, o.shape.ValueDim)
	i := slices.IndexFunc(storedValues[:], func(values int) bool { return most <= values })
	ok := i >= 0 && o.cache.shape.Type == gguf.TypeF16 && o.shape.KeyDim%32 == 0 && o.shape.ValueDim%32 == 0
	if r := o.rope; ok && r != nil {
		half := r.dims / 2
		ok = r.dims <= o.shape.KeyDim && r.dims%2 == 0 && (!r.halves || half%32 == 0 && half&(half-1) == 0)
	}
	if !ok {
		return 0, false
	}
	return n.ropeStore[i], true
}

func (o *ropeStore) nvidia(n *nvidia) {
	if k, ok := n.ropeStoreKernel(o); ok {
		o.record(n.step, k)
	} else {
		o.portable(n.general)
	}
}

type packedArgs struct{ blocks, tokenStride, dstStride uint32 }

func (o *embedding) nvidia(n *nvidia) {
	if w, ok := o.table.(*packedWeight); ok {
		n.embedPacked(o.dst, w, n.tokens, n.tokenStep)
	} else {
		o.portable(n.general)
	}
}

func (n *nvidia) embedPacked(dst compute.Tensor, w *packedWeight, tokens Binding, tokenStep int) {
	blocks := w.in / blockValues
	a := packedArgs{blocks: uint32(blocks), tokenStride: uint32(tokenStep), dstStride: uint32(dst.Stride)}
	record(n.step, "embed", w.packed.embed, perLane(4*blocks, dst.Rows), &a, Binding{Buffer: w.buffer}, tokens, into(dst))
}

// maxNormCols is the longest row that norm_quantise takes.
const maxNormCols = 8192

func (n *nvidia) normQuantises(o *norm) bool {
	cols := weightOf(o.gain).in
	return n.anyType != nil && cols%blockValues == 0 && cols <= maxNormCols
}

// nvidia records an RMSNorm, unless the next operation's kernel computes it.
func (o *norm) nvidia(n *nvidia) {
	switch {
	case o.continued:
	case !n.normQuantises(o):
		o.portable(n.general)
	default:
		gain, a := weightOf(o.gain), o.args()
		n.inColumns(0, o.dst.Rows, 1, gain.in, 1, func(from, to int) {
			dst := o.dst.Span(from, to)
			record(n.step, "rms_norm", n.anyType.norm, grid{x: to - from, y: 1, simdgroups: normGroups(gain.in)}, &a,
				at(o.src.Span(from, to)), Binding{Buffer: gain.buffer}, into(dst), n.activations.read())
			if !o.add {
				n.hold(quantisedRows(dst, gain.in, 1), 0)
			}
		})
	}
}

// chainedNorms is the maximum number of norms of kernel norm_chain.
const chainedNorms = 3

// chain is RMSNorms of the same rows that one kernel computes, and a factor of one of the results.
type chain struct {
	norms      [chainedNorms]*norm
	count      int
	related    bool   // a norm reads what another one writes, or both write the same rows, or one writes what another one reads
	carried    uint32 // bit i is 1 if norm i reads the result of the one before
	scaled     int    // the number of the norm after which its dst is multiplied by scale, from 1; 0 for none
	scale      float32
	operations int // number of operations; 0 if the kernel does not compute the first ones
}

// chainArgs is ChainArgs of activations.h.
type chainArgs struct {
	cols, count, apart    uint32
	srcStride, dstStride  [chainedNorms]uint32
	carried, adds, scaled uint32
	scale, eps            float32
	quantised             uint32
}

// chainOf returns the norms at the beginning of some operations that one kernel computes, and the
// Affine of one of their results.
func (n *nvidia) chainOf(operations []call) (c chain) {
	taken := 0
	for ; taken < len(operations) && (taken == 0 || !operations[taken].splitBefore); taken++ {
		if o, ok := operations[taken].operation.(*norm); ok && c.count < chainedNorms && n.chains(&c, o) {
			c.norms[c.count] = o
			c.count++
			continue
		}
		o, ok := operations[taken].operation.(*affine)
		if !ok || c.count == 0 || c.scaled > 0 || o.bias != nil || o.scale == 0 || o.t != c.norms[c.count-1].dst {
			break
		}
		c.scaled, c.scale = c.count, o.scale
	}
	if taken > 1 {
		c.operations = taken
	}
	return c
}

// chains reports whether a norm can follow those of c, and notes how it is related to them. A
// thread has the same columns of a row in all norms, so rows in the same buffer must be the same.
// The kernel reads rows before all norms, except that a norm can follow the one that makes its
// rows.
func (n *nvidia) chains(c *chain, o *norm) bool {
	cols := weightOf(o.gain).in
	made := quantisedRows(o.dst, cols, 1)
	if o.continued || !n.normQuantises(o) || cols > maxFusedNorm || o.dst.Cols != cols || made.bytes() > n.activations.bytes || !sameOrApart(o.src, o.dst) {
		return false
	}
	related, carried := c.related, uint32(0)
	for i, before := range c.norms[:c.count] {
		reads := before.dst.Buffer == o.src.Buffer
		switch {
		case before.eps != o.eps || before.dst.Cols != cols || before.dst.Rows != o.dst.Rows:
			return false
		case !sameOrApart(before.dst, o.src) || !sameOrApart(before.dst, o.dst) || !sameOrApart(before.src, o.dst):
			return false
		case reads && i < c.count-1, o.add && before.dst.Buffer == o.dst.Buffer:
			return false
		case reads:
			carried = 1 << c.count
		}
		related = related || reads || before.dst.Buffer == o.dst.Buffer || before.src.Buffer == o.dst.Buffer
	}
	c.related, c.carried = related, c.carried|carried
	return true
}

// sameOrApart reports whether two tensors have the same rows or different buffers.
func sameOrApart(a, b compute.Tensor) bool {
	return a.Buffer != b.Buffer || a.Offset == b.Offset && a.Stride == b.Stride
}

// normChain records a chain. The result of the last norm is also quantised, unless it changes
// afterwards.
func (n *nvidia) normChain(c *chain) {
	first, last := c.norms[0], c.norms[c.count-1]
	a := chainArgs{
		cols: uint32(first.dst.Cols), count: uint32(c.count), apart: flag(!c.related), carried: c.carried, scaled: uint32(c.scaled), scale: c.scale, eps: first.eps,
		quantised: flag(!last.add && c.scaled < c.count),
	}
	g := grid{x: first.dst.Rows, y: 1, simdgroups: normGroups(first.dst.Cols)}
	if !c.related {
		g.y = c.count
	}
	var src, gain, dst [chainedNorms]Binding
	for i := range c.norms {
		o := c.norms[min(i, c.count-1)]
		src[i], gain[i], dst[i] = at(o.src), bind(o.gain, Binding{}), into(o.dst)
		a.srcStride[i], a.dstStride[i] = uint32(o.src.Stride), uint32(o.dst.Stride)
		if o.add && i < c.count {
			a.adds |= 1 << i
		}
	}
	record(n.step, "rms_norm", n.anyType.chain, g, &a, src[0], src[1], src[2], gain[0], gain[1], gain[2], dst[0], dst[1], dst[2], n.activations.read())
	if a.quantised != 0 {
		n.hold(quantisedRows(last.dst, last.dst.Cols, 1), 0)
	}
}

// gateRowsArgs is GateArgs of activations.h.
type gateRowsArgs struct{ blocks, rows, stride, gateStride uint32 }

// nvidia records a Gate. If the next operation multiplies the result, the kernel quantises it.
func (o *gating) nvidia(n *nvidia) {
	made := quantisedRows(o.dst, o.dst.Cols, 1)
	if !o.quantises || made.bytes() > n.activations.bytes {
		o.portable(n.general)
		return
	}
	blocks := o.dst.Cols / blockValues
	a := gateRowsArgs{blocks: uint32(blocks), rows: uint32(o.dst.Rows), stride: uint32(o.dst.Stride), gateStride: uint32(o.gate.Stride)}
	record(n.step, "sigmoid_gate", n.anyType.gate, perLane(4*blocks*o.dst.Rows, 1), &a, at(o.gate), into(o.dst), n.activations.read())
	n.hold(quantisedRows(o.dst, o.dst.Cols, 1), 0)
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

// kvPart returns the columns of the latents and their keys.
func (o *latents) kvPart() compute.Tensor { return o.t.Slice(o.queryCols(), o.kvGain.in+o.rope.dims) }

func (o *latents) args() latentArgs {
	return latentArgs{latent: uint32(o.kvGain.in), dims: uint32(o.rope.dims), eps: o.eps}
}

// computesLatents reports whether NVIDIA's kernel computes a Latents: if the pages are of float16,
// in blocks of whole values.
func (n *nvidia) computesLatents(o *latents) bool {
	q, latent := o.queryCols(), o.kvGain.in
	return n.anyType != nil && o.cache.shape.Type == gguf.TypeF16 && q%blockValues == 0 && latent%blockValues == 0 && o.rope.dims%4 == 0 && max(q, latent) <= maxLatents
}

// nvidia records a Latents, unless the next operation's kernel computes it. It also quantises the
// compressed queries.
func (o *latents) nvidia(n *nvidia) {
	switch q := o.queryCols(); {
	case o.continued:
	case !n.computesLatents(o):
		o.portable(n.general)
	case q == 0:
		n.storeLatents(o, 0, o.t.Rows)
	default:
		n.inColumns(0, o.t.Rows, 1, q, 1, func(from, to int) {
			n.storeLatents(o, from, to)
			n.hold(quantisedRows(o.dst.Span(from, to), q, 1), 0)
		})
	}
}

// storeLatents records the Latents of the rows [from, to).
func (n *nvidia) storeLatents(o *latents, from, to int) {
	n.locate(o.cache, o.layer)
	in, t, gain := n.stored(o.cache, o.layer), into(o.t.Span(from, to)), Binding{Buffer: o.kvGain.buffer}
	in.slots.Offset += slotBytes * from
	a, g := nvidiaLatentsArgs{latentArgs: o.args(), stride: uint32(o.t.Stride)}, grid{x: to - from, y: 1, simdgroups: latentThreads / 32}
	dst, qGain := t, gain // bound, but not used without queries
	if o.qGain != nil {
		a.q, a.dstStride, g.y = uint32(o.qGain.in), uint32(o.dst.Stride), 2
		dst, qGain.Buffer = into(o.dst.Span(from, to)), o.qGain.buffer
	}
	record(n.step, "latents", n.anyType.latents, g, &a, t, qGain, gain, Binding{Buffer: o.rope.buffer}, in.slots, in.keys, dst, n.activations.read())
}

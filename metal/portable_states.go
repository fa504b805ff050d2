package metal

import (
	"fmt"

	"github.com/ingot-run/ingot/engine/compute"
)

// The operations on recurrent states.
type (
	convolution struct {
		dst, x  compute.Tensor
		w, bias compute.Weight
		states  *states
		layer   int
	}
	deltaRule struct {
		fusion
		dst, qkv, gates compute.Tensor
		delta           compute.Delta
		states          *states
		layer           int
		norm            *gatedNorm // of the result if the kernel computes it too
	}
	scan struct {
		dst, xbc, dt compute.Tensor
		scan         compute.Scan
		states       *states
		layer        int
	}
	gatedNorm struct {
		fusion
		dst, x, gate compute.Tensor
		norm         compute.GatedNorm
	}
)

// stateOperations are the lists of these operations in a collector.
type stateOperations struct {
	convolutions []convolution
	deltaRules   []deltaRule
	scans        []scan
	gatedNorms   []gatedNorm
}

func (o *stateOperations) reset() stateOperations {
	return stateOperations{o.convolutions[:0], o.deltaRules[:0], o.scans[:0], o.gatedNorms[:0]}
}

func (c *collector) Convolve(dst, x compute.Tensor, w, bias compute.Weight, st compute.States, layer int) {
	collect(c, &c.convolutions, convolution{dst, x, w, bias, st.(*states), layer})
}

func (c *collector) DeltaNet(dst, qkv, gates compute.Tensor, d compute.Delta, st compute.States, layer int) {
	collect(c, &c.deltaRules, deltaRule{dst: dst, qkv: qkv, gates: gates, delta: d, states: st.(*states), layer: layer})
}

func (c *collector) Scan(dst, xbc, dt compute.Tensor, sc compute.Scan, st compute.States, layer int) {
	collect(c, &c.scans, scan{dst, xbc, dt, sc, st.(*states), layer})
}

func (c *collector) GatedNorm(dst, x, gate compute.Tensor, n compute.GatedNorm) {
	collect(c, &c.gatedNorms, gatedNorm{dst: dst, x: x, gate: gate, norm: n})
}

// stateKernels are the pipelines of these operations.
type stateKernels struct {
	made                bool
	convolve, gatedNorm Pipeline
	delta, scan         recurrenceKernels
}

// recurrenceKernels are the pipelines of a DeltaNet or a Scan.
type recurrenceKernels struct {
	names            struct{ prepare, chunks, rows string }
	prepare, chunks  Pipeline
	simdgroups       int      // maximum number of simdgroups per threadgroup of the next two
	rows             Pipeline // for any lengths of keys and values
	common           Pipeline // for the lengths below, which models have
	keyDim, valueDim int
}

const (
	gatedNormGroups = 4  // simdgroups per threadgroup of gated_norm
	rowCols         = 16 // columns of a state per simdgroup of recur
	rowGroups       = 2  // simdgroups per threadgroup of recur, unless a threadgroup must have all columns
	chunkGroups     = 4  // simdgroups per threadgroup of chunk_prepare and chunk_pass
	// The bytes of threadgroup memory. The kernels list their arrays.
	rowsBytes         = 4 * 2 * 2 * stateKeys
	chunkPrepareBytes = 4 * (128*12 + 64*68 + 4*64 + 128)
	chunkPassBytes    = 4 * ((stateKeys+64)*stateCols + 64*20)
)

// forStates makes the pipelines for recurrent states, once.
func (k *kernelSet) forStates() error {
	if k.states.made {
		return nil
	}
	m := maker{set: k}
	k.states.make(&m)
	return m.err
}

func (k *stateKernels) make(m *maker) {
	k.convolve, k.gatedNorm = m.pipeline("states.metal", "convolve"), m.pipeline("states.metal", "gated_norm")
	k.delta.make(m, "delta", 128, 128)
	k.scan.make(m, "scan", 128, 64)
	k.made = m.err == nil
}

func (r *recurrenceKernels) make(m *maker, rule string, keyDim, valueDim int) {
	r.keyDim, r.valueDim = keyDim, valueDim
	r.names.prepare, r.names.chunks, r.names.rows = rule+"_prepare", rule+"_chunks", rule+"_step"
	r.prepare, r.chunks = m.pipeline("recurrence_chunks.metal", r.names.prepare), m.pipeline("recurrence_chunks.metal", r.names.chunks)
	r.rows = m.pipeline("recurrence.metal", r.names.rows)
	r.common = m.pipeline("recurrence.metal", fmt.Sprintf("%s_%d_%d", r.names.rows, keyDim, valueDim))
	r.simdgroups = min(m.simdgroups(r.rows), m.simdgroups(r.common))
}

type convolveArgs struct {
	cols, xStride, dstStride, taps, room, biased uint32
}

func (o *convolution) portable(p *portable) {
	shape, list := &o.states.shape, p.listStates().convolved
	a := convolveArgs{
		cols: uint32(shape.ConvCols), xStride: uint32(o.x.Stride), dstStride: uint32(o.dst.Stride), taps: uint32(shape.ConvRows + 1),
		room: uint32(shape.ConvRows + shape.Drafts), biased: flag(o.bias != nil),
	}
	record(p.step, "convolve", p.kernels.states.convolve, byColumn(shape.ConvCols, list.count), &a,
		at(o.x), bind(o.w, Binding{}), bind(o.bias, at(o.x)), list.Binding, Binding{Buffer: o.states.inputs[o.layer]}, into(o.dst))
}

type gatedNormArgs struct {
	cols, dims, xStride, gateStride, dstStride, gains, gateFirst uint32
	eps                                                          float32
}

func (o *gatedNorm) portable(p *portable) {
	if err := p.kernels.forStates(); err != nil {
		p.fail(err)
		return
	}
	a := gatedNormArgs{
		cols: uint32(o.dst.Cols), dims: uint32(o.norm.Dims), xStride: uint32(o.x.Stride), gateStride: uint32(o.gate.Stride), dstStride: uint32(o.dst.Stride),
		gains: uint32(weightOf(o.norm.Gain).in), gateFirst: flag(o.norm.GateFirst), eps: o.norm.Eps,
	}
	runs := o.dst.Cols / o.norm.Dims
	record(p.step, "gated_norm", p.kernels.states.gatedNorm, grid{x: (runs + gatedNormGroups - 1) / gatedNormGroups, y: o.dst.Rows, simdgroups: gatedNormGroups}, &a,
		at(o.x), at(o.gate), bind(o.norm.Gain, Binding{}), into(o.dst))
}

// recurrence is a DeltaNet or a Scan. Their kernels have the same arguments.
type recurrence struct {
	kernels           *recurrenceKernels
	dst, in, gates    compute.Tensor
	decay, bias, skip compute.Weight
	queries           int // columns of in at which queries, keys and values begin
	keys, values      int
	keyHeads          int
	grouped           bool
	eps               float32
	states            *states
	layer             int
}

func (o *deltaRule) portable(p *portable) {
	r := o.recurrence(p)
	p.recur(&r)
}

func (o *deltaRule) recurrence(p *portable) recurrence {
	d, keys := &o.delta, o.delta.KeyHeads*o.states.shape.KeyDim
	return recurrence{
		kernels: &p.kernels.states.delta, dst: o.dst, in: o.qkv, gates: o.gates, decay: d.Decay, bias: d.Bias, skip: d.Bias, // skip is bound, but not used
		keys: keys, values: 2 * keys, keyHeads: d.KeyHeads, grouped: d.Grouped, eps: d.Eps, states: o.states, layer: o.layer,
	}
}

func (o *scan) portable(p *portable) {
	shape := &o.states.shape
	keys := shape.Heads * shape.ValueDim
	p.recur(&recurrence{
		kernels: &p.kernels.states.scan, dst: o.dst, in: o.xbc, gates: o.dt, decay: o.scan.Decay, bias: o.scan.Bias, skip: o.scan.Skip,
		keys: keys, queries: keys + o.scan.Groups*shape.KeyDim, keyHeads: o.scan.Groups, grouped: true, states: o.states, layer: o.layer,
	})
}

type recurrenceArgs struct {
	stride, gateStride, dstStride, queries, keys, values, keyHeads, heads, keyDim, valueDim, grouped, logRows uint32
	eps                                                                                                       float32
}

func (r *recurrence) args() recurrenceArgs {
	s := &r.states.shape
	return recurrenceArgs{
		stride: uint32(r.in.Stride), gateStride: uint32(r.gates.Stride), dstStride: uint32(r.dst.Stride), queries: uint32(r.queries), keys: uint32(r.keys),
		values: uint32(r.values), keyHeads: uint32(r.keyHeads), heads: uint32(s.Heads), keyDim: uint32(s.KeyDim), valueDim: uint32(s.ValueDim),
		grouped: flag(r.grouped), logRows: uint32(s.Drafts), eps: r.eps,
	}
}

// recur records the chunks of prompts, in parts for which scratch memory has room, and then the
// generated rows.
func (p *portable) recur(r *recurrence) {
	lists := p.listStates()
	p.recurPrompts(r, lists)
	if lists.generated.count > 0 {
		p.recurRows(r, lists)
	}
}

func (p *portable) recurPrompts(r *recurrence, lists *stateLists) {
	each := chunkValues * r.states.shape.Heads
	room := (p.scratch.bytes/4 - aligned) / each
	if room == 0 {
		p.fail(fmt.Errorf("compute a chunk of a prompt: it needs %d bytes of scratch memory, but only %d are allocated", 4*each, p.scratch.bytes))
		return
	}
	parts(0, lists.chunked, room, func(from, to int) { p.recurChunks(r, from, to) })
}

// recurChunks records the chunks [from, to) of the step.
func (p *portable) recurChunks(r *recurrence, from, to int) {
	shape, a, chunks := &r.states.shape, r.args(), p.states.chunks
	chunks.Offset += 4 * chunkInts * from
	record(p.step, r.kernels.names.prepare, r.kernels.prepare, grid{x: to - from, y: shape.Heads, simdgroups: chunkGroups, shared: chunkPrepareBytes}, &a,
		at(r.in), at(r.gates), bind(r.decay, Binding{}), bind(r.bias, Binding{}), chunks, p.scratch.write())
	runs := p.runsOf(from, to)
	g := grid{x: (shape.ValueDim + stateCols - 1) / stateCols, y: shape.Heads, z: runs.count, simdgroups: chunkGroups, shared: chunkPassBytes}
	record(p.step, r.kernels.names.chunks, r.kernels.chunks, g, &a,
		at(r.in), runs.Binding, p.scratch.read(), r.matrices(), r.logs(), bind(r.skip, Binding{}), into(r.dst))
}

// recurRows records the generated rows. If a log is read and written in the step, a threadgroup has
// all columns of a head, since it must have read the log before it writes to it.
func (p *portable) recurRows(r *recurrence, lists *stateLists) {
	shape, a := &r.states.shape, r.args()
	all := (shape.ValueDim + rowCols - 1) / rowCols
	groups := min(all, rowGroups)
	if lists.rereads {
		groups = all
	}
	if groups > r.kernels.simdgroups {
		p.fail(fmt.Errorf("compute drafts of a recurrent layer: a matrix of %d columns needs %d simdgroups per threadgroup, but the device allows %d; use --draft off",
			shape.ValueDim, groups, r.kernels.simdgroups))
		return
	}
	kernel := r.kernels.rows
	if shape.KeyDim == r.kernels.keyDim && shape.ValueDim == r.kernels.valueDim {
		kernel = r.kernels.common
	}
	g := grid{x: (all + groups - 1) / groups, y: shape.Heads, z: lists.generated.count, simdgroups: groups, shared: rowsBytes}
	record(p.step, r.kernels.names.rows, kernel, g, &a,
		at(r.in), at(r.gates), bind(r.decay, Binding{}), bind(r.bias, Binding{}), bind(r.skip, Binding{}), lists.generated.Binding, r.matrices(), r.logs(), into(r.dst))
}

func (r *recurrence) matrices() Binding { return Binding{Buffer: r.states.matrices[r.layer]} }

func (r *recurrence) logs() Binding { return Binding{Buffer: r.states.logs[r.layer]} }

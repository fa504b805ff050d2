package cpu

import (
	"runtime"
	"sync/atomic"

	"github.com/ingot-run/ingot/engine/compute"
)

// residentBytes is how many bytes of weights the processor's caches are taken to hold, so that every thread may read all of
// them in a step.
const residentBytes = 16 << 20

// lanes is compute.Step by rows: every thread carries out the operations of a step for rows of its own. Rows meet only in
// attention, which waits for the lanes that have earlier rows of the same sequence. It suits small models: what their
// operations cost is not to read weights but to hand activations from one thread to another.
type lanes struct {
	whole   *step // does operations of fewer rows than there are lanes, spread by weights
	lanes   []lane
	pending []operation // not carried out yet; all have the same number of rows
	rows    int         // of these
}

// lane is one thread's share of the rows.
type lane struct {
	backend Backend // of one thread
	batch   compute.Batch
	after   int          // the first lane that has rows of its first sequence
	_       [64]byte     // others look at what follows all the time: it has a cache line of its own
	reached atomic.Int64 // how many of the pending attentions find in the cache what the lane's rows store there
	_       [56]byte
}

// operation is an operation of a step, to be carried out later.
type operation struct {
	kind      operationKind
	dst, x, r compute.Tensor
	a, b      compute.Weight
	ws        []compute.Weight
	eps       float32
	rope      compute.Rope
	cache     compute.Cache
	layer     int
	attention compute.AttentionShape
	route     compute.RouteShape
	experts   compute.Experts
	rows      []int32
	k         int
}

// operationKind names an operation.
type operationKind int

const (
	opEmbed operationKind = iota
	opGather
	opRMSNorm
	opMatMul
	opMatMulAdd
	opGatedMatMul
	opRopeStore
	opLatents
	opAbsorb
	opAttention
	opExpand
	opRoute
	opGatedExperts
	opExpertsAdd
	opTop
)

func newLanes(b *Backend) *lanes {
	l := &lanes{whole: &b.step, lanes: make([]lane, len(b.scratch))}
	for i := range l.lanes {
		one := &l.lanes[i].backend
		one.kernels, one.pool, one.scratch = b.kernels, newPool(1), make([]scratch, 1)
		one.step.begin(one)
	}
	return l
}

// takes tells whether a batch is to be computed by rows.
func (l *lanes) takes(b *compute.Batch) bool {
	n := len(l.lanes)
	return n > 1 && len(b.Tokens) >= 2*n && l.whole.weightBytes <= residentBytes && b.Trace == nil
}

// begin cuts a batch into the lanes' own.
func (l *lanes) begin(b *compute.Batch) {
	l.whole.start(b)
	n := len(b.Tokens)
	for i := range l.lanes {
		own := &l.lanes[i].batch
		from, to := l.span(i, n)
		own.Tokens, own.Positions, own.From = b.Tokens[from:to], b.Positions[from:to], rowsFrom(b.From, from, to)
		own.Seqs = own.Seqs[:0]
		first := 0
		for _, seq := range b.Seqs {
			at, end := max(first, from), min(first+seq.Rows, to)
			if at < end {
				if len(own.Seqs) == 0 {
					l.lanes[i].after = l.of(first, n)
				}
				own.Seqs = append(own.Seqs, compute.Seq{Rows: end - at, Pages: seq.Pages})
			}
			first += seq.Rows
		}
		l.lanes[i].backend.step.start(own)
	}
}

// span is the rows of lane i, of so many.
func (l *lanes) span(i, rows int) (from, to int) {
	return rows * i / len(l.lanes), rows * (i + 1) / len(l.lanes)
}

// of is the lane of a row, of so many.
func (l *lanes) of(row, rows int) int { return ((row+1)*len(l.lanes) - 1) / rows }

// rowsFrom is a view of rows from to to of a tensor.
func rowsFrom(t compute.Tensor, from, to int) compute.Tensor {
	t.Offset += from * t.Stride
	t.Rows = to - from
	return t
}

// add puts an operation off. Where it has too few rows for lanes, it is done at once.
func (l *lanes) add(o operation) {
	rows := o.dst.Rows
	if rows != l.rows || !l.apart(&o) {
		l.flush()
	}
	if rows < len(l.lanes) {
		o.run(l.whole, 0, rows)
		return
	}
	l.rows = rows
	l.pending = append(l.pending, o)
}

// apart tells whether each lane gathers from its own rows, as all other operations do.
func (l *lanes) apart(o *operation) bool {
	for i, r := range o.rows {
		if l.of(i, l.rows) != l.of(int(r), l.rows) {
			return false
		}
	}
	return true
}

// flush carries out what is pending.
func (l *lanes) flush() {
	if len(l.pending) == 0 {
		return
	}
	for i := range l.lanes {
		l.lanes[i].reached.Store(0)
	}
	l.whole.pool.do(l, len(l.lanes))
	l.pending = l.pending[:0]
}

// part carries the pending operations out for the rows of a lane. Whichever thread it is, the lane's memory is its own.
func (l *lanes) part(_, i int) {
	from, to := l.span(i, l.rows)
	own := &l.lanes[i]
	attentions := int64(0)
	for k := range l.pending {
		o := &l.pending[k]
		if o.kind == opAttention {
			attentions++
			own.reached.Store(attentions)
			for before := own.after; before < i; before++ {
				l.lanes[before].await(attentions)
			}
		}
		o.run(&own.backend.step, from, to)
	}
}

// await waits until a lane has stored what so many of the pending attentions take in. A lane waits for earlier ones alone,
// of which the first waits for none: whatever thread is through with its own takes over the first that is not begun.
func (l *lane) await(attentions int64) {
	for spins := 0; l.reached.Load() < attentions; spins++ {
		pause()
		if spins >= callerSpins {
			runtime.Gosched()
		}
	}
}

// run carries the operation out for some of its rows.
func (o *operation) run(s *step, from, to int) {
	dst, x, r := rowsFrom(o.dst, from, to), rowsFrom(o.x, from, to), rowsFrom(o.r, from, to)
	switch o.kind {
	case opEmbed:
		s.Embed(dst, o.a)
	case opGather:
		s.Gather(dst, o.x, o.rows[from:to])
	case opRMSNorm:
		s.RMSNorm(dst, x, o.a, o.eps)
	case opMatMul:
		s.MatMul(dst, x, o.ws...)
	case opMatMulAdd:
		s.MatMulAdd(dst, x, o.a)
	case opGatedMatMul:
		s.GatedMatMul(dst, x, o.a, o.b)
	case opRopeStore:
		s.RopeStore(dst, o.attention, o.rope, o.cache, o.layer)
	case opLatents:
		s.Latents(dst, o.a, o.b, o.eps, o.rope, o.cache, o.layer)
	case opAbsorb:
		s.Absorb(dst, x, o.a, o.rope)
	case opAttention:
		s.Attention(dst, x, o.attention, o.cache, o.layer)
	case opExpand:
		s.Expand(dst, x, o.a)
	case opRoute:
		s.Route(dst, x, o.a, o.b, o.route)
	case opGatedExperts:
		s.GatedExperts(dst, x, r, o.experts)
	case opExpertsAdd:
		s.ExpertsAdd(dst, x, r, o.experts)
	case opTop:
		s.Top(dst, x, o.k)
	}
}

// Embed implements compute.Step.
func (l *lanes) Embed(dst compute.Tensor, table compute.Weight) {
	l.add(operation{kind: opEmbed, dst: dst, a: table})
}

// Gather implements compute.Step.
func (l *lanes) Gather(dst, src compute.Tensor, rows []int32) {
	l.add(operation{kind: opGather, dst: dst, x: src, rows: rows})
}

// RMSNorm implements compute.Step.
func (l *lanes) RMSNorm(dst, src compute.Tensor, gain compute.Weight, eps float32) {
	l.add(operation{kind: opRMSNorm, dst: dst, x: src, a: gain, eps: eps})
}

// MatMul implements compute.Step.
func (l *lanes) MatMul(dst, x compute.Tensor, w ...compute.Weight) {
	l.add(operation{kind: opMatMul, dst: dst, x: x, ws: w})
}

// MatMulAdd implements compute.Step.
func (l *lanes) MatMulAdd(dst, x compute.Tensor, w compute.Weight) {
	l.add(operation{kind: opMatMulAdd, dst: dst, x: x, a: w})
}

// GatedMatMul implements compute.Step.
func (l *lanes) GatedMatMul(dst, x compute.Tensor, gate, up compute.Weight) {
	l.add(operation{kind: opGatedMatMul, dst: dst, x: x, a: gate, b: up})
}

// RopeStore implements compute.Step.
func (l *lanes) RopeStore(qkv compute.Tensor, shape compute.AttentionShape, table compute.Rope, kv compute.Cache, layer int) {
	l.add(operation{kind: opRopeStore, dst: qkv, attention: shape, rope: table, cache: kv, layer: layer})
}

// Latents implements compute.Step.
func (l *lanes) Latents(a compute.Tensor, qGain, kvGain compute.Weight, eps float32, table compute.Rope, kv compute.Cache, layer int) {
	l.add(operation{kind: opLatents, dst: a, a: qGain, b: kvGain, eps: eps, rope: table, cache: kv, layer: layer})
}

// Absorb implements compute.Step.
func (l *lanes) Absorb(dst, q compute.Tensor, kb compute.Weight, table compute.Rope) {
	l.add(operation{kind: opAbsorb, dst: dst, x: q, a: kb, rope: table})
}

// Attention implements compute.Step.
func (l *lanes) Attention(dst, q compute.Tensor, shape compute.AttentionShape, kv compute.Cache, layer int) {
	l.add(operation{kind: opAttention, dst: dst, x: q, attention: shape, cache: kv, layer: layer})
}

// Expand implements compute.Step.
func (l *lanes) Expand(dst, ctx compute.Tensor, vb compute.Weight) {
	l.add(operation{kind: opExpand, dst: dst, x: ctx, a: vb})
}

// Route implements compute.Step.
func (l *lanes) Route(dst, x compute.Tensor, router, bias compute.Weight, shape compute.RouteShape) {
	l.add(operation{kind: opRoute, dst: dst, x: x, a: router, b: bias, route: shape})
}

// GatedExperts implements compute.Step.
func (l *lanes) GatedExperts(dst, x, routing compute.Tensor, e compute.Experts) {
	l.add(operation{kind: opGatedExperts, dst: dst, x: x, r: routing, experts: e})
}

// ExpertsAdd implements compute.Step.
func (l *lanes) ExpertsAdd(dst, h, routing compute.Tensor, e compute.Experts) {
	l.add(operation{kind: opExpertsAdd, dst: dst, x: h, r: routing, experts: e})
}

// Top implements compute.Step.
func (l *lanes) Top(dst, logits compute.Tensor, k int) {
	l.add(operation{kind: opTop, dst: dst, x: logits, k: k})
}

// Checkpoint implements compute.Step. Batches with a trace are not computed by rows.
func (l *lanes) Checkpoint(int, string, compute.Tensor) {}

// Submit implements compute.Step.
func (l *lanes) Submit() error { return l.Run() }

// Run implements compute.Step.
func (l *lanes) Run() error {
	l.flush()
	return nil
}

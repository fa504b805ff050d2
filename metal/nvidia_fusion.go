package metal

import (
	"slices"

	"github.com/ingot-run/ingot/engine/compute"
)

// A kernel for one row often takes less time than its launch, so some kernels for one row also
// compute the operation before theirs:
//   - a product (MatMul, MatMulAdd, Expand) computes the RMSNorm, the Latents, or the join of the
//     attention's splits that make its row, and a GatedMatMul the RMSNorm,
//   - the routing computes the RMSNorm, and leaves the choice of the experts, by its logits, to the
//     kernels of the experts,
//   - GatedExperts and then ExpertsAdd make this choice.
//
// For up to fewRouted rows and fewLogits logits, the kernel of the logits computes the RMSNorm too.
//
// For any number of rows, the kernel of the logits also computes the gate of the shared experts,
// and GatedExperts multiplies by it, so that ExpertsAdd follows GatedExperts. DeltaNet on generated
// rows also computes the GatedNorm after it.
//
// For some rows, GatedMatMul, Attention, GatedExperts, DeltaNet, GatedNorm and Gate also write
// their result quantised, if the next operation multiplies it. Kernels that compute for long call
// start_next only when they have computed it: threadgroups of a product that start earlier take the
// multiprocessors that happen to be free, so that some compute several of them and others none.
//
// fuse decides this for the operations of a step, before they are recorded.

const (
	// maxFusedNorm is the maximum number of columns of an RMSNorm that the next operation's kernel
	// computes. A threadgroup of that kernel has 256 threads. Each thread takes two rounds of 8
	// values.
	maxFusedNorm = 4096
	// maxFusedJoin is the maximum number of values, over all splits, for which a product's kernel
	// joins attention. Each of its threadgroups joins all of them, so for more values a separate
	// kernel is faster.
	maxFusedJoin = 1 << 12
	// maxQuantising is the maximum number of rows of which a kernel also writes its result
	// quantised. A separate kernel takes a smaller share of the time of more rows, and writes more
	// bytes at once. For one row it is faster, too, except after DeltaNet, GatedNorm and Gate
	// (docs/notes/nvidia.md).
	maxQuantising = 512
)

// fusion is how an operation shares a kernel with its neighbours. fuse sets it.
type fusion struct {
	// prior is the operation before this one if the kernel of this operation also computes it, or
	// computes the rest of it. That operation then has continued set.
	prior     operation
	continued bool
	// quantises is set if the kernel also writes its result quantised, for the next operation.
	quantises bool
}

func (f *fusion) fused() *fusion { return f }

// fuse returns the operations without those that others compute completely.
func (n *nvidia) fuse(operations []call) []call {
	for i := 0; i+3 < len(operations); i++ {
		if n.gatesShared(operations[i : i+4]) {
			operations = slices.Delete(operations, i+2, i+4)
		}
	}
	for i := 0; i+1 < len(operations); i++ {
		if n.normsDelta(operations[i].operation, operations[i+1].operation) {
			operations = slices.Delete(operations, i+1, i+2)
		}
	}
	for i := 1; i < len(operations); i++ {
		prior, op := operations[i-1].operation, operations[i].operation
		switch {
		case n.fusible(prior, op):
			op.(interface{ fused() *fusion }).fused().prior = prior
			prior.(interface{ fused() *fusion }).fused().continued = true
		case n.readsQuantised(prior, op):
			prior.(interface{ fused() *fusion }).fused().quantises = true
		}
		if o, ok := op.(*route); ok {
			o.quantises = true
		}
		if o, ok := prior.(*route); ok {
			gated, ok := op.(*gatedExperts)
			o.quantises = !ok || same(gated.x, o.x) // other experts' rows are quantised already
		}
	}
	return operations
}

// gatesShared reports whether four operations are Route, GatedExperts, the product that makes the
// gate of the shared experts, and Gate, and whether the kernels of the first two can compute all of
// them. If so, it lets them do so.
func (n *nvidia) gatesShared(operations []call) bool {
	route, routes := operations[0].operation.(*route)
	experts, gates := operations[1].operation.(*gatedExperts)
	logit, multiplies := operations[2].operation.(*product)
	gate, ok := operations[3].operation.(*gating)
	if !routes || !gates || !multiplies || !ok {
		return false
	}
	router, w := weightOf(route.router), weightOf(logit.weights[0])
	if _, narrow := narrowFloats(logit); !narrow || !computesRoute(router, route.shape) {
		return false
	}
	first, packed := experts.experts.Gate.(*packedWeight)
	if !packed {
		return false
	}
	shared, separate := packedShared(first, experts.experts.SharedGate, experts.experts.SharedUp)
	routed := experts.used() * first.out
	if shared == nil || separate || w.in != router.in || w.out != 1 || logit.dst.Cols != 1 || gate.gate != logit.dst ||
		logit.x != route.x || experts.x != route.x || !same(experts.routing, route.dst) {
		return false
	}
	if made := logit.dst.Buffer; made == route.x.Buffer || made == route.dst.Buffer || made == experts.dst.Buffer || gate.dst != experts.dst.Slice(routed, shared.out) {
		return false
	}
	route.gate, experts.gate = logit, gate
	return true
}

// fusible reports whether the kernel of op, which has one row, can also compute prior, or what is
// left of it.
func (n *nvidia) fusible(prior, op operation) bool {
	switch op := op.(type) {
	case *product:
		return n.fusesProduct(prior, op.dst, op.x, op.weights[0])
	case *expand:
		return n.fusesProduct(prior, op.dst, op.ctx, op.vb)
	case *gatedProduct:
		w, packed := op.gate.(*packedWeight)
		norm, ok := prior.(*norm)
		if !ok || !packed {
			return false
		}
		k, ok := n.rowGatedKernel(op, w)
		return ok && n.normInProduct(norm, op.dst, op.x, w.in) && w.in <= k.longestNorm(norm.threads())
	case *route:
		w, plain := op.router.(*weight)
		norm, ok := prior.(*norm)
		if !ok || !plain || !computesRoute(w, op.shape) {
			return false
		}
		if op.gate != nil && op.gate.dst.Buffer == norm.src.Buffer { // some threadgroups still read src
			return false
		}
		return n.normInProduct(norm, op.dst, op.x, w.in) || n.normInRouting(norm, op.x, w.in, op.shape.Experts)
	case *gatedExperts:
		w, packed := op.experts.Gate.(*packedWeight)
		route, ok := prior.(*route)
		return ok && packed && route.prior != nil && op.dst.Rows == 1 && same(route.dst, op.routing) &&
			n.fitsTwice(w.packed.rowGated.gatedMemory(w)+choiceBytes(route.shape))
	case *expertsAdd:
		d, _, packed := op.downWeights()
		gated, ok := prior.(*gatedExperts)
		if !ok || !packed || gated.prior == nil {
			return false
		}
		choice := gated.prior.(*route)
		return choice.dst == op.routing && d.choices() <= maxRowChoices && d.rowMemory()+choiceBytes(choice.shape) <= n.memory
	}
	return false
}

// readsQuantised reports whether op multiplies the quantised result of prior, whose kernel can
// write it.
func (n *nvidia) readsQuantised(prior, op operation) bool {
	switch op := op.(type) {
	case *product:
		w, packed := op.weights[0].(*packedWeight)
		if !packed || partsOf(w.kind) > 1 {
			return false
		}
		if op.dst.Rows > maxQuantising {
			return false
		}
		_, makesRow := n.rowKernel(op.dst, w)
		switch prior := prior.(type) {
		case *deltaRule:
			return !makesRow && prior.norm != nil && same(prior.dst, op.x) && prior.dst.Cols == w.in
		case *gatedNorm:
			return !makesRow && n.normsHeads(prior) && same(prior.dst, op.x) && prior.dst.Cols == w.in
		case *gating:
			return !makesRow && same(prior.dst, op.x) && prior.dst.Cols == w.in && prior.gate.Cols == w.in
		}
		if op.dst.Rows == 1 {
			return false
		}
		switch prior := prior.(type) {
		case *gatedProduct:
			return same(prior.dst, op.x) && weightOf(prior.gate).out == w.in
		case *attention:
			return same(prior.dst, op.x) && prior.shape.Heads*prior.shape.ValueDim == w.in
		}
	case *expertsAdd:
		d, separate, packed := op.downWeights()
		gated, ok := prior.(*gatedExperts)
		return ok && packed && !separate && op.dst.Rows <= maxQuantising && partsOf(d.kind) == 1 && gated.prior == nil && same(gated.dst, op.h) &&
			weightOf(gated.experts.Gate).out == d.in && (d.shared == nil || d.shared.in == d.in)
	}
	return false
}

// fusesProduct reports whether the kernel of a product can compute prior, which makes its row x.
func (n *nvidia) fusesProduct(prior operation, dst, x compute.Tensor, first compute.Weight) bool {
	w, ok := first.(*packedWeight)
	if !ok {
		return false
	}
	k, ok := n.rowKernel(dst, w)
	cols := w.matrices * w.in
	switch prior := prior.(type) {
	case *attention:
		splits := n.splitsOf(prior)
		return ok && same(prior.dst, x) && splits.count > 0 && prior.shape.Heads*prior.shape.ValueDim == cols && prior.shape.ValueDim%blockValues == 0 &&
			splits.count*w.in <= maxFusedJoin
	case *norm:
		return ok && n.normInProduct(prior, dst, x, cols) && cols <= k.longestNorm(prior.threads())
	case *latents:
		return ok && n.latentsInProduct(prior, dst, x, cols) && max(cols, prior.kvGain.in) <= k.longestNorm(latentThreads)
	}
	return false
}

// normInProduct reports whether the kernel of a product or of a routing of the given number of
// columns can compute an RMSNorm of one row.
func (n *nvidia) normInProduct(o *norm, dst, x compute.Tensor, cols int) bool {
	return !o.add && o.dst.Rows == 1 && same(o.dst, x) && n.normQuantises(o) && weightOf(o.gain).in == cols && cols <= maxFusedNorm &&
		!overlap(o.dst, o.src) && !overlap(dst, o.src)
}

// normInRouting reports whether the kernel of a routing of the given number of columns to experts
// can compute an RMSNorm of a few rows.
func (n *nvidia) normInRouting(o *norm, x compute.Tensor, cols, experts int) bool {
	rows, made := o.dst.Rows, quantisedRows(x, cols, 1)
	return !o.add && rows > 1 && rows <= fewRouted && rows*experts <= fewLogits && rows == x.Rows && same(o.dst, x) && o.dst.Stride == x.Stride && n.normQuantises(o) &&
		weightOf(o.gain).in == cols && cols <= maxFusedNorm && o.dst.Buffer != o.src.Buffer && made.bytes() <= n.activations.bytes
}

// latentsInProduct reports whether the kernel of a product of the given number of columns can
// compute a Latents of one row, with a compressed query.
func (n *nvidia) latentsInProduct(o *latents, dst, x compute.Tensor, cols int) bool {
	return o.qGain != nil && o.t.Rows == 1 && same(o.dst, x) && n.computesLatents(o) && o.qGain.in == cols && !overlap(o.dst, o.t) && !overlap(dst, o.t)
}

func (o *norm) threads() int { return 32 * normGroups(weightOf(o.gain).in) }

// longestNorm returns the maximum length of a row that the kernel normalises as part of a product.
// threads is the number of threads that normalise it.
func (k packedKernel) longestNorm(threads int) int { return k.normRounds * 8 * threads }

// same reports whether two tensors begin at the same value.
func same(a, b compute.Tensor) bool { return a.Buffer == b.Buffer && a.Offset == b.Offset }

func overlap(a, b compute.Tensor) bool {
	return a.Buffer == b.Buffer && a.Offset < b.Offset+b.Cols && b.Offset < a.Offset+a.Cols
}

package metal

import "github.com/ingot-run/ingot/engine/compute"

// A kernel for one row often takes less time than its launch, so some kernels for one row also
// compute the operation before theirs:
//   - a product (MatMul, MatMulAdd, Expand) computes the RMSNorm, the Latents, or the join of the
//     attention's splits that make its row,
//   - the routing computes the RMSNorm, and leaves the choice of the experts, by its logits, to the
//     kernels of the experts,
//   - GatedExperts and then ExpertsAdd make this choice.
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
)

func (n *nvidia) fuse() {
	for i := 1; i < len(n.operations); i++ {
		prior, op := &n.operations[i-1], &n.operations[i]
		if op.dst.Rows == 1 && n.fusible(prior, op) {
			op.prior, prior.continued = prior, true
		}
	}
}

// fusible reports whether the kernel of op, which has one row, can also compute prior, or what is
// left of it.
func (n *nvidia) fusible(prior, op *operation) bool {
	switch op.kind {
	case opProduct:
		w, ok := op.weights[0].(*packedWeight)
		if !ok || !prior.makes(op.x) {
			return false
		}
		k, ok := n.rowKernel(op.dst, w)
		return ok && n.joinsProduct(prior, op, k, w)
	case opRoute:
		w, ok := op.weights[0].(*weight)
		return ok && computesRoute(w, op.route) && n.normInProduct(prior) && prior.makes(op.x) && !overlap(op.dst, prior.x) && weightOf(prior.gain).in == w.in
	case opGatedExperts:
		w, ok := op.packedExperts()
		return ok && prior.kind == opRoute && prior.prior != nil && prior.makes(op.routing) &&
			n.fitsTwice(w.packed.rowGated.gatedMemory(w)+choiceBytes(prior.route))
	case opExpertsAdd:
		return n.choosesAgain(prior, op)
	default:
		return false
	}
}

func (op *operation) makes(x compute.Tensor) bool {
	return op.dst.Buffer == x.Buffer && op.dst.Offset == x.Offset
}

// joinsProduct reports whether kernel k can compute prior, which makes the row of op, before a
// product with w.
func (n *nvidia) joinsProduct(prior, op *operation, k packedKernel, w *packedWeight) bool {
	cols := w.matrices * w.in
	switch {
	case prior.kind == opAttention:
		a := &prior.attention
		splits := n.splitsOf(prior)
		return splits > 0 && a.Heads*a.ValueDim == cols && splits*w.in <= maxFusedJoin
	case overlap(op.dst, prior.x):
		return false
	case n.normInProduct(prior):
		return weightOf(prior.gain).in == cols && cols <= k.longestNorm(prior)
	case n.latentsInProduct(prior):
		return weightOf(prior.gain).in == cols && max(cols, weightOf(prior.kvGain).in) <= k.longestNorm(prior)
	default:
		return false
	}
}

// normInProduct reports whether op is an RMSNorm of one row that a product's or a routing's kernel
// can compute.
func (n *nvidia) normInProduct(op *operation) bool {
	return op.kind == opNorm && op.dst.Rows == 1 && n.normQuantises(op) && weightOf(op.gain).in <= maxFusedNorm && !overlap(op.dst, op.x)
}

// latentsInProduct reports whether op is a Latents of one row, with a compressed query, that a
// product's kernel can compute.
func (n *nvidia) latentsInProduct(op *operation) bool {
	return op.kind == opLatents && op.gain != nil && op.x.Rows == 1 && n.computesLatents(op) && !overlap(op.dst, op.x)
}

func (op *operation) normThreads() int {
	if op.kind == opLatents {
		return latentThreads
	}
	return 32 * normGroups(weightOf(op.gain).in)
}

// longestNorm returns the maximum length of a row that the kernel normalises as part of a product.
func (k packedKernel) longestNorm(norm *operation) int { return k.normRounds * 8 * norm.normThreads() }

// choosesAgain reports whether the kernel of an ExpertsAdd can make the choice of the experts that
// the kernel of gated made.
func (n *nvidia) choosesAgain(gated, op *operation) bool {
	if gated.kind != opGatedExperts || gated.prior == nil || gated.prior.dst != op.routing {
		return false
	}
	d, _, packed := op.downWeights()
	return packed && d.choices() <= maxRowChoices && n.fitsTwice(d.rowMemory()+choiceBytes(gated.prior.route))
}

func overlap(a, b compute.Tensor) bool {
	return a.Buffer == b.Buffer && a.Offset < b.Offset+b.Cols && b.Offset < a.Offset+a.Cols
}

package metal

import "github.com/ingot-run/ingot/engine/compute"

// operation is a call of an operation of compute.Step that is not recorded yet. Fields that the
// operation does not have are empty.
type operation struct {
	kind            operationKind
	record          func(n *nvidia, op *operation)
	dst, x, routing compute.Tensor
	weights         []compute.Weight
	gain, kvGain    compute.Weight
	bias            compute.Weight
	eps, scale      float32
	experts         compute.Experts // for GatedMatMul, its activation
	route           compute.RouteShape
	attention       compute.AttentionShape
	projection      compute.Projection
	rope            compute.Rope
	cache           *cache
	layer, k        int
	rows            []int32

	splitBefore bool
	// prior is the operation before this one if the kernel of this operation also computes it, or
	// computes the rest of it. That operation then has continued set.
	prior     *operation
	continued bool
}

// operationKind is the kind of an operation that can share a kernel with another one.
type operationKind int

const (
	opOther operationKind = iota
	opNorm
	opProduct
	opLatents
	opAttention
	opRoute
	opGatedExperts
	opExpertsAdd
)

// add appends an operation to the step's list. The caller sets its other fields.
func (n *nvidia) add(kind operationKind, record func(n *nvidia, op *operation), dst, x compute.Tensor, ws ...compute.Weight) *operation {
	first := len(n.operands)
	n.operands = append(n.operands, ws...)
	n.operations = append(n.operations, operation{})
	op := &n.operations[len(n.operations)-1]
	op.kind, op.record, op.dst, op.x, op.weights = kind, record, dst, x, n.operands[first:len(n.operands):len(n.operands)]
	op.splitBefore, n.splitNext = n.splitNext, false
	return op
}

func (n *nvidia) recordOperations() {
	n.fuse()
	n.splitNext = false // of a checkpoint after the last operation
	for i := range n.operations {
		op := &n.operations[i]
		n.splitNext = n.splitNext || op.splitBefore
		op.record(n, op)
	}
	n.clearOperations()
}

func (n *nvidia) clearOperations() {
	n.operations, n.operands, n.rows = n.operations[:0], n.operands[:0], n.rows[:0]
}

func (n *nvidia) Embed(dst compute.Tensor, table compute.Weight) {
	n.add(opOther, (*nvidia).embed, dst, compute.Tensor{}, table)
}

func (n *nvidia) Gather(dst, src compute.Tensor, rows []int32) {
	first := len(n.rows)
	n.rows = append(n.rows, rows...)
	op := n.add(opOther, func(n *nvidia, op *operation) { n.portable().Gather(op.dst, op.x, op.rows) }, dst, src)
	op.rows = n.rows[first:]
}

func (n *nvidia) RMSNorm(dst, src compute.Tensor, gain compute.Weight, eps float32) {
	op := n.add(opNorm, (*nvidia).norm, dst, src)
	op.gain, op.eps = gain, eps
}

func (n *nvidia) RMSNormAdd(dst, src compute.Tensor, gain compute.Weight, eps float32) {
	op := n.add(opOther, func(n *nvidia, op *operation) { n.portable().RMSNormAdd(op.dst, op.x, op.gain, op.eps) }, dst, src)
	op.gain, op.eps = gain, eps
}

func (n *nvidia) Affine(t compute.Tensor, scale float32, bias compute.Weight) {
	op := n.add(opOther, func(n *nvidia, op *operation) { n.portable().Affine(op.dst, op.scale, op.bias) }, t, t)
	op.scale, op.bias = scale, bias
}

func (n *nvidia) Top(dst, logits compute.Tensor, k int) {
	n.add(opOther, (*nvidia).top, dst, logits).k = k
}

func (n *nvidia) MatMul(dst, x compute.Tensor, ws ...compute.Weight) {
	n.add(opProduct, func(n *nvidia, op *operation) { n.products(op.dst, op.x, op.weights, op.prior) }, dst, x, ws...)
}

func (n *nvidia) MatMulAdd(dst, x compute.Tensor, w compute.Weight) {
	n.add(opProduct, func(n *nvidia, op *operation) { n.matMulAdd(op.dst, op.x, op.weights, op.prior) }, dst, x, w)
}

func (n *nvidia) GatedMatMul(dst, x compute.Tensor, gate, up compute.Weight, act compute.Activation) {
	op := n.add(opOther, func(n *nvidia, op *operation) {
		n.gatedMatMul(op.dst, op.x, op.weights[0], op.weights[1], op.experts.Activation)
	}, dst, x, gate, up)
	op.experts.Activation = act
}

func (n *nvidia) Absorb(dst, q compute.Tensor, kb compute.Weight, table compute.Rope) {
	n.add(opOther, (*nvidia).absorb, dst, q, kb).rope = table
}

func (n *nvidia) Expand(dst, ctx compute.Tensor, vb compute.Weight) {
	n.add(opProduct, (*nvidia).expand, dst, ctx, vb)
}

func (n *nvidia) RopeStore(qkv compute.Tensor, proj compute.Projection, shape compute.AttentionShape, table compute.Rope, kv compute.Cache, layer int) {
	op := n.add(opOther, func(n *nvidia, op *operation) {
		n.portable().RopeStore(op.x, op.projection, op.attention, op.rope, op.cache, op.layer)
	}, qkv, qkv)
	op.projection, op.attention, op.rope, op.cache, op.layer = proj, shape, table, kv.(*cache), layer
}

func (n *nvidia) Latents(dst, t compute.Tensor, qGain, kvGain compute.Weight, eps float32, table compute.Rope, kv compute.Cache, layer int) {
	op := n.add(opLatents, (*nvidia).latents, dst, t)
	op.gain, op.kvGain, op.eps, op.rope, op.cache, op.layer = qGain, kvGain, eps, table, kv.(*cache), layer
}

func (n *nvidia) Attention(dst, q compute.Tensor, shape compute.AttentionShape, kv compute.Cache, layer int) {
	op := n.add(opAttention, (*nvidia).attend, dst, q)
	op.attention, op.cache, op.layer = shape, kv.(*cache), layer
}

func (n *nvidia) Route(dst, x compute.Tensor, router, bias compute.Weight, shape compute.RouteShape) {
	op := n.add(opRoute, (*nvidia).route, dst, x, router)
	op.bias, op.route = bias, shape
}

func (n *nvidia) GatedExperts(dst, x, routing compute.Tensor, e compute.Experts) {
	op := n.add(opGatedExperts, (*nvidia).gatedExperts, dst, x)
	op.routing, op.experts = routing, e
}

func (n *nvidia) ExpertsAdd(dst, h, routing compute.Tensor, e compute.Experts) {
	op := n.add(opExpertsAdd, (*nvidia).expertsAdd, dst, h)
	op.routing, op.experts = routing, e
}

package model

import (
	"fmt"

	"github.com/ingot-run/ingot/engine/compute"
)

// decoder is a model of layers with grouped-query attention and a gated feed-forward network or a mixture of experts, such as Llama.
// The families' files describe how their layers differ: see design.
type decoder struct {
	trunk
	embedScale float32 // factor of the embeddings
	layers     []decoderLayer
	route      compute.RouteShape
	mtp        *decoderMTP // nil if the file has none

	qkv     compute.Tensor // [rows, (heads+kvHeads)*keyDim + kvHeads*valueDim]
	attn    compute.Tensor // [rows, heads*valueDim]
	ffn     compute.Tensor // [rows, the larger of ffn and used*expertFFN+shared]
	routing compute.Tensor // [rows, 2*used]
}

// decoderLayer is a layer. Weights that a family does not have are nil. A slice of weights is the argument list of one MatMul, stored so
// that steps need not allocate it.
type decoderLayer struct {
	attnNorm compute.Weight // {hidden}
	// {hidden, heads*keyDim}, {hidden, kvHeads*keyDim}, {hidden, kvHeads*valueDim}, or one weight with the rows of all three
	attnQKV            []compute.Weight
	queryNorm, keyNorm compute.Weight // {heads*keyDim}, {kvHeads*keyDim}: norms over all heads together
	projection         compute.Projection
	shape              compute.AttentionShape
	rope               compute.Rope     // nil if the layer has no rotation
	stored             int              // number under which the cache stores the layer; see Groups.place
	attnOutput         []compute.Weight // one weight {heads*valueDim, hidden}
	attnOutputBias     compute.Weight   // {hidden}
	attnPostNorm       compute.Weight   // {hidden} norm of the attention's output

	ffnNorm        compute.Weight   // {hidden}
	ffnGate, ffnUp compute.Weight   // {hidden, ffn}; nil in a layer of experts
	ffnDown        []compute.Weight // one weight {ffn, hidden}
	ffnPostNorm    compute.Weight   // {hidden} norm of the network's output
	activation     compute.Activation
	mixture        mixture
}

// decoderMTP is the layer of multi-token prediction.
type decoderMTP struct {
	mtp
	layer decoderLayer
}

// forward records a forward pass.
func (m *decoder) forward(s compute.Step, b *compute.Batch) (logits compute.Tensor) {
	x := m.x.Head(len(b.Tokens))
	s.Embed(x, m.embd)
	if m.embedScale != 1 {
		s.Affine(x, m.embedScale, nil)
	}
	s.Checkpoint(-1, "embd", x)
	for i := range m.layers {
		if b.Interrupted() {
			break
		}
		m.attention(s, &m.layers[i], i, x)
		s.Checkpoint(i, "attn_out", x)
		m.feedForward(s, &m.layers[i], i, x)
		s.Checkpoint(i, "layer_out", x)
	}
	s.RMSNorm(x, x, m.norm, m.eps)
	s.Checkpoint(m.config.Layers, "norm", x)
	return m.head(s, b, x)
}

// attention adds a layer's attention to the residual stream x.
func (m *decoder) attention(s compute.Step, l *decoderLayer, layer int, x compute.Tensor) {
	qkv, attn := m.store(s, l, x), m.attn.Head(x.Rows)
	s.Attention(attn, qkv, l.shape, m.cache, l.stored)
	s.Checkpoint(layer, "attn", attn)
	m.add(s, x, attn, l.attnOutput, l.attnPostNorm)
	if l.attnOutputBias != nil {
		s.Affine(x, 1, l.attnOutputBias)
	}
}

// store computes a layer's queries, keys and values, and stores keys and values in the cache.
func (m *decoder) store(s compute.Step, l *decoderLayer, x compute.Tensor) (qkv compute.Tensor) {
	qkv = m.qkv.Head(x.Rows)
	s.MatMul(qkv, m.normed(s, x, l.attnNorm), l.attnQKV...)
	if l.queryNorm != nil {
		queries, keys := l.shape.Heads*l.shape.KeyDim, l.shape.KVHeads*l.shape.KeyDim
		q, k := qkv.Slice(0, queries), qkv.Slice(queries, keys)
		s.RMSNorm(q, q, l.queryNorm, l.projection.Eps)
		s.RMSNorm(k, k, l.keyNorm, l.projection.Eps)
	}
	s.RopeStore(qkv, l.projection, l.shape, l.rope, m.cache, l.stored)
	return qkv
}

// feedForward adds the output of a layer's feed-forward network, or of its experts, to x.
func (m *decoder) feedForward(s compute.Step, l *decoderLayer, layer int, x compute.Tensor) {
	h, ffn := m.normed(s, x, l.ffnNorm), m.ffn.Head(x.Rows)
	if l.mixture.router != nil {
		l.mixture.add(s, m.route, layer, x, h, m.routing.Head(x.Rows), ffn)
		return
	}
	ffn = ffn.Slice(0, l.ffnGate.Shape()[1])
	s.GatedMatMul(ffn, h, l.ffnGate, l.ffnUp, l.activation)
	m.add(s, x, ffn, l.ffnDown, l.ffnPostNorm)
}

// normed applies the norm before a layer's attention or network to x, and returns the result. If gain is nil, the layer has no such norm,
// and the result is x itself.
func (m *decoder) normed(s compute.Step, x compute.Tensor, gain compute.Weight) compute.Tensor {
	if gain == nil {
		return x
	}
	h := m.h.Head(x.Rows)
	s.RMSNorm(h, x, gain, m.eps)
	return h
}

// add computes x += w·in. w has one weight. If gain is not nil, the product is normed before it is added.
func (m *decoder) add(s compute.Step, x, in compute.Tensor, w []compute.Weight, gain compute.Weight) {
	if gain == nil {
		s.MatMulAdd(x, in, w[0])
		return
	}
	h := m.h.Head(x.Rows)
	s.MatMul(h, in, w...)
	s.RMSNormAdd(x, h, gain, m.eps)
}

// Draft implements Drafter.
func (m *decoder) Draft(b *compute.Batch, from States, states []int32) error {
	if m.mtp == nil {
		return fmt.Errorf("run the MTP layer: the model has none: %w", ErrUnsupported)
	}
	return m.runDraft(b, func(s compute.Step) compute.Tensor { return m.draft(s, b, from, states) })
}

// draft records a pass of the MTP layer.
func (m *decoder) draft(s compute.Step, b *compute.Batch, from States, states []int32) (logits compute.Tensor) {
	mtp, layer := m.mtp, m.config.Layers
	x := mtp.begin(s, &m.trunk, b, m.x, from, states)
	if len(b.Outputs) == 0 { // these rows only fill the cache
		m.store(s, &mtp.layer, x)
	} else {
		m.attention(s, &mtp.layer, layer, x)
		m.feedForward(s, &mtp.layer, layer, mtp.outputs(s, b, x))
	}
	return mtp.end(s, &m.trunk, b)
}

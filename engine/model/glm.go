package model

import (
	"fmt"

	"github.com/ingot-run/ingot/engine/compute"
)

// glm is the family of GLM-4.7-Flash and DeepSeek-V2/V3 (GGUF architecture deepseek2): multi-head latent attention in its absorbed
// form, dense layers, then layers with mixtures of experts, and optionally a layer of multi-token prediction.
type glm struct {
	trunk
	mla    mlaShape
	route  compute.RouteShape
	layers []glmLayer
	mtp    *glmMTP // nil if the file has none

	a       compute.Tensor // [rows, queryCols+kvRank+rope] queries or compressed query, latent, rotated part of the keys
	normedQ compute.Tensor // [rows, qA] compressed query after its norm, if queries are compressed
	q       compute.Tensor // [rows, heads*(nope+rope)], if queries are compressed
	absorb  compute.Tensor // [rows, heads*(kvRank+rope)] queries in the latent space
	ctx     compute.Tensor // [rows, heads*kvRank] contexts in the latent space
	attn    compute.Tensor // [rows, heads*value] the heads' outputs
	ffn     compute.Tensor // [rows, the larger of ffn and used*expertFFN+shared]
	routing compute.Tensor // [rows, 2*used]
	hidden  compute.Tensor // [rows, hidden] after the final norm
}

// mlaShape has the sizes of multi-head latent attention.
type mlaShape struct {
	heads  int
	qA     int // rank of the compressed query; 0 if queries are not compressed
	kvRank int // number of values in a latent
	nope   int // number of values of a head's query and key that are not rotated
	rope   int // number of values that are rotated; all heads share the rotated values of the keys
	value  int // number of values in a head's output
	// attention is the shape of the attention over latents: one key of kvRank+rope values, of which the first
	// kvRank are also the value.
	attention compute.AttentionShape
}

// queryCols returns the number of values before the latent in a row of glm.a: the compressed query, or all queries.
func (m mlaShape) queryCols() int {
	if m.qA > 0 {
		return m.qA
	}
	return m.heads * (m.nope + m.rope)
}

type glmLayer struct {
	attnNorm compute.Weight // {hidden}
	// attnA has the weights that multiply h: q_a {hidden, qA}, or q {hidden, heads*(nope+rope)} if queries are not compressed, and
	// kv_a {hidden, kvRank+rope}.
	attnA      []compute.Weight
	attnQANorm compute.Weight   // {qA}, if queries are compressed
	attnQB     []compute.Weight // one weight {qA, heads*(nope+rope)}, if queries are compressed
	attnKVNorm compute.Weight   // {kvRank}
	attnKB     compute.Weight   // {nope, kvRank, heads}
	attnVB     compute.Weight   // {kvRank, value, heads}
	attnOutput compute.Weight   // {heads*value, hidden}
	ffnNorm    compute.Weight   // {hidden}

	// The weights of a dense layer:
	ffnGate, ffnUp compute.Weight // {hidden, ffn}
	ffnDown        compute.Weight // {ffn, hidden}
	mixture        mixture        // the experts, if the layer is not dense
}

// glmMTP is the layer of multi-token prediction.
type glmMTP struct {
	mtp
	layer glmLayer
}

// forward records a forward pass.
func (m *glm) forward(s compute.Step, b *compute.Batch) (logits compute.Tensor) {
	n := len(b.Tokens)
	x, hidden := m.x.Head(n), m.hidden.Head(n)

	s.Embed(x, m.embd)
	s.Checkpoint(-1, "embd", x)
	for i := range m.layers {
		if b.Interrupted() {
			break
		}
		m.block(s, &m.layers[i], i, x)
	}
	s.RMSNorm(hidden, x, m.norm, m.eps)
	s.Checkpoint(m.config.Layers, "norm", hidden)
	return m.head(s, b, hidden)
}

// block runs a layer over the residual stream x.
func (m *glm) block(s compute.Step, l *glmLayer, layer int, x compute.Tensor) {
	h := m.h.Head(x.Rows)
	s.RMSNorm(h, x, l.attnNorm, m.eps)
	m.attention(s, l, layer, x, h)
	s.Checkpoint(layer, "attn_out", x)
	m.feedForward(s, l, layer, x)
}

// feedForward adds the output of a layer's feed-forward network, or of its experts, to x.
func (m *glm) feedForward(s compute.Step, l *glmLayer, layer int, x compute.Tensor) {
	h := m.h.Head(x.Rows)
	s.RMSNorm(h, x, l.ffnNorm, m.eps)
	ffn := m.ffn.Head(x.Rows)
	if l.mixture.router != nil {
		l.mixture.add(s, m.route, layer, x, h, m.routing.Head(x.Rows), ffn)
	} else {
		ffn = ffn.Slice(0, l.ffnGate.Shape()[1])
		s.GatedMatMul(ffn, h, l.ffnGate, l.ffnUp, compute.SiLU)
		s.MatMulAdd(x, ffn, l.ffnDown)
	}
	s.Checkpoint(layer, "layer_out", x)
}

// attention adds a layer's attention (MLA) to the residual stream x. h is x after the norm. Keys and values stay compressed: queries are
// transformed into the latent space (q' = W_kbᵀ·q) and attend there, and their contexts are transformed back (W_vb).
func (m *glm) attention(s compute.Step, l *glmLayer, layer int, x, h compute.Tensor) {
	n, shape := x.Rows, m.mla
	absorb, ctx, attn := m.absorb.Head(n), m.ctx.Head(n), m.attn.Head(n)

	q := m.latents(s, l, layer, h)
	if shape.qA > 0 {
		compressed := q
		q = m.q.Head(n)
		s.MatMul(q, compressed, l.attnQB...)
	}
	s.Absorb(absorb, q, l.attnKB, m.rope)
	s.Attention(ctx, absorb, shape.attention, m.cache, layer)
	s.Expand(attn, ctx, l.attnVB)
	s.Checkpoint(layer, "attn", attn)
	s.MatMulAdd(x, attn, l.attnOutput)
}

// latents computes latents and keys from h, the residual stream after the norm, and stores them in the cache. It returns the queries,
// compressed if the model compresses queries.
func (m *glm) latents(s compute.Step, l *glmLayer, layer int, h compute.Tensor) (q compute.Tensor) {
	a, shape := m.a.Head(h.Rows), m.mla
	s.MatMul(a, h, l.attnA...)
	if shape.qA > 0 {
		q = m.normedQ.Head(h.Rows)
		s.Latents(q, a, l.attnQANorm, l.attnKVNorm, m.eps, m.rope, m.cache, layer)
		return q
	}
	q = a.Slice(0, shape.queryCols())
	s.Latents(compute.Tensor{}, a.Slice(q.Cols, shape.kvRank+shape.rope), nil, l.attnKVNorm, m.eps, m.rope, m.cache, layer)
	return q
}

// Draft implements Drafter.
func (m *glm) Draft(b *compute.Batch, from States, states []int32) error {
	if m.mtp == nil {
		return fmt.Errorf("run the MTP layer: the model has none: %w", ErrUnsupported)
	}
	return m.runDraft(b, func(s compute.Step) compute.Tensor { return m.draft(s, b, from, states) })
}

// draft records a pass of the MTP layer.
func (m *glm) draft(s compute.Step, b *compute.Batch, from States, states []int32) (logits compute.Tensor) {
	mtp, layer := m.mtp, m.config.Layers
	x := mtp.begin(s, &m.trunk, b, m.hidden, from, states)
	h := m.h.Head(x.Rows)
	s.RMSNorm(h, x, mtp.layer.attnNorm, m.eps)
	if len(b.Outputs) == 0 { // without outputs, the rows only fill the cache
		m.latents(s, &mtp.layer, layer, h)
	} else {
		m.attention(s, &mtp.layer, layer, x, h)
		m.feedForward(s, &mtp.layer, layer, mtp.outputs(s, b, x))
	}
	return mtp.end(s, &m.trunk, b)
}

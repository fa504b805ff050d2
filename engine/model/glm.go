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

	a       compute.Tensor // [rows, qA + kvRank + rope] compressed query, latent, shared key
	q       compute.Tensor // [rows, heads*(nope+rope)], if queries are compressed
	absorb  compute.Tensor // [rows, heads*(kvRank+rope)] queries in the latent space
	ctx     compute.Tensor // [rows, heads*kvRank] contexts in the latent space
	attn    compute.Tensor // [rows, heads*value]
	ffn     compute.Tensor // [rows, the larger of ffn and used*expertFFN+shared]
	routing compute.Tensor // [rows, 2*used]
	hidden  compute.Tensor // [rows, hidden] after the final norm
}

// mlaShape has the sizes of multi-head latent attention.
type mlaShape struct {
	heads  int
	qA     int // rank of the compressed query; 0 if queries are not compressed
	kvRank int // values of a latent
	nope   int // values of a head's query and key without a rotation
	rope   int // values with a rotation; in keys, they are shared by all heads
	value  int // values of a head's output
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

	// Of a dense layer:
	ffnGate, ffnUp compute.Weight // {hidden, ffn}
	ffnDown        compute.Weight // {ffn, hidden}
	// Of a layer of experts:
	router     compute.Weight // {hidden, experts}
	routerBias compute.Weight // {experts}, used only for choosing; may be absent
	experts    compute.Experts
}

// glmMTP is the layer of multi-token prediction.
type glmMTP struct {
	enorm, hnorm compute.Weight   // {hidden}
	ehProj       []compute.Weight // one weight {2*hidden, hidden}
	layer        glmLayer
	headNorm     compute.Weight // {hidden}
	// embd and output are the trunk's if the layer has none of its own.
	embd   compute.Weight
	output []compute.Weight

	embedded compute.Tensor // [rows, hidden]
	concat   compute.Tensor // [rows, 2*hidden] the normed embedding, then the normed hidden state
	x        compute.Tensor // [rows, hidden] the residual stream up to the attention
	out      compute.Tensor // [outputs, hidden] the layer's output, before headNorm
}

// forward records a forward pass.
func (m *glm) forward(s compute.Step, b *compute.Batch) (logits compute.Tensor) {
	n := len(b.Tokens)
	x, hidden := m.x.Head(n), m.hidden.Head(n)

	s.Embed(x, m.embd)
	s.Checkpoint(-1, "embd", x)
	for i := range m.layers {
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
	if l.router != nil {
		m.experts(s, l, layer, x, h)
	} else {
		ffn := m.ffn.Head(x.Rows).Slice(0, l.ffnGate.Shape()[1])
		s.GatedMatMul(ffn, h, l.ffnGate, l.ffnUp)
		s.MatMulAdd(x, ffn, l.ffnDown)
	}
	s.Checkpoint(layer, "layer_out", x)
}

// attention adds MLA over the normed h to x. Keys and values stay compressed: queries are transformed into the latent
// space (q' = W_kbᵀ·q) and attend there, and their contexts are transformed back (W_vb).
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

// latents stores the latents and keys of the normed h in the cache. It returns the queries, compressed if
// the model compresses queries.
func (m *glm) latents(s compute.Step, l *glmLayer, layer int, h compute.Tensor) (q compute.Tensor) {
	a, shape := m.a.Head(h.Rows), m.mla
	s.MatMul(a, h, l.attnA...)
	if shape.qA > 0 {
		s.Latents(a, l.attnQANorm, l.attnKVNorm, m.eps, m.rope, m.cache, layer)
	} else {
		s.Latents(a.Slice(shape.queryCols(), shape.kvRank+shape.rope), nil, l.attnKVNorm, m.eps, m.rope, m.cache, layer)
	}
	return a.Slice(0, shape.queryCols())
}

// experts adds the chosen experts' outputs over the normed h to x.
func (m *glm) experts(s compute.Step, l *glmLayer, layer int, x, h compute.Tensor) {
	routing := m.routing.Head(x.Rows)
	s.Route(routing, h, l.router, l.routerBias, m.route)
	s.Checkpoint(layer, "routing", routing)
	width := m.route.Used * l.experts.Gate.Shape()[1]
	if l.experts.SharedGate != nil {
		width += l.experts.SharedGate.Shape()[1]
	}
	ffn := m.ffn.Head(x.Rows).Slice(0, width)
	s.GatedExperts(ffn, h, routing, l.experts)
	s.ExpertsAdd(x, ffn, routing, l.experts)
}

// Draft implements Drafter.
func (m *glm) Draft(b *compute.Batch, from States, states []int32) ([][]float32, error) {
	if m.mtp == nil {
		return nil, fmt.Errorf("draft: the model has no MTP layer: %w", ErrUnsupported)
	}
	s := m.be.Begin(b)
	logits := m.draft(s, b, from, states)
	if len(b.Outputs) > 0 { // without outputs, Best keeps the result of the last Forward
		m.top(s, b, 0, logits)
	}
	if err := s.Run(); err != nil {
		return nil, fmt.Errorf("draft in a step of %d rows: %w", len(b.Tokens), err)
	}
	return m.be.Floats(logits), nil
}

// draft records a pass of the MTP layer.
func (m *glm) draft(s compute.Step, b *compute.Batch, from States, states []int32) (logits compute.Tensor) {
	mtp := m.mtp
	n, hidden := len(b.Tokens), m.config.Hidden
	embedded, concat, x, h := mtp.embedded.Head(n), mtp.concat.Head(n), mtp.x.Head(n), m.h.Head(n)
	out, last := mtp.out.Head(len(b.Outputs)), m.last.Head(len(b.Outputs))
	source := m.hidden
	if from == DraftStates {
		source = mtp.out
	}

	s.Embed(embedded, mtp.embd)
	s.RMSNorm(concat.Slice(0, hidden), embedded, mtp.enorm, m.eps)
	s.Gather(h, source, states)
	s.RMSNorm(concat.Slice(hidden, hidden), h, mtp.hnorm, m.eps)
	s.MatMul(x, concat, mtp.ehProj...)
	s.RMSNorm(h, x, mtp.layer.attnNorm, m.eps)
	// Rows that are not outputs only fill the cache.
	if out.Rows == 0 {
		m.latents(s, &mtp.layer, m.config.Layers, h)
		return m.project(s, last, mtp.output)
	}
	m.attention(s, &mtp.layer, m.config.Layers, x, h)
	s.Gather(out, x, b.Outputs)
	m.feedForward(s, &mtp.layer, m.config.Layers, out)
	s.RMSNorm(last, out, mtp.headNorm, m.eps)
	return m.project(s, last, mtp.output)
}

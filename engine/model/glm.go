package model

import "github.com/ingot-run/ingot/engine/compute"

// latent is multi-head latent attention (MLA) in its absorbed form, as in GLM-4.7-Flash and
// DeepSeek-V2/V3. Keys and values stay compressed: queries are transformed into the latent space
// (q' = W_kbᵀ·q) and attend there, and their contexts are transformed back (W_vb).
type latent struct {
	*latentBuffers
	norm compute.Weight // {hidden}
	// weights multiply the normed residual stream: q_a {hidden, qA}, or q {hidden,
	// heads*(nope+rope)} if queries are not compressed, and kv_a {hidden, kvRank+rope}.
	weights []compute.Weight
	qaNorm  compute.Weight   // {qA}, if queries are compressed
	qb      []compute.Weight // one weight {qA, heads*(nope+rope)}, if queries are compressed
	kvNorm  compute.Weight   // {kvRank}
	kb      compute.Weight   // {nope, kvRank, heads}
	vb      compute.Weight   // {kvRank, value, heads}
	output  compute.Weight   // {heads*value, hidden}
}

type latentBuffers struct {
	shape mlaShape

	a       compute.Tensor // [rows, queryCols+kvRank+rope] queries or compressed query, latent, rotated part of the keys
	normedQ compute.Tensor // [rows, qA] compressed query after its norm, if queries are compressed
	q       compute.Tensor // [rows, heads*(nope+rope)], if queries are compressed
	absorb  compute.Tensor // [rows, heads*(kvRank+rope)] queries in the latent space
	ctx     compute.Tensor // [rows, heads*kvRank] contexts in the latent space
	attn    compute.Tensor // [rows, heads*value] the heads' outputs
}

type mlaShape struct {
	heads  int
	qA     int // rank of the compressed query; 0 if queries are not compressed
	kvRank int // number of values in a latent
	nope   int // number of values of a head's query and key that are not rotated
	rope   int // number of values that are rotated; all heads share the rotated values of the keys
	value  int // number of values in a head's output
	// attention is the shape of the attention over latents: one key of kvRank+rope values, of which
	// the first kvRank are also the value.
	attention compute.AttentionShape
}

// queryCols returns the number of values before the latent in a row of latentBuffers.a: the
// compressed query, or all queries.
func (m mlaShape) queryCols() int {
	if m.qA > 0 {
		return m.qA
	}
	return m.heads * (m.nope + m.rope)
}

func (a *latent) attend(s compute.Step, t *trunk, layer int, x compute.Tensor) {
	n := x.Rows
	absorb, ctx, attn := a.absorb.Head(n), a.ctx.Head(n), a.attn.Head(n)
	q := a.latents(s, t, layer, x)
	if a.shape.qA > 0 {
		compressed := q
		q = a.q.Head(n)
		s.MatMul(q, compressed, a.qb...)
	}
	s.Absorb(absorb, q, a.kb, t.rope)
	s.Attention(ctx, absorb, a.shape.attention, t.cache, layer)
	s.Expand(attn, ctx, a.vb)
	s.Checkpoint(layer, "attn", attn)
	s.MatMulAdd(x, attn, a.output)
}

func (a *latent) store(s compute.Step, t *trunk, layer int, x compute.Tensor) {
	a.latents(s, t, layer, x)
}

func (a *latent) latents(s compute.Step, t *trunk, layer int, x compute.Tensor) (q compute.Tensor) {
	all, shape := a.a.Head(x.Rows), a.shape
	s.MatMul(all, t.normed(s, x, a.norm), a.weights...)
	if shape.qA > 0 {
		q = a.normedQ.Head(x.Rows)
		s.Latents(q, all, a.qaNorm, a.kvNorm, t.eps, t.rope, t.cache, layer)
		return q
	}
	q = all.Slice(0, shape.queryCols())
	s.Latents(compute.Tensor{}, all.Slice(q.Cols, shape.kvRank+shape.rope), nil, a.kvNorm, t.eps, t.rope, t.cache, layer)
	return q
}

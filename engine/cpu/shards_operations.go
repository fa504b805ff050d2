package cpu

import "github.com/ingot-run/ingot/engine/compute"

// operation is a recorded operation of a step with its arguments. Every shard executes it for its rows.
type operation struct {
	// do executes the operation on a step for some of the rows.
	do         func(o *operation, s *step, r part)
	readsCache bool // whether the operation reads the keys and values of earlier rows

	dst, x, routing compute.Tensor
	a, b            compute.Weight
	ws              []compute.Weight
	eps, scale      float32
	rope            compute.Rope
	cache           compute.Cache
	layer           int
	projection      compute.Projection
	attention       compute.AttentionShape
	activation      compute.Activation
	route           compute.RouteShape
	experts         compute.Experts
	rows            []int32
	k               int
}

// part has views of an operation's tensors with the rows of one shard.
type part struct{ dst, x, routing compute.Tensor }

// run executes the operation for rows [from, to).
func (o *operation) run(s *step, from, to int) {
	o.do(o, s, part{o.dst.Span(from, to), o.x.Span(from, to), o.routing.Span(from, to)})
}

// Embed implements compute.Step.
func (l *shards) Embed(dst compute.Tensor, table compute.Weight) {
	l.add(operation{do: (*operation).embed, dst: dst, a: table})
}

func (o *operation) embed(s *step, p part) { s.Embed(p.dst, o.a) }

// Gather implements compute.Step.
func (l *shards) Gather(dst, src compute.Tensor, rows []int32) {
	l.add(operation{do: (*operation).gather, dst: dst, x: src, rows: rows})
}

func (o *operation) gather(s *step, p part) {
	first := (p.dst.Offset - o.dst.Offset) / o.dst.Stride
	s.Gather(p.dst, o.x, o.rows[first:first+p.dst.Rows])
}

// RMSNorm implements compute.Step.
func (l *shards) RMSNorm(dst, src compute.Tensor, gain compute.Weight, eps float32) {
	l.add(operation{do: (*operation).norm, dst: dst, x: src, a: gain, eps: eps})
}

func (o *operation) norm(s *step, p part) { s.RMSNorm(p.dst, p.x, o.a, o.eps) }

// RMSNormAdd implements compute.Step.
func (l *shards) RMSNormAdd(dst, src compute.Tensor, gain compute.Weight, eps float32) {
	l.add(operation{do: (*operation).normAdd, dst: dst, x: src, a: gain, eps: eps})
}

func (o *operation) normAdd(s *step, p part) { s.RMSNormAdd(p.dst, p.x, o.a, o.eps) }

// Affine implements compute.Step.
func (l *shards) Affine(t compute.Tensor, scale float32, bias compute.Weight) {
	l.add(operation{do: (*operation).affine, dst: t, a: bias, scale: scale})
}

func (o *operation) affine(s *step, p part) { s.Affine(p.dst, o.scale, o.a) }

// MatMul implements compute.Step.
func (l *shards) MatMul(dst, x compute.Tensor, w ...compute.Weight) {
	l.add(operation{do: (*operation).matMul, dst: dst, x: x, ws: w})
}

func (o *operation) matMul(s *step, p part) { s.MatMul(p.dst, p.x, o.ws...) }

// MatMulAdd implements compute.Step.
func (l *shards) MatMulAdd(dst, x compute.Tensor, w compute.Weight) {
	l.add(operation{do: (*operation).matMulAdd, dst: dst, x: x, a: w})
}

func (o *operation) matMulAdd(s *step, p part) { s.MatMulAdd(p.dst, p.x, o.a) }

// GatedMatMul implements compute.Step.
func (l *shards) GatedMatMul(dst, x compute.Tensor, gate, up compute.Weight, act compute.Activation) {
	l.add(operation{do: (*operation).gatedMatMul, dst: dst, x: x, a: gate, b: up, activation: act})
}

func (o *operation) gatedMatMul(s *step, p part) { s.GatedMatMul(p.dst, p.x, o.a, o.b, o.activation) }

// RopeStore implements compute.Step.
func (l *shards) RopeStore(qkv compute.Tensor, p compute.Projection, shape compute.AttentionShape, table compute.Rope, kv compute.Cache, layer int) {
	l.add(operation{do: (*operation).ropeStore, dst: qkv, projection: p, attention: shape, rope: table, cache: kv, layer: layer})
}

func (o *operation) ropeStore(s *step, p part) {
	s.RopeStore(p.dst, o.projection, o.attention, o.rope, o.cache, o.layer)
}

// Latents implements compute.Step.
func (l *shards) Latents(dst, a compute.Tensor, qGain, kvGain compute.Weight, eps float32, table compute.Rope, kv compute.Cache, layer int) {
	l.add(operation{do: (*operation).latents, dst: a, x: dst, a: qGain, b: kvGain, eps: eps, rope: table, cache: kv, layer: layer})
}

func (o *operation) latents(s *step, p part) {
	s.Latents(p.x, p.dst, o.a, o.b, o.eps, o.rope, o.cache, o.layer)
}

// Absorb implements compute.Step.
func (l *shards) Absorb(dst, q compute.Tensor, kb compute.Weight, table compute.Rope) {
	l.add(operation{do: (*operation).absorb, dst: dst, x: q, a: kb, rope: table})
}

func (o *operation) absorb(s *step, p part) { s.Absorb(p.dst, p.x, o.a, o.rope) }

// Attention implements compute.Step.
func (l *shards) Attention(dst, q compute.Tensor, shape compute.AttentionShape, kv compute.Cache, layer int) {
	l.add(operation{do: (*operation).attend, readsCache: true, dst: dst, x: q, attention: shape, cache: kv, layer: layer})
}

func (o *operation) attend(s *step, p part) { s.Attention(p.dst, p.x, o.attention, o.cache, o.layer) }

// Expand implements compute.Step.
func (l *shards) Expand(dst, ctx compute.Tensor, vb compute.Weight) {
	l.add(operation{do: (*operation).expand, dst: dst, x: ctx, a: vb})
}

func (o *operation) expand(s *step, p part) { s.Expand(p.dst, p.x, o.a) }

// Route implements compute.Step.
func (l *shards) Route(dst, x compute.Tensor, router, bias compute.Weight, shape compute.RouteShape) {
	l.add(operation{do: (*operation).choose, dst: dst, x: x, a: router, b: bias, route: shape})
}

func (o *operation) choose(s *step, p part) { s.Route(p.dst, p.x, o.a, o.b, o.route) }

// GatedExperts implements compute.Step.
func (l *shards) GatedExperts(dst, x, routing compute.Tensor, e compute.Experts) {
	l.add(operation{do: (*operation).gatedExperts, dst: dst, x: x, routing: routing, experts: e})
}

func (o *operation) gatedExperts(s *step, p part) { s.GatedExperts(p.dst, p.x, p.routing, o.experts) }

// ExpertsAdd implements compute.Step.
func (l *shards) ExpertsAdd(dst, h, routing compute.Tensor, e compute.Experts) {
	l.add(operation{do: (*operation).expertsAdd, dst: dst, x: h, routing: routing, experts: e})
}

func (o *operation) expertsAdd(s *step, p part) { s.ExpertsAdd(p.dst, p.x, p.routing, o.experts) }

// Top implements compute.Step.
func (l *shards) Top(dst, logits compute.Tensor, k int) {
	l.add(operation{do: (*operation).top, dst: dst, x: logits, k: k})
}

func (o *operation) top(s *step, p part) { s.Top(p.dst, p.x, o.k) }

package cpu

import "github.com/ingot-run/ingot/engine/compute"

// operation is a recorded operation of a step with its arguments. Every shard executes it for its
// rows. A step must not allocate, so the arguments are fields and do captures nothing.
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
	norm            compute.GatedNorm
	rows            []int32
	k               int
	draws           []compute.Draw
}

// part has views of an operation's tensors with the rows of one shard.
type part struct{ dst, x, routing compute.Tensor }

func (o *operation) run(s *step, from, to int) {
	o.do(o, s, part{o.dst.Span(from, to), o.x.Span(from, to), o.routing.Span(from, to)})
}

func (l *shards) Embed(dst compute.Tensor, table compute.Weight) {
	l.add(operation{dst: dst, a: table}, func(o *operation, s *step, p part) { s.Embed(p.dst, o.a) })
}

func (l *shards) Gather(dst, src compute.Tensor, rows []int32) {
	l.add(operation{dst: dst, x: src, rows: rows}, func(o *operation, s *step, p part) {
		first := (p.dst.Offset - o.dst.Offset) / o.dst.Stride
		s.Gather(p.dst, o.x, o.rows[first:first+p.dst.Rows])
	})
}

func (l *shards) RMSNorm(dst, src compute.Tensor, gain compute.Weight, eps float32) {
	l.add(operation{dst: dst, x: src, a: gain, eps: eps}, func(o *operation, s *step, p part) { s.RMSNorm(p.dst, p.x, o.a, o.eps) })
}

func (l *shards) RMSNormAdd(dst, src compute.Tensor, gain compute.Weight, eps float32) {
	l.add(operation{dst: dst, x: src, a: gain, eps: eps}, func(o *operation, s *step, p part) { s.RMSNormAdd(p.dst, p.x, o.a, o.eps) })
}

func (l *shards) Affine(t compute.Tensor, scale float32, bias compute.Weight) {
	l.add(operation{dst: t, a: bias, scale: scale}, func(o *operation, s *step, p part) { s.Affine(p.dst, o.scale, o.a) })
}

func (l *shards) SoftCap(t compute.Tensor, limit float32) {
	l.add(operation{dst: t, scale: limit}, func(o *operation, s *step, p part) { s.SoftCap(p.dst, o.scale) })
}

func (l *shards) Activate(dst, gate, up compute.Tensor, act compute.Activation) {
	l.add(operation{dst: dst, x: gate, routing: up, activation: act}, func(o *operation, s *step, p part) {
		s.Activate(p.dst, p.x, p.routing, o.activation)
	})
}

func (l *shards) MatMul(dst, x compute.Tensor, w ...compute.Weight) {
	l.add(operation{dst: dst, x: x, ws: w}, func(o *operation, s *step, p part) { s.MatMul(p.dst, p.x, o.ws...) })
}

func (l *shards) MatMulAdd(dst, x compute.Tensor, w compute.Weight) {
	l.add(operation{dst: dst, x: x, a: w}, func(o *operation, s *step, p part) { s.MatMulAdd(p.dst, p.x, o.a) })
}

func (l *shards) GatedMatMul(dst, x compute.Tensor, gate, up compute.Weight, act compute.Activation) {
	l.add(operation{dst: dst, x: x, a: gate, b: up, activation: act}, func(o *operation, s *step, p part) {
		s.GatedMatMul(p.dst, p.x, o.a, o.b, o.activation)
	})
}

func (l *shards) RopeStore(qkv compute.Tensor, p compute.Projection, shape compute.AttentionShape, table compute.Rope, kv compute.Cache, layer int) {
	l.add(operation{dst: qkv, projection: p, attention: shape, rope: table, cache: kv, layer: layer}, func(o *operation, s *step, p part) {
		s.RopeStore(p.dst, o.projection, o.attention, o.rope, o.cache, o.layer)
	})
}

func (l *shards) Latents(dst, a compute.Tensor, qGain, kvGain compute.Weight, eps float32, table compute.Rope, kv compute.Cache, layer int) {
	l.add(operation{dst: a, x: dst, a: qGain, b: kvGain, eps: eps, rope: table, cache: kv, layer: layer}, func(o *operation, s *step, p part) {
		s.Latents(p.x, p.dst, o.a, o.b, o.eps, o.rope, o.cache, o.layer)
	})
}

func (l *shards) Absorb(dst, q compute.Tensor, kb compute.Weight, table compute.Rope) {
	l.add(operation{dst: dst, x: q, a: kb, rope: table}, func(o *operation, s *step, p part) { s.Absorb(p.dst, p.x, o.a, o.rope) })
}

func (l *shards) Attention(dst, q compute.Tensor, shape compute.AttentionShape, kv compute.Cache, layer int) {
	l.add(operation{readsCache: true, dst: dst, x: q, attention: shape, cache: kv, layer: layer}, func(o *operation, s *step, p part) {
		s.Attention(p.dst, p.x, o.attention, o.cache, o.layer)
	})
}

// ShortConv is two operations, since its second part reads what the first part of other rows has
// stored.
func (l *shards) ShortConv(c, b, x compute.Tensor, w compute.Weight, shape compute.AttentionShape, kv compute.Cache, layer int) {
	l.add(operation{dst: x, x: b, attention: shape, cache: kv, layer: layer}, func(o *operation, s *step, p part) {
		s.storeGated(p.x, p.dst, o.attention, o.cache, o.layer)
	})
	l.add(operation{readsCache: true, dst: c, x: x, a: w, attention: shape, cache: kv, layer: layer}, func(o *operation, s *step, p part) {
		s.convolveStored(p.dst, p.x, o.a, o.attention, o.cache, o.layer)
	})
}

func (l *shards) Expand(dst, ctx compute.Tensor, vb compute.Weight) {
	l.add(operation{dst: dst, x: ctx, a: vb}, func(o *operation, s *step, p part) { s.Expand(p.dst, p.x, o.a) })
}

func (l *shards) Route(dst, x compute.Tensor, router, bias compute.Weight, shape compute.RouteShape) {
	l.add(operation{dst: dst, x: x, a: router, b: bias, route: shape}, func(o *operation, s *step, p part) {
		s.Route(p.dst, p.x, o.a, o.b, o.route)
	})
}

func (l *shards) GatedExperts(dst, x, routing compute.Tensor, e compute.Experts) {
	l.add(operation{dst: dst, x: x, routing: routing, experts: e}, func(o *operation, s *step, p part) {
		s.GatedExperts(p.dst, p.x, p.routing, o.experts)
	})
}

func (l *shards) ExpertsAdd(dst, h, routing compute.Tensor, e compute.Experts) {
	l.add(operation{dst: dst, x: h, routing: routing, experts: e}, func(o *operation, s *step, p part) {
		s.ExpertsAdd(p.dst, p.x, p.routing, o.experts)
	})
}

// Convolve runs on all threads at once: the rows of a sequence depend on one another.
func (l *shards) Convolve(dst, x compute.Tensor, w, bias compute.Weight, st compute.States, layer int) {
	l.flush()
	l.whole.Convolve(dst, x, w, bias, st, layer)
}

// DeltaNet runs on all threads at once, as Convolve does.
func (l *shards) DeltaNet(dst, qkv, gates compute.Tensor, d compute.Delta, st compute.States, layer int) {
	l.flush()
	l.whole.DeltaNet(dst, qkv, gates, d, st, layer)
}

// Scan runs on all threads at once, as Convolve does.
func (l *shards) Scan(dst, xbc, dt compute.Tensor, sc compute.Scan, st compute.States, layer int) {
	l.flush()
	l.whole.Scan(dst, xbc, dt, sc, st, layer)
}

func (l *shards) GatedNorm(dst, x, gate compute.Tensor, n compute.GatedNorm) {
	l.add(operation{dst: dst, x: x, routing: gate, norm: n}, func(o *operation, s *step, p part) { s.GatedNorm(p.dst, p.x, p.routing, o.norm) })
}

func (l *shards) Gate(dst, gate compute.Tensor) {
	l.add(operation{dst: dst, x: gate}, func(_ *operation, s *step, p part) { s.Gate(p.dst, p.x) })
}

func (l *shards) Top(dst, logits compute.Tensor, k int) {
	l.add(operation{dst: dst, x: logits, k: k}, func(o *operation, s *step, p part) { s.Top(p.dst, p.x, o.k) })
}

func (l *shards) Draw(dst, logits compute.Tensor, draws []compute.Draw) {
	l.add(operation{dst: dst, x: logits, draws: draws}, func(o *operation, s *step, p part) {
		first := (p.dst.Offset - o.dst.Offset) / o.dst.Stride
		s.Draw(p.dst, p.x, o.draws[first:first+p.dst.Rows])
	})
}

package model

import (
	"cmp"

	"github.com/ingot-run/ingot/engine/compute"
)

// grouped is grouped-query attention, as in Llama.
type grouped struct {
	*groupedBuffers
	norm compute.Weight // {hidden}
	// {hidden, heads*keyDim}, {hidden, kvHeads*keyDim}, {hidden, kvHeads*valueDim}, or one weight
	// with the rows of all three; then, if the attention has a gate, {hidden, heads*valueDim}
	weights            []compute.Weight
	queryNorm, keyNorm compute.Weight // {heads*keyDim}, {kvHeads*keyDim}: norms over all heads together
	projection         compute.Projection
	shape              compute.AttentionShape
	rope               compute.Rope     // nil if the layer has no rotation
	stored             int              // number under which the cache stores the layer; see Groups.place
	output             []compute.Weight // one weight {heads*valueDim, hidden}
	outputBias         compute.Weight   // {hidden}
	postNorm           compute.Weight   // {hidden} norm of the attention's output
}

type groupedBuffers struct {
	// [rows, (heads+kvHeads)*keyDim + kvHeads*valueDim], without and with the heads' gates
	qkv, gated compute.Tensor
	attn       compute.Tensor // [rows, heads*valueDim]
}

func (a *grouped) attend(s compute.Step, t *trunk, layer int, x compute.Tensor) {
	a.store(s, t, layer, x)
	qkv, attn := a.qkv.Head(x.Rows), a.attn.Head(x.Rows)
	s.Attention(attn, qkv, a.shape, t.cache, a.stored)
	if n := a.gated.Cols - a.qkv.Cols; n > 0 {
		s.Gate(attn, a.gated.Head(x.Rows).Slice(a.qkv.Cols, n))
	}
	s.Checkpoint(layer, "attn", attn)
	t.add(s, x, attn, a.output, a.postNorm)
	if a.outputBias != nil {
		s.Affine(x, 1, a.outputBias)
	}
}

func (a *grouped) store(s compute.Step, t *trunk, _ int, x compute.Tensor) {
	qkv := a.qkv.Head(x.Rows)
	s.MatMul(a.gated.Head(x.Rows), t.normed(s, x, a.norm), a.weights...)
	if a.queryNorm != nil {
		queries, keys := a.shape.Heads*a.shape.KeyDim, a.shape.KVHeads*a.shape.KeyDim
		q, k := qkv.Slice(0, queries), qkv.Slice(queries, keys)
		s.RMSNorm(q, q, a.queryNorm, a.projection.Eps)
		s.RMSNorm(k, k, a.keyNorm, a.projection.Eps)
	}
	s.RopeStore(qkv, a.projection, a.shape, a.rope, t.cache, a.stored)
}

func (l *loader) groupedDecoder(d *design, s compute.AttentionShape, c Config, lim Limits) Model {
	m := &decoder{trunk: l.trunk(c), embedScale: float32(cmp.Or(d.embedScale, 1))}
	m.postEps, m.logitCap = cmp.Or(float32(d.postEps), m.eps), float32(d.logitCap)
	if d.embedNorm {
		m.embedNorm = l.ones(c.Hidden)
	}
	if d.logitScale > 0 {
		m.norm = l.joined(float32(1/d.logitScale), []string{l.outputNorm()}, c.Hidden)
	}
	if r := d.branchScale; r > 0 {
		// Instead of x + r·branch, a layer computes x/r + branch: the residual stream is divided by
		// the scale r of the branches. Norms of the divided stream give the same results with
		// eps/r².
		m.embedScale /= float32(r)
		m.eps /= float32(r * r)
		m.postEps /= float32(r * r)
	}
	var sliding compute.Rope
	m.rope = l.rope(d.freqs, lim)
	if d.slidingFreqs != nil {
		sliding = l.rope(*d.slidingFreqs, lim)
	}
	qkv, gates := (s.Heads+s.KVHeads)*s.KeyDim+s.KVHeads*s.ValueDim, 0
	if d.gatedHeads || d.attnGate {
		gates = s.Heads * s.ValueDim
	}
	buffers := &groupedBuffers{gated: l.buffer(lim.Rows, qkv+gates), attn: l.buffer(lim.Rows, s.Heads*s.ValueDim)}
	buffers.qkv = buffers.gated.Slice(0, qkv)
	var recurrent *deltaBuffers
	if d.recurrence != nil {
		recurrent = l.deltaBuffers(d.recurrence, lim)
	}
	groups, before, recurrentBefore := c.Groups(lim), map[bool]int{}, 0
	// place returns the number under which the cache stores the next layer.
	place := func(slides bool) int {
		at := groups.place(before[false]+before[true], before[slides], slides)
		before[slides]++
		return at
	}
	return l.layers(m, d, lim, func(i int) attention {
		if d.recurrence.covers(i) {
			recurrentBefore++
			if d.recurrence.scan {
				return l.mamba(i, recurrentBefore-1, d.recurrence, c.Hidden, recurrent)
			}
			return l.deltaNet(i, recurrentBefore-1, d.recurrence, c.Hidden, recurrent)
		}
		if d.convolution.covers(i) {
			return l.shortConv(i, d.convolution, s, m, place)
		}
		a := l.grouped(d, i, s, m, sliding)
		a.groupedBuffers, a.stored = buffers, place(a.shape.Window > 0)
		return a
	})
}

// grouped loads the attention of layer i. sliding is the rotation of the layers with a sliding
// window; nil if it is the same.
func (l *loader) grouped(d *design, i int, s compute.AttentionShape, m *decoder, sliding compute.Rope) *grouped {
	name := func(s string) string { return blockTensor(i, s) }
	hidden, queries, keys := m.config.Hidden, s.Heads*s.KeyDim, s.KVHeads*s.KeyDim
	a := &grouped{
		weights: l.queriesKeysValues(name, d, s, hidden),
		output:  []compute.Weight{l.weight(name("attn_output.weight"), s.Heads*s.ValueDim, hidden)},
		shape:   s, rope: m.rope,
	}
	a.shape.Scale = cmp.Or(d.scale, s.Scale)
	a.projection.Eps = l.eps()
	if d.window.covers(i) {
		a.shape.Window = d.window.length
		if sliding != nil {
			a.rope = sliding
		}
	}
	if d.unrotated != nil && d.unrotated(i) {
		a.rope = nil
	}
	if d.sinks {
		a.shape.Sinks = l.weight(name("attn_sinks.weight"), s.Heads)
	}
	if d.qkvBias {
		a.projection.Bias = l.joined(1, []string{name("attn_q.bias"), name("attn_k.bias"), name("attn_v.bias")}, queries, keys, s.KVHeads*s.ValueDim)
	}
	if d.attnGate {
		a.weights = append(a.weights, l.weight(name("attn_gate.weight"), hidden, s.Heads*s.ValueDim))
	}
	if d.outputBias {
		a.outputBias = l.weight(name("attn_output.bias"), hidden)
	}
	switch {
	case d.headNorms:
		a.projection.QueryNorm = l.weight(name("attn_q_norm.weight"), s.KeyDim)
		a.projection.KeyNorm = l.weight(name("attn_k_norm.weight"), s.KeyDim)
	case d.projectionNorms:
		a.queryNorm, a.keyNorm = l.weight(name("attn_q_norm.weight"), queries), l.weight(name("attn_k_norm.weight"), keys)
	}
	if !d.noPreNorms {
		a.norm = l.weight(name("attn_norm.weight"), hidden)
	}
	if d.postNorms {
		a.postNorm = l.weight(name("post_attention_norm.weight"), hidden)
	}
	return a
}

// queriesKeysValues loads the weights of queries, keys, values and, if there are any, of the heads'
// gates. Some files have those without gates in one tensor.
func (l *loader) queriesKeysValues(name func(string) string, d *design, s compute.AttentionShape, hidden int) []compute.Weight {
	queries, keys, values := s.Heads*s.KeyDim, s.KVHeads*s.KeyDim, s.KVHeads*s.ValueDim
	if d.gatedHeads {
		q := l.splitRows(l.tensor(name("attn_q.weight"), hidden, 2*queries), s.Heads, s.KeyDim, s.KeyDim)
		return []compute.Weight{
			l.place(q[0]), l.weight(name("attn_k.weight"), hidden, keys), l.weight(name("attn_v.weight"), hidden, values), l.place(q[1]),
		}
	}
	if w := l.optional(name("attn_qkv.weight"), hidden, queries+keys+values); w != nil {
		return []compute.Weight{w}
	}
	return []compute.Weight{
		l.weight(name("attn_q.weight"), hidden, queries),
		l.weight(name("attn_k.weight"), hidden, keys),
		l.weight(name("attn_v.weight"), hidden, values),
	}
}

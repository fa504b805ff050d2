package model

import (
	"cmp"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
)

// decoder loads a decoder. s is the shape of attention in layers without a sliding window.
func (l *loader) decoder(d *design, s compute.AttentionShape, c Config, lim Limits) Model {
	m := &decoder{embedScale: float32(cmp.Or(d.embedScale, 1))}
	if d.route != nil {
		m.route = *d.route
	}
	m.trunk = l.trunk(c)
	if d.logitScale > 0 {
		m.norm = l.joined(float32(1/d.logitScale), []string{"output_norm.weight"}, c.Hidden)
	}
	if r := d.branchScale; r > 0 {
		// Instead of x + r·branch, a layer computes x/r + branch: the residual stream is divided by the scale r of the branches. Norms of
		// the divided stream give the same results with eps/r².
		m.embedScale /= float32(r)
		m.eps /= float32(r * r)
	}
	var sliding compute.Rope
	m.rope = l.rope(d.freqs, lim)
	if d.slidingFreqs != nil {
		sliding = l.rope(*d.slidingFreqs, lim)
	}
	groups, before := c.Groups(lim), map[bool]int{}
	for i := range c.Layers + c.DraftLayers {
		layer := l.decoderLayer(d, i, s, m, sliding)
		if l.err != nil {
			return nil
		}
		slides := layer.shape.Window > 0
		layer.stored = groups.place(i, before[slides], slides)
		before[slides]++
		if i < c.Layers {
			m.layers = append(m.layers, layer)
		} else {
			m.mtp = &decoderMTP{mtp: l.mtp(i, &m.trunk, lim), layer: layer}
		}
	}
	l.unused(func(name string) bool {
		return isDerived(name) || c.DraftLayers > 0 && inBlocks(name, c.Layers+c.DraftLayers)
	})

	width := 1
	for i := range m.layers {
		width = max(width, m.layers[i].width(m.route))
	}
	if m.mtp != nil {
		width = max(width, m.mtp.layer.width(m.route))
	}
	m.qkv = l.buffer(lim.Rows, (s.Heads+s.KVHeads)*s.KeyDim+s.KVHeads*s.ValueDim)
	m.attn = l.buffer(lim.Rows, s.Heads*s.ValueDim)
	m.ffn = l.buffer(lim.Rows, width)
	if m.route.Used > 0 {
		m.routing = l.buffer(lim.Rows, 2*m.route.Used)
	}
	m.memory(l, lim, m.forward)
	return m
}

// width returns the number of activations per row of the layer's network.
func (l *decoderLayer) width(route compute.RouteShape) int {
	if l.ffnGate == nil {
		return l.mixture.width(route)
	}
	return l.ffnGate.Shape()[1]
}

// decoderLayer loads a layer. sliding is the rotation of the layers with a sliding window; nil if they have the same rotation as the other
// layers.
func (l *loader) decoderLayer(d *design, i int, s compute.AttentionShape, m *decoder, sliding compute.Rope) decoderLayer {
	name := func(s string) string { return blockTensor(i, s) }
	hidden, queries, keys, values := m.config.Hidden, s.Heads*s.KeyDim, s.KVHeads*s.KeyDim, s.KVHeads*s.ValueDim
	layer := decoderLayer{
		attnQKV:    l.attnQKV(name, hidden, queries, keys, values),
		attnOutput: []compute.Weight{l.weight(name("attn_output.weight"), s.Heads*s.ValueDim, hidden)},
		shape:      s, rope: m.rope, activation: d.activation,
	}
	layer.shape.Scale = cmp.Or(d.scale, s.Scale)
	layer.projection.Eps = l.eps()
	if d.window.covers(i) {
		layer.shape.Window = d.window.length
		if sliding != nil {
			layer.rope = sliding
		}
	}
	if d.unrotated != nil && d.unrotated(i) {
		layer.rope = nil
	}
	if d.sinks {
		layer.shape.Sinks = l.weight(name("attn_sinks.weight"), s.Heads)
	}
	if d.qkvBias {
		layer.projection.Bias = l.joined(1, []string{name("attn_q.bias"), name("attn_k.bias"), name("attn_v.bias")}, queries, keys, values)
	}
	if d.outputBias {
		layer.attnOutputBias = l.weight(name("attn_output.bias"), hidden)
	}
	switch {
	case d.headNorms:
		layer.projection.QueryNorm = l.weight(name("attn_q_norm.weight"), s.KeyDim)
		layer.projection.KeyNorm = l.weight(name("attn_k_norm.weight"), s.KeyDim)
	case d.projectionNorms:
		layer.queryNorm, layer.keyNorm = l.weight(name("attn_q_norm.weight"), queries), l.weight(name("attn_k_norm.weight"), keys)
	}
	if !d.noPreNorms {
		layer.attnNorm = l.weight(name("attn_norm.weight"), hidden)
		layer.ffnNorm = l.weight(name(cmp.Or(d.ffnNorm, "ffn_norm")+".weight"), hidden)
	}
	if d.postNorms {
		layer.attnPostNorm = l.weight(name("post_attention_norm.weight"), hidden)
		layer.ffnPostNorm = l.weight(name("post_ffw_norm.weight"), hidden)
	}
	if d.route != nil && i >= d.dense {
		layer.mixture = l.mixture(i, hidden, m.route)
		layer.mixture.experts.Activation = d.activation
		if d.expertBias {
			l.expertBiases(i, hidden, m.route, &layer.mixture.experts)
		}
		return layer
	}
	ffn := l.size("feed_forward_length")
	if d.fusedUp {
		up := l.tensor(name("ffn_up.weight"), hidden, 2*ffn)
		layer.ffnGate, layer.ffnUp = l.place(rowsOf(up, 0, ffn)), l.place(rowsOf(up, ffn, ffn))
	} else {
		layer.ffnGate = l.weight(name("ffn_gate.weight"), hidden, ffn)
		layer.ffnUp = l.weight(name("ffn_up.weight"), hidden, ffn)
	}
	layer.ffnDown = []compute.Weight{l.weight(name("ffn_down.weight"), ffn, hidden)}
	return layer
}

// attnQKV loads the weights of queries, keys and values. Some files have them in one tensor.
func (l *loader) attnQKV(name func(string) string, hidden, queries, keys, values int) []compute.Weight {
	if w := l.optional(name("attn_qkv.weight"), hidden, queries+keys+values); w != nil {
		return []compute.Weight{w}
	}
	return []compute.Weight{
		l.weight(name("attn_q.weight"), hidden, queries),
		l.weight(name("attn_k.weight"), hidden, keys),
		l.weight(name("attn_v.weight"), hidden, values),
	}
}

// rowsOf returns rows [from, from+n) of a matrix. They share the memory of the matrix.
func rowsOf(t gguf.Tensor, from, n int) gguf.Tensor {
	if len(t.Shape) != 2 { // the loader has an error already
		return t
	}
	each := len(t.Data) / t.Shape[1]
	t.Data = t.Data[from*each : (from+n)*each]
	t.Shape = []int{t.Shape[0], n}
	return t
}

package model

import (
	"fmt"
	"math"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
)

// loadGLM loads a model of the family of GLM-4.7-Flash.
func loadGLM(l *loader, c Config, lim Limits) Model {
	m := &glm{mla: l.mlaShape()}
	m.route = l.routeShape(flashGating(c))
	l.refuse("attention.temperature_scale", 0) // scales queries by position, as in Mistral Large 3
	if l.err != nil {
		return nil
	}
	freqs, factor := l.ropeFreqs(m.mla.rope, false)
	m.mla.attention.Scale *= float32(l.yarnScale(factor))

	m.trunk = l.trunk(c)
	dense := l.sizeOr("leading_dense_block_count", 0)
	for i := range c.Layers {
		m.layers = append(m.layers, l.glmLayer(i, m, i >= dense))
		if l.err != nil {
			return nil
		}
	}
	if c.DraftLayers > 0 {
		m.mtp = &glmMTP{mtp: l.mtp(c.Layers, &m.trunk, lim), layer: l.glmLayer(c.Layers, m, c.Layers >= dense)}
		if l.err != nil {
			return nil
		}
	}
	// Only the first MTP layer is used. Further MTP layers in the file are ignored.
	l.unused(func(name string) bool { return isDerived(name) || inBlocks(name, c.Layers+c.DraftLayers) })

	m.buffers(l, lim)
	m.rope = l.rope(freqs, lim)
	m.memory(l, lim, m.forward)
	return m
}

// buffers makes the step buffers.
func (m *glm) buffers(l *loader, lim Limits) {
	s := m.mla
	m.hidden = l.buffer(lim.Rows, m.config.Hidden)
	m.a = l.buffer(lim.Rows, s.queryCols()+s.kvRank+s.rope)
	if s.qA > 0 {
		m.normedQ = l.buffer(lim.Rows, s.qA)
		m.q = l.buffer(lim.Rows, s.heads*(s.nope+s.rope))
	}
	m.absorb = l.buffer(lim.Rows, s.heads*(s.kvRank+s.rope))
	m.ctx = l.buffer(lim.Rows, s.heads*s.kvRank)
	m.attn = l.buffer(lim.Rows, s.heads*s.value)
	m.ffn = l.buffer(lim.Rows, m.ffnWidth())
	if m.route.Used > 0 {
		m.routing = l.buffer(lim.Rows, 2*m.route.Used)
	}
}

// ffnWidth returns the maximum number of activations per row of a layer's network, over all layers.
func (m *glm) ffnWidth() int {
	layers := m.layers
	if m.mtp != nil {
		layers = append(layers[:len(layers):len(layers)], m.mtp.layer)
	}
	width := 1
	for _, layer := range layers {
		w := layer.mixture.width(m.route)
		if layer.ffnGate != nil {
			w = layer.ffnGate.Shape()[1]
		}
		width = max(width, w)
	}
	return width
}

// mlaShape reads the sizes of the attention. In newer files, made for absorbed MLA, key_length and value_length are the sizes of
// latents, and *_mla are the sizes of heads. In older files, key_length and value_length are the sizes of heads.
func (l *loader) mlaShape() mlaShape {
	s := mlaShape{
		heads:  l.size("attention.head_count"),
		qA:     l.sizeOr("attention.q_lora_rank", 0),
		kvRank: l.size("attention.kv_lora_rank"),
		rope:   l.size("rope.dimension_count"),
	}
	var key int
	if l.has("attention.key_length_mla") {
		key, s.value = l.size("attention.key_length_mla"), l.size("attention.value_length_mla")
	} else {
		key, s.value = l.size("attention.key_length"), l.size("attention.value_length")
	}
	s.nope = key - s.rope
	if l.err == nil && s.nope < 1 {
		l.fail(fmt.Errorf("a head's key has %d values, but must have more than rope.dimension_count, which is %d", key, s.rope))
		return s
	}
	s.attention = compute.AttentionShape{
		Heads: s.heads, KVHeads: 1, KeyDim: s.kvRank + s.rope, ValueDim: s.kvRank,
		Scale: float32(1 / math.Sqrt(float64(key))),
	}
	return s
}

// glmConfig reads the sizes of a model of the family and its number of MTP layers.
func glmConfig(l *loader) Config {
	s := l.mlaShape()
	c := Config{
		Architecture: l.arch,
		Name:         l.name(),
		Context:      l.size("context_length"),
		Layers:       l.size("block_count"),
		Hidden:       l.size("embedding_length"),
		KeyCols:      s.kvRank + s.rope,
		KeyDim:       s.kvRank + s.rope,
		ValueDim:     s.kvRank,
	}
	c.Vocab = l.vocab(c.Hidden)
	l.mtpLayers(&c)
	return c
}

// flashLayers and flashVocab identify early files of GLM-4.7-Flash, which lack expert_gating_func.
const (
	flashLayers = 47
	flashVocab  = 154880
)

// flashGating returns the gating for files without expert_gating_func.
func flashGating(c Config) compute.Gating {
	if c.Layers == flashLayers && c.Vocab == flashVocab {
		return compute.GatingSigmoid
	}
	return compute.GatingSoftmax
}

// yarnScale returns YaRN's factor for the attention scores: the square of 1 + m·ln(factor). The file has m, which is 0.1·mscale_all_dim in
// the original configuration.
func (l *loader) yarnScale(factor float64) float64 {
	m := 1 + l.floatOr("rope.scaling.yarn_log_multiplier", 0)*math.Log(max(factor, 1))
	return m * m
}

func (l *loader) glmLayer(i int, m *glm, experts bool) glmLayer {
	c, s := m.config, m.mla
	name := func(s string) string { return blockTensor(i, s) }
	layer := glmLayer{
		attnNorm:   l.weight(name("attn_norm.weight"), c.Hidden),
		attnKVNorm: l.weight(name("attn_kv_a_norm.weight"), s.kvRank),
		attnOutput: l.weight(name("attn_output.weight"), s.heads*s.value, c.Hidden),
		ffnNorm:    l.weight(name("ffn_norm.weight"), c.Hidden),
	}
	kvA := l.weight(name("attn_kv_a_mqa.weight"), c.Hidden, s.kvRank+s.rope)
	if s.qA > 0 {
		layer.attnA = []compute.Weight{l.weight(name("attn_q_a.weight"), c.Hidden, s.qA), kvA}
		layer.attnQANorm = l.weight(name("attn_q_a_norm.weight"), s.qA)
		layer.attnQB = []compute.Weight{l.weight(name("attn_q_b.weight"), s.qA, s.heads*(s.nope+s.rope))}
	} else {
		layer.attnA = []compute.Weight{l.weight(name("attn_q.weight"), c.Hidden, s.heads*(s.nope+s.rope)), kvA}
	}
	_, joint := l.file.Tensor(name("attn_kv_b.weight"))
	_, split := l.file.Tensor(name("attn_k_b.weight"))
	if joint && !split {
		layer.attnKB, layer.attnVB = l.splitKVB(name("attn_kv_b.weight"), s)
	} else {
		layer.attnKB = l.weight(name("attn_k_b.weight"), s.nope, s.kvRank, s.heads)
		layer.attnVB = l.weight(name("attn_v_b.weight"), s.kvRank, s.value, s.heads)
		l.used[name("attn_kv_b.weight")] = true // some files have the joint weight in addition
	}
	if experts {
		layer.mixture = l.mixture(i, c.Hidden, m.route)
		return layer
	}
	ffn := l.size("feed_forward_length")
	layer.ffnGate = l.weight(name("ffn_gate.weight"), c.Hidden, ffn)
	layer.ffnUp = l.weight(name("ffn_up.weight"), c.Hidden, ffn)
	layer.ffnDown = l.weight(name("ffn_down.weight"), ffn, c.Hidden)
	return layer
}

// splitKVB makes the two weights of absorbed attention from the older joint weight, {kvRank, heads*(nope+value)}. The value part keeps its
// type. The key part must be transposed, which is not possible in quantised blocks. It becomes float16, or float32 if its type has a larger
// range than float16.
func (l *loader) splitKVB(name string, s mlaShape) (kb, vb compute.Weight) {
	t := l.tensor(name, s.kvRank, s.heads*(s.nope+s.value))
	if l.err != nil {
		return nil, nil
	}
	rowBytes, err := t.Type.RowBytes(s.kvRank)
	if err != nil {
		l.fail(fmt.Errorf("tensor %s: %w", name, err))
		return nil, nil
	}
	kind := gguf.TypeF16
	if t.Type == gguf.TypeF32 || t.Type == gguf.TypeBF16 {
		kind = gguf.TypeF32
	}
	k := gguf.Tensor{Name: name + " (keys)", Type: kind, Shape: []int{s.nope, s.kvRank, s.heads}}
	v := gguf.Tensor{Name: name + " (values)", Type: t.Type, Shape: []int{s.kvRank, s.value, s.heads}}
	if l.planning {
		return l.place(k), l.place(v)
	}
	keys := make([]float32, s.heads*s.kvRank*s.nope)
	values := make([]byte, 0, s.heads*s.value*rowBytes)
	line := make([]float32, s.kvRank)
	for head := range s.heads {
		data := t.Data[head*(s.nope+s.value)*rowBytes:]
		for i := range s.nope {
			gguf.Dequantize(line, t.Type, data[i*rowBytes:(i+1)*rowBytes])
			for j, v := range line {
				keys[(head*s.kvRank+j)*s.nope+i] = v
			}
		}
		values = append(values, data[s.nope*rowBytes:(s.nope+s.value)*rowBytes]...)
	}
	size, err := kind.RowBytes(len(keys))
	if err != nil {
		l.fail(err)
		return nil, nil
	}
	k.Data = make([]byte, size)
	if err := gguf.Quantize(k.Data, kind, keys); err != nil {
		l.fail(fmt.Errorf("tensor %s: %w", name, err))
		return nil, nil
	}
	v.Data = values
	return l.place(k), l.place(v)
}

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
	m.route = l.routeShape(c)
	l.refuse("attention.temperature_scale", 0) // scales queries by position, as in Mistral Large 3
	if l.err != nil {
		return nil
	}
	freqs, factor := l.ropeFreqs(m.mla.rope)
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
		m.mtp = l.glmMTP(c.Layers, m, c.Layers >= dense, lim)
		if l.err != nil {
			return nil
		}
	}
	// Only the first MTP layer is used. Further MTP layers in the file are ignored.
	l.unused(func(name string) bool { return isDerived(name) || inBlocks(name, c.Layers+c.DraftLayers) })

	m.buffers(l, lim)
	m.memory(l, lim, freqs, m.forward)
	return m
}

// buffers makes the step buffers.
func (m *glm) buffers(l *loader, lim Limits) {
	s := m.mla
	m.hidden = l.buffer(lim.Rows, m.config.Hidden)
	m.a = l.buffer(lim.Rows, s.queryCols()+s.kvRank+s.rope)
	if s.qA > 0 {
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

// ffnWidth returns the maximum width of a layer's activations.
func (m *glm) ffnWidth() int {
	layers := m.layers
	if m.mtp != nil {
		layers = append(layers[:len(layers):len(layers)], m.mtp.layer)
	}
	width := 1
	for _, layer := range layers {
		w := 0
		for _, gate := range []compute.Weight{layer.ffnGate, layer.experts.SharedGate} {
			if gate != nil {
				w += gate.Shape()[1]
			}
		}
		if layer.router != nil {
			w += m.route.Used * layer.experts.Gate.Shape()[1]
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

// glmConfig reads the sizes of a model of the family, and whether it has an MTP layer.
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
	// The last blocks can be MTP layers. Some files count MTP layers but do not have their tensors.
	mtp := l.sizeOr("nextn_predict_layers", 0)
	if mtp >= c.Layers {
		l.fail(fmt.Errorf("%s is %d, but must be less than block_count, which is %d", l.key("nextn_predict_layers"), mtp, c.Layers))
		return c
	}
	for range mtp {
		_, isMTP := l.file.Tensor(blockTensor(c.Layers-1, "nextn.eh_proj.weight"))
		_, isTrunk := l.file.Tensor(blockTensor(c.Layers-1, "attn_norm.weight"))
		if isTrunk && !isMTP {
			break
		}
		if isMTP {
			c.DraftLayers = 1
		}
		c.Layers--
	}
	return c
}

// flashLayers and flashVocab identify early files of GLM-4.7-Flash, which lack expert_gating_func.
const (
	flashLayers = 47
	flashVocab  = 154880
)

// maxExperts and maxUsed are higher than the numbers of any known model. They limit the time of routing, which examines all
// experts once per used expert.
const (
	maxExperts = 1024
	maxUsed    = 64
)

func (l *loader) routeShape(c Config) compute.RouteShape {
	r := compute.RouteShape{
		Experts:   l.sizeOr("expert_count", 0),
		Used:      l.sizeOr("expert_used_count", 0),
		Normalise: l.boolOr("expert_weights_norm", false),
		Scale:     float32(l.floatOr("expert_weights_scale", 1)),
	}
	gating := compute.GatingSoftmax
	if c.Layers == flashLayers && c.Vocab == flashVocab {
		gating = compute.GatingSigmoid
	}
	r.Gating = compute.Gating(l.sizeOr("expert_gating_func", int(gating)))
	if r.Gating != compute.GatingSoftmax && r.Gating != compute.GatingSigmoid {
		l.fail(fmt.Errorf("%s is %d: %w", l.key("expert_gating_func"), r.Gating, ErrUnsupported))
	}
	if r.Used > r.Experts {
		l.fail(fmt.Errorf("%s is %d, but must be at most %[4]s, which is %[3]d", l.key("expert_used_count"), r.Used, r.Experts, l.key("expert_count")))
	}
	if r.Experts > maxExperts || r.Used > maxUsed {
		l.fail(fmt.Errorf("%s is %d and %s is %d; more than %d experts or %d of them for a row: %w",
			l.key("expert_count"), r.Experts, l.key("expert_used_count"), r.Used, maxExperts, maxUsed, ErrUnsupported))
	}
	if groups := l.sizeOr("expert_group_count", 1); groups > 1 {
		l.fail(fmt.Errorf("%s is %d; routing by groups: %w", l.key("expert_group_count"), groups, ErrUnsupported))
	}
	if r.Scale == 0 { // 0 means that there is no scale
		r.Scale = 1
	}
	return r
}

// yarnScale returns YaRN's factor for the scores: the square of 1 + m·ln(factor), with m from the file (the
// original's 0.1·mscale_all_dim).
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
		l.used[name("attn_kv_b.weight")] = true // some files also have the same values in the joint form
	}
	if experts {
		l.expertWeights(&layer, name, m)
		return layer
	}
	ffn := l.size("feed_forward_length")
	layer.ffnGate = l.weight(name("ffn_gate.weight"), c.Hidden, ffn)
	layer.ffnUp = l.weight(name("ffn_up.weight"), c.Hidden, ffn)
	layer.ffnDown = l.weight(name("ffn_down.weight"), ffn, c.Hidden)
	return layer
}

func (l *loader) expertWeights(layer *glmLayer, name func(string) string, m *glm) {
	if m.route.Used == 0 {
		l.fail(fmt.Errorf("%s is missing or 0, but %s are tensors of a layer of experts", l.key("expert_used_count"), name("*")))
		return
	}
	hidden, n, ffn := m.config.Hidden, m.route.Experts, l.size("expert_feed_forward_length")
	layer.router = l.weight(name("ffn_gate_inp.weight"), hidden, n)
	layer.routerBias = l.optional(name("exp_probs_b.bias"), n)
	layer.experts = compute.Experts{
		Gate: l.weight(name("ffn_gate_exps.weight"), hidden, ffn, n),
		Up:   l.weight(name("ffn_up_exps.weight"), hidden, ffn, n),
		Down: l.weight(name("ffn_down_exps.weight"), ffn, hidden, n),
	}
	if e := layer.experts; l.err == nil && e.Gate.Type() != e.Up.Type() {
		l.fail(fmt.Errorf("%s is %v and %s is %v; gate and up of different types: %w",
			name("ffn_gate_exps.weight"), e.Gate.Type(), name("ffn_up_exps.weight"), e.Up.Type(), ErrUnsupported))
		return
	}
	if shared := l.sizeOr("expert_shared_count", 0) * ffn; shared > 0 {
		layer.experts.SharedGate = l.weight(name("ffn_gate_shexp.weight"), hidden, shared)
		layer.experts.SharedUp = l.weight(name("ffn_up_shexp.weight"), hidden, shared)
		layer.experts.SharedDown = l.weight(name("ffn_down_shexp.weight"), shared, hidden)
	}
}

func (l *loader) glmMTP(layer int, m *glm, experts bool, lim Limits) *glmMTP {
	hidden, vocab := m.config.Hidden, m.config.Vocab
	name := func(s string) string { return blockTensor(layer, "nextn."+s) }
	mtp := &glmMTP{
		enorm:    l.weight(name("enorm.weight"), hidden),
		hnorm:    l.weight(name("hnorm.weight"), hidden),
		ehProj:   []compute.Weight{l.weight(name("eh_proj.weight"), 2*hidden, hidden)},
		layer:    l.glmLayer(layer, m, experts),
		headNorm: l.weight(name("shared_head_norm.weight"), hidden),
		embd:     l.optional(name("embed_tokens.weight"), hidden, vocab),
		output:   l.headOr(m.output[0], name("shared_head_head.weight"), m.config),
		embedded: l.buffer(lim.Rows, hidden),
		concat:   l.buffer(lim.Rows, 2*hidden),
		x:        l.buffer(lim.Rows, hidden),
		out:      l.buffer(lim.Outputs, hidden),
	}
	if mtp.embd == nil {
		mtp.embd = m.embd
	}
	return mtp
}

// splitKVB makes the two weights of absorbed attention from the older joint weight, {kvRank, heads*(nope+value)}. The value part
// keeps its type. The key part must be transposed, which is not possible in quantised blocks. It becomes float16, or float32 if the
// file has floats that may be outside the range of float16.
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

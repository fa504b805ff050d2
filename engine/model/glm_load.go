package model

import (
	"fmt"
	"math"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
)

// loadGLM loads a model of the family of GLM-4.7-Flash and DeepSeek-V2/V3 (GGUF architecture
// deepseek2): latent attention, dense layers, then layers with mixtures of experts, and optionally
// an MTP layer.
func loadGLM(l *loader, c Config, lim Limits) Model {
	b, route := &latentBuffers{shape: l.mlaShape()}, l.routeShape(flashGating(c))
	l.refuse("attention.temperature_scale", 0) // scales queries by position, as in Mistral Large 3
	if l.err != nil {
		return nil
	}
	s := &b.shape
	freqs, factor := l.ropeFreqs(s.rope, false)
	s.attention.Scale *= float32(l.yarnScale(factor))

	m := &decoder{trunk: l.trunk(c), embedScale: 1}
	m.rope = l.rope(freqs, lim)
	b.a = l.buffer(lim.Rows, s.queryCols()+s.kvRank+s.rope)
	if s.qA > 0 {
		b.normedQ = l.buffer(lim.Rows, s.qA)
		b.q = l.buffer(lim.Rows, s.heads*(s.nope+s.rope))
	}
	b.absorb = l.buffer(lim.Rows, s.heads*(s.kvRank+s.rope))
	b.ctx = l.buffer(lim.Rows, s.heads*s.kvRank)
	b.attn = l.buffer(lim.Rows, s.heads*s.value)
	d := design{route: &route, dense: l.sizeOr("leading_dense_block_count", 0), extraLayers: true}
	return l.layers(m, &d, lim, func(i int) attention { return l.latent(i, c.Hidden, b) })
}

// mlaShape reads the sizes of the attention. In newer files, made for absorbed MLA, key_length and
// value_length are the sizes of latents, and *_mla are the sizes of heads. In older files,
// key_length and value_length are the sizes of heads.
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

func glmConfig(l *loader) Config {
	s := l.mlaShape()
	c := Config{
		Architecture: l.arch,
		Name:         l.name(),
		Context:      l.context(),
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

// yarnScale returns YaRN's factor for the attention scores: the square of 1 + m·ln(factor). The
// file has m, which is 0.1·mscale_all_dim in the original configuration.
func (l *loader) yarnScale(factor float64) float64 {
	m := 1 + l.floatOr("rope.scaling.yarn_log_multiplier", 0)*math.Log(max(factor, 1))
	return m * m
}

func (l *loader) latent(i, hidden int, b *latentBuffers) *latent {
	s, name := b.shape, func(s string) string { return blockTensor(i, s) }
	a := &latent{
		latentBuffers: b,
		norm:          l.weight(name("attn_norm.weight"), hidden),
		kvNorm:        l.weight(name("attn_kv_a_norm.weight"), s.kvRank),
		output:        l.weight(name("attn_output.weight"), s.heads*s.value, hidden),
	}
	kvA := l.weight(name("attn_kv_a_mqa.weight"), hidden, s.kvRank+s.rope)
	if s.qA > 0 {
		a.weights = []compute.Weight{l.weight(name("attn_q_a.weight"), hidden, s.qA), kvA}
		a.qaNorm = l.weight(name("attn_q_a_norm.weight"), s.qA)
		a.qb = []compute.Weight{l.weight(name("attn_q_b.weight"), s.qA, s.heads*(s.nope+s.rope))}
	} else {
		a.weights = []compute.Weight{l.weight(name("attn_q.weight"), hidden, s.heads*(s.nope+s.rope)), kvA}
	}
	_, joint := l.file.Tensor(name("attn_kv_b.weight"))
	_, split := l.file.Tensor(name("attn_k_b.weight"))
	if joint && !split {
		a.kb, a.vb = l.splitKVB(name("attn_kv_b.weight"), s)
	} else {
		a.kb = l.weight(name("attn_k_b.weight"), s.nope, s.kvRank, s.heads)
		a.vb = l.weight(name("attn_v_b.weight"), s.kvRank, s.value, s.heads)
		l.used[name("attn_kv_b.weight")] = true // some files have the joint weight in addition
	}
	return a
}

// splitKVB makes the two weights of absorbed attention from the older joint weight, {kvRank,
// heads*(nope+value)}. The value part keeps its type. The key part must be transposed, which is not
// possible in quantised blocks. It becomes float16, or float32 if its type has a larger range than
// float16.
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
			gguf.Dequantise(line, t.Type, data[i*rowBytes:(i+1)*rowBytes])
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
	if err := gguf.Quantise(k.Data, kind, keys); err != nil {
		l.fail(fmt.Errorf("tensor %s: %w", name, err))
		return nil, nil
	}
	v.Data = values
	return l.place(k), l.place(v)
}

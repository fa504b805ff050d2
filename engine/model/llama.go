package model

import (
	"fmt"
	"math"

	"github.com/ingot-run/ingot/engine/compute"
)

// llama is the Llama family: grouped-query attention with RoPE over interleaved pairs, and a gated feed-forward network. Each has
// an RMS norm before it.
type llama struct {
	trunk
	shape  compute.AttentionShape
	layers []llamaLayer

	qkv  compute.Tensor // [rows, (heads+kvHeads)*keyDim + kvHeads*valueDim]
	attn compute.Tensor // [rows, heads*valueDim]
	ffn  compute.Tensor // [rows, ffn]
}

type llamaLayer struct {
	attnNorm compute.Weight // {hidden}
	// {hidden, heads*keyDim}, {hidden, kvHeads*keyDim}, {hidden, kvHeads*valueDim}; stored as a slice, so that steps
	// need not allocate one
	attnQKV        []compute.Weight
	attnOutput     compute.Weight // {heads*valueDim, hidden}
	ffnNorm        compute.Weight // {hidden}
	ffnGate, ffnUp compute.Weight // {hidden, ffn}
	ffnDown        compute.Weight // {ffn, hidden}
}

// forward records a forward pass.
func (m *llama) forward(s compute.Step, b *compute.Batch) (logits compute.Tensor) {
	n := len(b.Tokens)
	x, h, qkv, attn, ffn := m.x.Head(n), m.h.Head(n), m.qkv.Head(n), m.attn.Head(n), m.ffn.Head(n)

	s.Embed(x, m.embd)
	s.Checkpoint(-1, "embd", x)
	for i, l := range m.layers {
		s.RMSNorm(h, x, l.attnNorm, m.eps)
		s.MatMul(qkv, h, l.attnQKV...)
		s.RopeStore(qkv, m.shape, m.rope, m.cache, i)
		s.Attention(attn, qkv, m.shape, m.cache, i)
		s.Checkpoint(i, "attn", attn)
		s.MatMulAdd(x, attn, l.attnOutput)
		s.Checkpoint(i, "attn_out", x)

		s.RMSNorm(h, x, l.ffnNorm, m.eps)
		s.GatedMatMul(ffn, h, l.ffnGate, l.ffnUp)
		s.MatMulAdd(x, ffn, l.ffnDown)
		s.Checkpoint(i, "layer_out", x)
	}
	s.RMSNorm(x, x, m.norm, m.eps)
	s.Checkpoint(m.config.Layers, "norm", x)
	return m.head(s, b, x)
}

// loadLlama loads a model of the Llama family.
func loadLlama(l *loader, c Config, lim Limits) Model {
	m := &llama{shape: l.groupedShape()}
	s := m.shape
	if l.sizeOr("expert_count", 0) > 0 {
		l.fail(fmt.Errorf("a mixture of experts of architecture llama: %w", ErrUnsupported))
	}
	ffn := l.size("feed_forward_length")
	dims := l.sizeOr("rope.dimension_count", s.KeyDim)
	if dims > s.KeyDim {
		l.fail(fmt.Errorf("%s is %d, but a head has only %d values", l.key("rope.dimension_count"), dims, s.KeyDim))
	}
	if l.err != nil {
		return nil
	}
	freqs, factor := l.ropeFreqs(dims)
	if factor > 1 {
		freqs.Scale = float32(1 + 0.1*math.Log(factor)) // YaRN's temperature; queries and keys are both multiplied by its square root
	}

	m.trunk = l.trunk(c)
	for i := range c.Layers {
		name := func(s string) string { return blockTensor(i, s) }
		m.layers = append(m.layers, llamaLayer{
			attnNorm: l.weight(name("attn_norm.weight"), c.Hidden),
			attnQKV: []compute.Weight{
				l.weight(name("attn_q.weight"), c.Hidden, s.Heads*s.KeyDim),
				l.weight(name("attn_k.weight"), c.Hidden, s.KVHeads*s.KeyDim),
				l.weight(name("attn_v.weight"), c.Hidden, s.KVHeads*s.ValueDim),
			},
			attnOutput: l.weight(name("attn_output.weight"), s.Heads*s.ValueDim, c.Hidden),
			ffnNorm:    l.weight(name("ffn_norm.weight"), c.Hidden),
			ffnGate:    l.weight(name("ffn_gate.weight"), c.Hidden, ffn),
			ffnUp:      l.weight(name("ffn_up.weight"), c.Hidden, ffn),
			ffnDown:    l.weight(name("ffn_down.weight"), ffn, c.Hidden),
		})
		if l.err != nil {
			return nil
		}
	}
	l.unused(isDerived)

	m.qkv = l.buffer(lim.Rows, (s.Heads+s.KVHeads)*s.KeyDim+s.KVHeads*s.ValueDim)
	m.attn = l.buffer(lim.Rows, s.Heads*s.ValueDim)
	m.ffn = l.buffer(lim.Rows, ffn)
	m.memory(l, lim, freqs, m.forward)
	return m
}

// llamaConfig reads the sizes of a Llama model.
func llamaConfig(l *loader) Config {
	s := l.groupedShape()
	if l.err != nil {
		return Config{}
	}
	hidden := l.size("embedding_length")
	return Config{
		Architecture: l.arch,
		Name:         l.name(),
		Vocab:        l.vocab(hidden),
		Context:      l.size("context_length"),
		Layers:       l.size("block_count"),
		Hidden:       hidden,
		KeyCols:      s.KVHeads * s.KeyDim,
		ValueCols:    s.KVHeads * s.ValueDim,
		KeyDim:       s.KeyDim,
		ValueDim:     s.ValueDim,
	}
}

// groupedShape reads the sizes of grouped-query attention.
func (l *loader) groupedShape() compute.AttentionShape {
	hidden, heads := l.size("embedding_length"), l.size("attention.head_count")
	s := compute.AttentionShape{Heads: heads, KVHeads: l.sizeOr("attention.head_count_kv", heads)}
	if l.err != nil {
		return s
	}
	if s.KVHeads == 0 || s.Heads%s.KVHeads != 0 {
		l.fail(fmt.Errorf("%s is %d, but must be a divisor of the number of query heads, which is %d", l.key("attention.head_count_kv"), s.KVHeads, s.Heads))
		return s
	}
	s.KeyDim = l.sizeOr("attention.key_length", hidden/heads)
	s.ValueDim = l.sizeOr("attention.value_length", s.KeyDim)
	if s.KeyDim < 2 || s.ValueDim < 1 {
		l.fail(fmt.Errorf("attention.key_length is %d and attention.value_length %d; they must be at least 2 and 1: %w", s.KeyDim, s.ValueDim, ErrUnsupported))
	}
	s.Scale = float32(1 / math.Sqrt(float64(s.KeyDim)))
	return s
}

package model

import (
	"fmt"
	"math"

	"github.com/ingot-run/ingot/engine/compute"
)

// llama is the Llama family: grouped-query attention with RoPE over interleaved pairs, a gated feed-forward network, and
// an RMS norm before each.
type llama struct {
	steps
	config Config
	shape  compute.AttentionShape
	eps    float32

	embd   compute.Weight // {hidden, vocab}
	layers []llamaLayer
	norm   compute.Weight   // {hidden}
	output []compute.Weight // one of {hidden, vocab}; the embedding where the file ties them
	rope   compute.Rope
	cache  compute.Cache

	x      compute.Tensor // [rows, hidden] the residual stream
	h      compute.Tensor // [rows, hidden] normed
	qkv    compute.Tensor // [rows, (heads+kvHeads)*keyDim + kvHeads*valueDim]
	attn   compute.Tensor // [rows, heads*valueDim]
	ffn    compute.Tensor // [rows, ffn]
	last   compute.Tensor // [outputs, hidden]
	logits compute.Tensor // [outputs, vocab]
}

type llamaLayer struct {
	attnNorm compute.Weight // {hidden}
	// {hidden, heads*keyDim}, {hidden, kvHeads*keyDim}, {hidden, kvHeads*valueDim}: a list, so that no step makes one
	attnQKV        []compute.Weight
	attnOutput     compute.Weight // {heads*valueDim, hidden}
	ffnNorm        compute.Weight // {hidden}
	ffnGate, ffnUp compute.Weight // {hidden, ffn}
	ffnDown        compute.Weight // {ffn, hidden}
}

// llama loads a model of the Llama family.
func (l *loader) llama(lim Limits) (Model, error) {
	m := &llama{}
	m.config, m.shape = l.llamaConfig()
	m.eps = l.eps()
	if l.sizeOr("expert_count", 0) > 0 {
		l.fail(fmt.Errorf("a mixture of experts of architecture llama: %w", ErrUnsupported))
	}
	ffn := l.size("feed_forward_length")
	dims := l.sizeOr("rope.dimension_count", m.shape.KeyDim)
	if dims > m.shape.KeyDim {
		l.fail(fmt.Errorf("%s is %d, more than the %d values of a head", l.key("rope.dimension_count"), dims, m.shape.KeyDim))
	}
	// A head's keys and values stand by themselves in the cache.
	if block := lim.KV.BlockSize(); block > 0 && (m.shape.KeyDim%block != 0 || m.shape.ValueDim%block != 0) {
		l.fail(fmt.Errorf("a cache of type %v cannot hold heads of %d and %d values, which are not whole blocks of %d; use f16: %w",
			lim.KV, m.shape.KeyDim, m.shape.ValueDim, block, ErrUnsupported))
	}
	if l.err != nil {
		return nil, l.err
	}
	freqs, factor := l.ropeFreqs(dims)
	if factor > 1 {
		freqs.Scale = float32(1 + 0.1*math.Log(factor)) // YaRN's temperature, half on queries and half on keys
	}

	c, s := m.config, m.shape
	m.embd = l.weight("token_embd.weight", c.Hidden, c.Vocab)
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
			return nil, l.err
		}
	}
	m.norm = l.weight("output_norm.weight", c.Hidden)
	m.output = l.headOr(m.embd, "output.weight", c)
	l.unused(isDerived)

	m.x, m.h = l.buffer(lim.Rows, c.Hidden), l.buffer(lim.Rows, c.Hidden)
	m.qkv = l.buffer(lim.Rows, (s.Heads+s.KVHeads)*s.KeyDim+s.KVHeads*s.ValueDim)
	m.attn = l.buffer(lim.Rows, s.Heads*s.ValueDim)
	m.ffn = l.buffer(lim.Rows, ffn)
	m.last, m.logits = l.buffer(lim.Outputs, c.Hidden), l.buffer(lim.Outputs, c.Vocab)
	m.rope, m.cache = l.memory(freqs, c, c.Layers, lim)
	m.steps = l.steps(lim, m.forward)
	return m, l.err
}

// llamaConfig reads the sizes of a Llama model.
func (l *loader) llamaConfig() (Config, compute.AttentionShape) {
	hidden, heads := l.size("embedding_length"), l.size("attention.head_count")
	s := compute.AttentionShape{Heads: heads, KVHeads: l.sizeOr("attention.head_count_kv", heads)}
	if l.err != nil {
		return Config{}, s
	}
	if s.KVHeads == 0 || s.Heads%s.KVHeads != 0 {
		l.fail(fmt.Errorf("%s is %d, which does not divide the %d query heads", l.key("attention.head_count_kv"), s.KVHeads, s.Heads))
		return Config{}, s
	}
	s.KeyDim = l.sizeOr("attention.key_length", hidden/heads)
	s.ValueDim = l.sizeOr("attention.value_length", s.KeyDim)
	if s.KeyDim < 2 || s.ValueDim < 1 {
		l.fail(fmt.Errorf("heads of %d and %d values: %w", s.KeyDim, s.ValueDim, ErrUnsupported))
	}
	s.Scale = float32(1 / math.Sqrt(float64(s.KeyDim)))
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
	}, s
}

// Config implements Model.
func (m *llama) Config() Config { return m.config }

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

	logits = m.logits.Head(len(b.Outputs))
	if len(b.Outputs) > 0 {
		last := m.last.Head(len(b.Outputs))
		s.Gather(last, x, b.Outputs)
		s.MatMul(logits, last, m.output...)
		s.Checkpoint(m.config.Layers, "logits", logits)
	}
	return logits
}

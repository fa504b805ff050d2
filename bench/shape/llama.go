package shape

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ingot-run/ingot/engine/gguf"
)

// llamaSizes is the shape of a model of the Llama family.
type llamaSizes struct{ hidden, layers, ffn, heads, kvHeads, headDim, vocab, context int }

// llamas has the shapes of the Llama family by name.
var llamas = map[string]llamaSizes{
	// HuggingFaceTB/SmolLM-135M (its config.json). The context is 16,384 instead of 2,048, so that long contexts can be measured.
	"smollm-135m": {hidden: 576, layers: 30, ffn: 1536, heads: 9, kvHeads: 3, headDim: 64, vocab: 49152, context: 16384},
}

var llamaNames = strings.Join(slices.Sorted(maps.Keys(llamas)), ", ")

func parseLlama(name string) (*Shape, error) {
	if l, ok := llamas[name]; ok {
		return l.shape(name), nil
	}
	return nil, nil
}

// shape returns the shape under a name.
func (l llamaSizes) shape(name string) *Shape { return &Shape{name, l.vocab, l.meta(name), l.tensors} }

func (l llamaSizes) meta(name string) func(m *gguf.Metadata) {
	return func(m *gguf.Metadata) {
		m.Set("general.architecture", "llama")
		m.Set("general.name", name+" (random weights)")
		m.Set("llama.context_length", uint32(l.context))
		m.Set("llama.embedding_length", uint32(l.hidden))
		m.Set("llama.block_count", uint32(l.layers))
		m.Set("llama.feed_forward_length", uint32(l.ffn))
		m.Set("llama.attention.head_count", uint32(l.heads))
		m.Set("llama.attention.head_count_kv", uint32(l.kvHeads))
		m.Set("llama.attention.layer_norm_rms_epsilon", float32(1e-5))
		m.Set("llama.rope.freq_base", float32(10000))
		m.Set("llama.rope.dimension_count", uint32(l.headDim))
		m.Set("llama.vocab_size", uint32(l.vocab))
	}
}

func (l llamaSizes) tensors(b *builder) {
	b.head("token_embd.weight", l.hidden, l.vocab) // also the output head
	for i := range l.layers {
		in := func(s string) string { return fmt.Sprintf("blk.%d.%s.weight", i, s) }
		b.floats(in("attn_norm"), l.hidden)
		b.matrix(in("attn_q"), l.hidden, l.heads*l.headDim)
		b.matrix(in("attn_k"), l.hidden, l.kvHeads*l.headDim)
		b.matrix(in("attn_v"), l.hidden, l.kvHeads*l.headDim)
		b.matrix(in("attn_output"), l.heads*l.headDim, l.hidden)
		b.floats(in("ffn_norm"), l.hidden)
		b.matrix(in("ffn_gate"), l.hidden, l.ffn)
		b.matrix(in("ffn_up"), l.hidden, l.ffn)
		b.matrix(in("ffn_down"), l.ffn, l.hidden)
	}
	b.floats("output_norm.weight", l.hidden)
}

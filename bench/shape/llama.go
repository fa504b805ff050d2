package shape

import (
	"fmt"

	"github.com/ingot-run/ingot/engine/gguf"
)

// smolLM has the shape of HuggingFaceTB/SmolLM-135M (its config.json), except that the context is 16,384 instead of 2,048, to measure
// long contexts.
func smolLM(name string) *Shape {
	const hidden, layers, ffn, heads, kvHeads, headDim, vocab = 576, 30, 1536, 9, 3, 64, 49152
	return &Shape{
		name:  name,
		vocab: vocab,
		meta: func(m *gguf.Metadata) {
			m.Set("general.architecture", "llama")
			m.Set("general.name", name+" (random weights)")
			m.Set("llama.context_length", uint32(16384))
			m.Set("llama.embedding_length", uint32(hidden))
			m.Set("llama.block_count", uint32(layers))
			m.Set("llama.feed_forward_length", uint32(ffn))
			m.Set("llama.attention.head_count", uint32(heads))
			m.Set("llama.attention.head_count_kv", uint32(kvHeads))
			m.Set("llama.attention.layer_norm_rms_epsilon", float32(1e-5))
			m.Set("llama.rope.freq_base", float32(10000))
			m.Set("llama.rope.dimension_count", uint32(headDim))
			m.Set("llama.vocab_size", uint32(vocab))
		},
		tensors: func(b *builder) {
			b.head("token_embd.weight", hidden, vocab) // also the output head
			for i := range layers {
				in := func(s string) string { return fmt.Sprintf("blk.%d.%s.weight", i, s) }
				b.floats(in("attn_norm"), hidden)
				b.matrix(in("attn_q"), hidden, heads*headDim)
				b.matrix(in("attn_k"), hidden, kvHeads*headDim)
				b.matrix(in("attn_v"), hidden, kvHeads*headDim)
				b.matrix(in("attn_output"), heads*headDim, hidden)
				b.floats(in("ffn_norm"), hidden)
				b.matrix(in("ffn_gate"), hidden, ffn)
				b.matrix(in("ffn_up"), hidden, ffn)
				b.matrix(in("ffn_down"), ffn, hidden)
			}
			b.floats("output_norm.weight", hidden)
		},
	}
}

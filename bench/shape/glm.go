package shape

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ingot-run/ingot/engine/gguf"
)

const glmLayers = 47

const glmNames = "glm-4.7-flash[:LAYERS]"

func parseGLM(name string) (*Shape, error) {
	base, _, _ := strings.Cut(name, ":")
	if base != "glm-4.7-flash" {
		return nil, nil
	}
	layers, err := parseLayers(name, glmLayers)
	return glmFlash(name, layers), err
}

// glmFlash returns the shape of zai-org/GLM-4.7-Flash, from its config.json, with the given number
// of layers and without the MTP layer.
func glmFlash(name string, layers int) *Shape {
	const (
		hidden, vocab             = 2048, 154880
		heads, qRank, kvRank      = 20, 768, 512
		nope, rope, value         = 192, 64, 256
		dense, ffn                = 1, 10240
		experts, used, expertFFN  = 64, 4, 1536
		key                       = nope + rope
		latentKey, latentValue    = kvRank + rope, kvRank
		sharedExperts, gating     = 1, 2
		scale, ropeBase, epsilon  = 1.8, 1e6, 1e-5
		context, normaliseWeights = 202752, true
	)
	return &Shape{
		name:  name,
		vocab: vocab,
		meta: func(m *gguf.Metadata) {
			m.Set("general.architecture", "deepseek2")
			m.Set("general.name", name+" (random weights)")
			settings := map[string]any{
				"block_count": uint32(layers), "context_length": uint32(context), "embedding_length": uint32(hidden), "vocab_size": uint32(vocab),
				"attention.head_count": uint32(heads), "attention.head_count_kv": uint32(1), "attention.layer_norm_rms_epsilon": float32(epsilon),
				"attention.q_lora_rank": uint32(qRank), "attention.kv_lora_rank": uint32(kvRank), "attention.key_length": uint32(latentKey),
				"attention.value_length": uint32(latentValue), "attention.key_length_mla": uint32(key), "attention.value_length_mla": uint32(value),
				"rope.dimension_count": uint32(rope), "rope.freq_base": float32(ropeBase), "feed_forward_length": uint32(ffn),
				"leading_dense_block_count": uint32(dense), "expert_count": uint32(experts), "expert_used_count": uint32(used),
				"expert_shared_count": uint32(sharedExperts), "expert_feed_forward_length": uint32(expertFFN), "expert_gating_func": uint32(gating),
				"expert_weights_scale": float32(scale), "expert_weights_norm": normaliseWeights,
			}
			for _, key := range slices.Sorted(maps.Keys(settings)) {
				m.Set("deepseek2."+key, settings[key])
			}
		},
		tensors: func(b *builder) {
			b.matrix("token_embd.weight", hidden, vocab)
			for i := range layers {
				in := func(s string) string { return fmt.Sprintf("blk.%d.%s", i, s) }
				b.floats(in("attn_norm.weight"), hidden)
				b.matrix(in("attn_q_a.weight"), hidden, qRank)
				b.floats(in("attn_q_a_norm.weight"), qRank)
				b.matrix(in("attn_q_b.weight"), qRank, heads*key)
				b.matrix(in("attn_kv_a_mqa.weight"), hidden, kvRank+rope)
				b.floats(in("attn_kv_a_norm.weight"), kvRank)
				b.matrix(in("attn_k_b.weight"), nope, kvRank, heads)
				b.matrix(in("attn_v_b.weight"), kvRank, value, heads)
				b.matrix(in("attn_output.weight"), heads*value, hidden)
				b.floats(in("ffn_norm.weight"), hidden)
				if i < dense {
					b.matrix(in("ffn_gate.weight"), hidden, ffn)
					b.matrix(in("ffn_up.weight"), hidden, ffn)
					b.matrix(in("ffn_down.weight"), ffn, hidden)
					continue
				}
				b.floats(in("ffn_gate_inp.weight"), hidden, experts)
				b.floats(in("exp_probs_b.bias"), experts)
				b.matrix(in("ffn_gate_exps.weight"), hidden, expertFFN, experts)
				b.matrix(in("ffn_up_exps.weight"), hidden, expertFFN, experts)
				b.matrix(in("ffn_down_exps.weight"), expertFFN, hidden, experts)
				b.matrix(in("ffn_gate_shexp.weight"), hidden, sharedExperts*expertFFN)
				b.matrix(in("ffn_up_shexp.weight"), hidden, sharedExperts*expertFFN)
				b.matrix(in("ffn_down_shexp.weight"), sharedExperts*expertFFN, hidden)
			}
			b.floats("output_norm.weight", hidden)
			b.head("output.weight", hidden, vocab)
		},
	}
}

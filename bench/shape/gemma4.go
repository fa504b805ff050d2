package shape

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ingot-run/ingot/engine/gguf"
)

// gemma4 is the shape of a model of the family gemma4.
type gemma4 struct {
	hidden, layers, ffn, heads   int
	kvFull, kvSliding            int // key heads of layers without and with a window
	period, window, context      int // every period-th layer has no window
	experts, used, expertFFN     int
	inputs, shared               int // values of a layer's input; last layers without keys and values
	keysAsValues, doubleSharedNN bool
}

const gemma4Vocab, gemma4Full, gemma4Sliding = 262144, 512, 256 // size of the vocabulary; values of a head

// gemma4s has the shapes by name. The sizes are those of the models' config.json files.
var gemma4s = map[string]gemma4{
	// google/gemma-4-31B-it
	"gemma4-31b": {
		hidden: 5376, layers: 60, ffn: 21504, heads: 32, kvFull: 4, kvSliding: 16, period: 6, window: 1024, context: 262144, keysAsValues: true,
	},
	// google/gemma-4-26B-A4B-it
	"gemma4-26b-a4b": {
		hidden: 2816, layers: 30, ffn: 2112, heads: 16, kvFull: 2, kvSliding: 8, period: 6, window: 1024, context: 262144, keysAsValues: true,
		experts: 128, used: 8, expertFFN: 704,
	},
	// google/gemma-4-E2B-it
	"gemma4-e2b": {
		hidden: 1536, layers: 35, ffn: 6144, heads: 8, kvFull: 1, kvSliding: 1, period: 5, window: 512, context: 131072, inputs: 256, shared: 20,
		doubleSharedNN: true,
	},
}

var gemma4Names = strings.Join(slices.Sorted(maps.Keys(gemma4s)), "[:LAYERS], ") + "[:LAYERS]"

func parseGemma4(name string) (*Shape, error) {
	base, _, _ := strings.Cut(name, ":")
	g, ok := gemma4s[base]
	if !ok {
		return nil, nil
	}
	layers, err := parseLayers(name, g.layers)
	if g.shared > 0 && err == nil { // as large a share of fewer layers, if both kinds of layers remain before them
		g.shared = max(min(layers*g.shared/g.layers, layers-g.period), 0)
	}
	g.layers = layers
	return &Shape{name, gemma4Vocab, g.meta(name), g.tensors}, err
}

func (g *gemma4) slides(i int) bool { return (i+1)%g.period != 0 }

func (g *gemma4) ffnOf(i int) int {
	if g.doubleSharedNN && i >= g.layers-g.shared {
		return 2 * g.ffn
	}
	return g.ffn
}

func (g *gemma4) meta(name string) func(m *gguf.Metadata) {
	return func(m *gguf.Metadata) {
		var pattern []bool
		var kv, ffn []int32
		for i := range g.layers {
			pattern = append(pattern, g.slides(i))
			ffn = append(ffn, int32(g.ffnOf(i)))
			if g.slides(i) {
				kv = append(kv, int32(g.kvSliding))
			} else {
				kv = append(kv, int32(g.kvFull))
			}
		}
		m.Set("general.architecture", "gemma4")
		m.Set("general.name", name+" (random weights)")
		settings := map[string]any{
			"block_count": uint32(g.layers), "context_length": uint32(g.context), "embedding_length": uint32(g.hidden), "feed_forward_length": ffn,
			"vocab_size": uint32(gemma4Vocab), "attention.head_count": uint32(g.heads), "attention.head_count_kv": kv,
			"attention.key_length": uint32(gemma4Full), "attention.value_length": uint32(gemma4Full),
			"attention.key_length_swa": uint32(gemma4Sliding), "attention.value_length_swa": uint32(gemma4Sliding),
			"attention.layer_norm_rms_epsilon": float32(1e-6), "attention.sliding_window": uint32(g.window), "attention.sliding_window_pattern": pattern,
			"attention.shared_kv_layers": uint32(g.shared), "embedding_length_per_layer_input": uint32(g.inputs),
			"rope.dimension_count": uint32(gemma4Full), "rope.dimension_count_swa": uint32(gemma4Sliding),
			"rope.freq_base": float32(1e6), "rope.freq_base_swa": float32(1e4), "final_logit_softcapping": float32(30),
		}
		if g.experts > 0 {
			settings["expert_count"], settings["expert_used_count"], settings["expert_feed_forward_length"] = uint32(g.experts), uint32(g.used), uint32(g.expertFFN)
		}
		for _, key := range slices.Sorted(maps.Keys(settings)) {
			m.Set("gemma4."+key, settings[key])
		}
	}
}

func (g *gemma4) tensors(b *builder) {
	b.head("token_embd.weight", g.hidden, gemma4Vocab)
	b.floats("rope_freqs.weight", gemma4Full/2)
	if g.inputs > 0 {
		b.matrix("per_layer_token_embd.weight", g.inputs*g.layers, gemma4Vocab)
		b.matrix("per_layer_model_proj.weight", g.hidden, g.inputs*g.layers)
		b.floats("per_layer_proj_norm.weight", g.inputs)
	}
	for i := range g.layers {
		g.layer(b, i)
	}
	b.floats("output_norm.weight", g.hidden)
}

func (g *gemma4) layer(b *builder, i int) {
	in := func(s string) string { return fmt.Sprintf("blk.%d.%s.weight", i, s) }
	dim, kv := gemma4Full, g.kvFull
	if g.slides(i) {
		dim, kv = gemma4Sliding, g.kvSliding
	}
	for _, norm := range []string{"attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"} {
		b.floats(in(norm), g.hidden)
	}
	b.matrix(in("attn_q"), g.hidden, g.heads*dim)
	b.floats(in("attn_q_norm"), dim)
	if i < g.layers-g.shared {
		b.matrix(in("attn_k"), g.hidden, kv*dim)
		b.floats(in("attn_k_norm"), dim)
		if g.slides(i) || !g.keysAsValues {
			b.matrix(in("attn_v"), g.hidden, kv*dim)
		}
	}
	b.matrix(in("attn_output"), g.heads*dim, g.hidden)
	b.floats(in("layer_output_scale"), 1)
	b.matrix(in("ffn_gate"), g.hidden, g.ffnOf(i))
	b.matrix(in("ffn_up"), g.hidden, g.ffnOf(i))
	b.matrix(in("ffn_down"), g.ffnOf(i), g.hidden)
	if g.inputs > 0 {
		b.matrix(in("inp_gate"), g.hidden, g.inputs)
		b.matrix(in("proj"), g.inputs, g.hidden)
		b.floats(in("post_norm"), g.hidden)
	}
	if g.experts > 0 {
		for _, norm := range []string{"pre_ffw_norm_2", "post_ffw_norm_1", "post_ffw_norm_2"} {
			b.floats(in(norm), g.hidden)
		}
		b.floats(in("ffn_gate_inp"), g.hidden, g.experts)
		b.floats(fmt.Sprintf("blk.%d.ffn_gate_inp.scale", i), g.hidden)
		b.floats(fmt.Sprintf("blk.%d.ffn_down_exps.scale", i), g.experts)
		b.matrix(in("ffn_gate_up_exps"), g.hidden, 2*g.expertFFN, g.experts)
		b.matrix(in("ffn_down_exps"), g.expertFFN, g.hidden, g.experts)
	}
}

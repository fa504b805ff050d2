package shape

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/ingot-run/ingot/engine/gguf"
)

// decoder is the shape of a model with grouped-query attention. The fields after the sizes describe
// how a family differs from Llama; the type design in package engine/model documents them.
type decoder struct {
	arch                                                         string
	hidden, layers, ffn, heads, kvHeads, headDim, vocab, context int
	base                                                         float64 // base of the rotation
	untied                                                       bool
	experts, used, expertFFN, dense                              int // dense is the number of leading layers without experts

	qkvBias, outputBias, headNorms, projectionNorms, sinks bool
	noPreNorms, postNorms, fusedIn, fusedUp, attnGate      bool
	expertBias, correction, shared                         bool
	gatedHeads, sharedGate                                 bool
	keyHeads, valueHeads                                   int    // of the recurrent layers: all but every fourth one; 0 if there are none
	ffnNorm                                                string // "" for ffn_norm
	settings                                               map[string]any
	attentions                                             []int // layers with attention; the others have convolutions. nil if all have attention
}

// decoders has the shapes by name. The sizes are those of the models' config.json files.
var decoders = map[string]decoder{
	// HuggingFaceTB/SmolLM-135M. The context is 16,384 instead of 2,048, so that long contexts can
	// be measured.
	"smollm-135m": {arch: "llama", hidden: 576, layers: 30, ffn: 1536, heads: 9, kvHeads: 3, headDim: 64, vocab: 49152, context: 16384, base: 1e4},
	// mistralai/Mistral-7B-Instruct-v0.3
	"mistral-7b": {
		arch: "llama", hidden: 4096, layers: 32, ffn: 14336, heads: 32, kvHeads: 8, headDim: 128, vocab: 32768, context: 32768, base: 1e6, untied: true,
	},
	// Qwen/Qwen2.5-0.5B-Instruct
	"qwen2.5-0.5b": {
		arch: "qwen2", hidden: 896, layers: 24, ffn: 4864, heads: 14, kvHeads: 2, headDim: 64, vocab: 151936, context: 32768, base: 1e6,
		qkvBias: true,
	},
	// Qwen/Qwen3-0.6B, Qwen3-8B and Qwen3-30B-A3B
	"qwen3-0.6b": {
		arch: "qwen3", hidden: 1024, layers: 28, ffn: 3072, heads: 16, kvHeads: 8, headDim: 128, vocab: 151936, context: 40960, base: 1e6,
		headNorms: true,
	},
	"qwen3-8b": {
		arch: "qwen3", hidden: 4096, layers: 36, ffn: 12288, heads: 32, kvHeads: 8, headDim: 128, vocab: 151936, context: 40960, base: 1e6,
		headNorms: true, untied: true,
	},
	"qwen3-30b-a3b": {
		arch: "qwen3moe", hidden: 2048, layers: 48, ffn: 6144, heads: 32, kvHeads: 4, headDim: 128, vocab: 151936, context: 40960, base: 1e6,
		headNorms: true, untied: true, experts: 128, used: 8, expertFFN: 768,
	},
	// Qwen/Qwen3.5-0.8B, Qwen3.6-27B (and Qwen3.5-27B and Qwen3.8-27B) and Qwen3.6-35B-A3B, without
	// the MTP layer
	"qwen3.5-0.8b": {
		arch: "qwen35", hidden: 1024, layers: 24, ffn: 3584, heads: 8, kvHeads: 2, headDim: 256, vocab: 248320, context: 262144, base: 1e7,
		headNorms: true, gatedHeads: true, ffnNorm: "post_attention_norm", keyHeads: 16, valueHeads: 16,
	},
	"qwen3.6-27b": {
		arch: "qwen35", hidden: 5120, layers: 64, ffn: 17408, heads: 24, kvHeads: 4, headDim: 256, vocab: 248320, context: 262144, base: 1e7,
		headNorms: true, gatedHeads: true, ffnNorm: "post_attention_norm", keyHeads: 16, valueHeads: 48, untied: true,
	},
	"qwen3.6-35b-a3b": {
		arch: "qwen35moe", hidden: 2048, layers: 40, ffn: 512, heads: 16, kvHeads: 2, headDim: 256, vocab: 248320, context: 262144, base: 1e7,
		headNorms: true, gatedHeads: true, ffnNorm: "post_attention_norm", keyHeads: 16, valueHeads: 32, untied: true,
		experts: 256, used: 8, expertFFN: 512, shared: true, sharedGate: true, settings: map[string]any{"expert_shared_feed_forward_length": uint32(512)},
	},
	// google/gemma-3-1b-it
	"gemma3-1b": {
		arch: "gemma3", hidden: 1152, layers: 26, ffn: 6912, heads: 4, kvHeads: 1, headDim: 256, vocab: 262144, context: 32768, base: 1e6,
		headNorms: true, postNorms: true, settings: map[string]any{"attention.sliding_window": uint32(512)},
	},
	// openai/gpt-oss-20b
	"gpt-oss-20b": {
		arch: "gpt-oss", hidden: 2880, layers: 24, ffn: 2880, heads: 64, kvHeads: 8, headDim: 64, vocab: 201088, context: 131072, base: 150000,
		qkvBias: true, outputBias: true, sinks: true, untied: true, ffnNorm: "post_attention_norm",
		experts: 32, used: 4, expertFFN: 2880, expertBias: true,
		settings: map[string]any{
			"attention.sliding_window": uint32(128), "rope.scaling.type": "yarn", "rope.scaling.factor": float32(32),
			"rope.scaling.original_context_length": uint32(4096),
		},
	},
	// zai-org/GLM-4-9B-0414
	"glm-4-9b": {
		arch: "glm4", hidden: 4096, layers: 40, ffn: 13696, heads: 32, kvHeads: 2, headDim: 128, vocab: 151552, context: 32768, base: 1e4,
		qkvBias: true, postNorms: true, fusedUp: true, untied: true, settings: map[string]any{"rope.dimension_count": uint32(64)},
	},
	// zai-org/GLM-4.5-Air, without the MTP layer
	"glm-4.5-air": {
		arch: "glm4moe", hidden: 4096, layers: 46, ffn: 10944, heads: 96, kvHeads: 8, headDim: 128, vocab: 151552, context: 131072, base: 1e6,
		qkvBias: true, untied: true, ffnNorm: "post_attention_norm", experts: 128, used: 8, expertFFN: 1408, dense: 1, correction: true, shared: true,
		settings: map[string]any{
			"rope.dimension_count": uint32(64), "leading_dense_block_count": uint32(1), "expert_shared_count": uint32(1), "expert_weights_norm": true,
			"expert_weights_scale": float32(1), "expert_gating_func": uint32(2),
		},
	},
	// microsoft/Phi-4-mini-instruct, without the factors for long contexts
	"phi-4-mini": {
		arch: "phi3", hidden: 3072, layers: 32, ffn: 8192, heads: 24, kvHeads: 8, headDim: 128, vocab: 200064, context: 4096, base: 1e4,
		fusedIn: true, fusedUp: true, settings: map[string]any{"rope.dimension_count": uint32(96), "attention.sliding_window": uint32(262144)},
	},
	// microsoft/phi-4
	"phi-4": {
		arch: "phi3", hidden: 5120, layers: 40, ffn: 17920, heads: 40, kvHeads: 10, headDim: 128, vocab: 100352, context: 16384, base: 250000,
		fusedIn: true, fusedUp: true, untied: true, settings: map[string]any{"attention.sliding_window": uint32(0)},
	},
	// allenai/OLMo-2-0425-1B-Instruct
	"olmo2-1b": {
		arch: "olmo2", hidden: 2048, layers: 16, ffn: 8192, heads: 16, kvHeads: 16, headDim: 128, vocab: 100352, context: 4096, base: 5e5,
		projectionNorms: true, noPreNorms: true, postNorms: true, untied: true,
	},
	// HuggingFaceTB/SmolLM3-3B
	"smollm3-3b": {arch: "smollm3", hidden: 2048, layers: 36, ffn: 11008, heads: 16, kvHeads: 4, headDim: 128, vocab: 128256, context: 65536, base: 5e6},
	// LiquidAI/LFM2-1.2B and LFM2-8B-A1B
	"lfm2-1.2b": {
		arch: "lfm2", hidden: 2048, layers: 16, ffn: 8192, heads: 32, kvHeads: 8, headDim: 64, vocab: 65536, context: 128000, base: 1e6,
		headNorms: true, attentions: []int{2, 5, 8, 10, 12, 14}, settings: map[string]any{"shortconv.l_cache": uint32(taps)},
	},
	"lfm2-8b-a1b": {
		arch: "lfm2moe", hidden: 2048, layers: 24, ffn: 7168, heads: 32, kvHeads: 8, headDim: 64, vocab: 65536, context: 128000, base: 1e6,
		headNorms: true, attentions: []int{2, 6, 10, 14, 18, 21}, experts: 32, used: 4, expertFFN: 1792, dense: 2, correction: true,
		settings: map[string]any{"shortconv.l_cache": uint32(taps), "leading_dense_block_count": uint32(2), "expert_gating_func": uint32(2)},
	},
	// meta-models/Muse-Glimmer-30B
	"muse-glimmer-30b": {
		arch: "muse-glimmer", hidden: 6656, layers: 52, ffn: 19968, heads: 32, kvHeads: 2, headDim: 128, vocab: 202048, context: 131072, base: 5e5,
		headNorms: true, postNorms: true, attnGate: true, untied: true,
		settings: map[string]any{
			"attention.sliding_window": uint32(2048), "attention.sliding_window_pattern": uint32(4), "logit_scale": float32(0.19611613513818404),
			"final_logit_softcapping": float32(20),
		},
	},
	// ibm-granite/granite-3.3-2b-instruct
	"granite-3.3-2b": {
		arch: "granite", hidden: 2048, layers: 40, ffn: 8192, heads: 32, kvHeads: 8, headDim: 64, vocab: 49159, context: 131072, base: 1e7,
		settings: map[string]any{
			"embedding_scale": float32(12), "residual_scale": float32(0.22), "attention.scale": float32(0.015625), "logit_scale": float32(8),
		},
	},
}

// taps is the number of rows of a convolution.
const taps = 3

// decoderNames lists the names of the shapes. A name can be followed by a number of layers.
var decoderNames = strings.Join(slices.Sorted(maps.Keys(decoders)), "[:LAYERS], ") + "[:LAYERS]"

func parseDecoder(name string) (*Shape, error) {
	base, _, _ := strings.Cut(name, ":")
	d, ok := decoders[base]
	if !ok {
		return nil, nil
	}
	var err error
	d.layers, err = parseLayers(name, d.layers)
	return &Shape{name, d.vocab, d.meta(name), d.tensors}, err
}

// parseLayers returns the number of layers in the name of a shape, or all of them if the name has
// no number.
func parseLayers(name string, all int) (int, error) {
	_, count, cut := strings.Cut(name, ":")
	if !cut {
		return all, nil
	}
	layers, err := strconv.Atoi(count)
	if err != nil || layers < 2 || layers > all {
		return 0, fmt.Errorf("shape %q: the number of layers must be from 2 to %d", name, all)
	}
	return layers, nil
}

func (d *decoder) meta(name string) func(m *gguf.Metadata) {
	return func(m *gguf.Metadata) {
		set := func(key string, v any) { m.Set(d.arch+"."+key, v) }
		m.Set("general.architecture", d.arch)
		m.Set("general.name", name+" (random weights)")
		set("context_length", uint32(d.context))
		set("embedding_length", uint32(d.hidden))
		set("block_count", uint32(d.layers))
		set("feed_forward_length", uint32(d.ffn))
		set("attention.head_count", uint32(d.heads))
		if d.attentions == nil {
			set("attention.head_count_kv", uint32(d.kvHeads))
		} else {
			heads := make([]int32, d.layers)
			for i := range heads {
				if slices.Contains(d.attentions, i) {
					heads[i] = int32(d.kvHeads)
				}
			}
			set("attention.head_count_kv", heads)
		}
		set("attention.key_length", uint32(d.headDim))
		set("attention.value_length", uint32(d.headDim))
		set("attention.layer_norm_rms_epsilon", float32(1e-5))
		set("rope.freq_base", float32(d.base))
		set("rope.dimension_count", uint32(d.headDim))
		set("vocab_size", uint32(d.vocab))
		if d.experts > 0 {
			set("expert_count", uint32(d.experts))
			set("expert_used_count", uint32(d.used))
			set("expert_feed_forward_length", uint32(d.expertFFN))
		}
		if d.valueHeads > 0 {
			set("rope.dimension_count", uint32(d.headDim/4))
			set("rope.dimension_sections", []int32{11, 11, 10, 0}) // pairs per axis of an image; of a text, all turn alike
			set("full_attention_interval", uint32(attentionInterval))
			set("ssm.conv_kernel", uint32(deltaTaps))
			set("ssm.state_size", uint32(deltaDim))
			set("ssm.group_count", uint32(d.keyHeads))
			set("ssm.time_step_rank", uint32(d.valueHeads))
			set("ssm.inner_size", uint32(d.valueHeads*deltaDim))
		}
		for key, v := range d.settings {
			set(key, v)
		}
	}
}

func (d *decoder) tensors(b *builder) {
	b.head("token_embd.weight", d.hidden, d.vocab)
	for i := range d.layers {
		d.layer(b, i)
	}
	b.floats("output_norm.weight", d.hidden)
	if d.untied {
		b.head("output.weight", d.hidden, d.vocab)
	}
}

// Sizes of the recurrent layers of all shapes.
const attentionInterval, deltaTaps, deltaDim = 4, 4, 128

func (d *decoder) recurrent(layer int) bool {
	return d.valueHeads > 0 && (layer+1)%attentionInterval != 0
}

// attends reports whether a layer has attention.
func (d *decoder) attends(layer int) bool {
	return !d.recurrent(layer) && (d.attentions == nil || slices.Contains(d.attentions, layer))
}

func (d *decoder) delta(b *builder, in func(string) string, i int) {
	inner := d.valueHeads * deltaDim
	channels := 2*d.keyHeads*deltaDim + inner
	b.matrix(in("attn_qkv"), d.hidden, channels)
	b.matrix(in("attn_gate"), d.hidden, inner)
	b.matrix(in("ssm_alpha"), d.hidden, d.valueHeads)
	b.matrix(in("ssm_beta"), d.hidden, d.valueHeads)
	b.floats(in("ssm_conv1d"), deltaTaps, channels)
	b.floats(fmt.Sprintf("blk.%d.ssm_a", i), d.valueHeads)
	b.floats(fmt.Sprintf("blk.%d.ssm_dt.bias", i), d.valueHeads)
	b.floats(in("ssm_norm"), deltaDim)
	b.matrix(in("ssm_out"), inner, d.hidden)
}

func (d *decoder) layer(b *builder, i int) {
	in := func(s string) string { return fmt.Sprintf("blk.%d.%s.weight", i, s) }
	bias := func(s string) string { return fmt.Sprintf("blk.%d.%s.bias", i, s) }
	queries, keys := d.heads*d.headDim, d.kvHeads*d.headDim
	ffnNorm := cmp.Or(d.ffnNorm, "ffn_norm")
	for _, v := range []struct {
		have bool
		name string
		n    int
	}{
		{!d.noPreNorms, in("attn_norm"), d.hidden}, {!d.noPreNorms, in(ffnNorm), d.hidden},
		{d.postNorms, in("post_attention_norm"), d.hidden}, {d.postNorms, in("post_ffw_norm"), d.hidden},
		{d.qkvBias, bias("attn_q"), queries}, {d.qkvBias, bias("attn_k"), keys}, {d.qkvBias, bias("attn_v"), keys},
		{d.outputBias, bias("attn_output"), d.hidden}, {d.sinks, in("attn_sinks"), d.heads},
		{d.headNorms && d.attends(i), in("attn_q_norm"), d.headDim}, {d.headNorms && d.attends(i), in("attn_k_norm"), d.headDim},
		{d.projectionNorms, in("attn_q_norm"), queries}, {d.projectionNorms, in("attn_k_norm"), keys},
	} {
		if v.have {
			b.floats(v.name, v.n)
		}
	}
	switch {
	case d.recurrent(i):
		d.delta(b, in, i)
	case !d.attends(i):
		b.matrix(in("shortconv.in_proj"), d.hidden, 3*d.hidden)
		b.floats(in("shortconv.conv"), taps, d.hidden)
		b.matrix(in("shortconv.out_proj"), d.hidden, d.hidden)
	default:
		d.attention(b, in)
	}
	switch {
	case d.experts > 0 && i >= d.dense:
		d.mixture(b, in, bias)
	case d.fusedUp:
		b.matrix(in("ffn_up"), d.hidden, 2*d.ffn)
		b.matrix(in("ffn_down"), d.ffn, d.hidden)
	default:
		b.matrix(in("ffn_gate"), d.hidden, d.ffn)
		b.matrix(in("ffn_up"), d.hidden, d.ffn)
		b.matrix(in("ffn_down"), d.ffn, d.hidden)
	}
}

func (d *decoder) attention(b *builder, in func(string) string) {
	queries, keys := d.heads*d.headDim, d.kvHeads*d.headDim
	gated := 1
	if d.gatedHeads {
		gated = 2
	}
	if d.fusedIn {
		b.matrix(in("attn_qkv"), d.hidden, queries+2*keys)
	} else {
		b.matrix(in("attn_q"), d.hidden, gated*queries)
		b.matrix(in("attn_k"), d.hidden, keys)
		b.matrix(in("attn_v"), d.hidden, keys)
	}
	b.matrix(in("attn_output"), queries, d.hidden)
	if d.attnGate {
		b.matrix(in("attn_gate"), d.hidden, queries)
	}
}

func (d *decoder) mixture(b *builder, in, bias func(string) string) {
	b.floats(in("ffn_gate_inp"), d.hidden, d.experts)
	b.matrix(in("ffn_gate_exps"), d.hidden, d.expertFFN, d.experts)
	b.matrix(in("ffn_up_exps"), d.hidden, d.expertFFN, d.experts)
	b.matrix(in("ffn_down_exps"), d.expertFFN, d.hidden, d.experts)
	if d.correction {
		b.floats(bias("exp_probs_b"), d.experts)
	}
	if d.expertBias {
		b.floats(bias("ffn_gate_inp"), d.experts)
		b.floats(bias("ffn_gate_exps"), d.expertFFN, d.experts)
		b.floats(bias("ffn_up_exps"), d.expertFFN, d.experts)
		b.floats(bias("ffn_down_exps"), d.hidden, d.experts)
	}
	if d.shared {
		b.matrix(in("ffn_gate_shexp"), d.hidden, d.expertFFN)
		b.matrix(in("ffn_up_shexp"), d.hidden, d.expertFFN)
		b.matrix(in("ffn_down_shexp"), d.expertFFN, d.hidden)
		if d.sharedGate {
			b.floats(in("ffn_gate_inp_shexp"), d.hidden)
		}
	}
}

package shape

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ingot-run/ingot/engine/gguf"
)

// hybrid is the shape of a model with layers of Mamba-2.
type hybrid struct {
	arch                                   string
	hidden, heads, kvHeads, headDim, vocab int
	context                                int
	states, groups, mambaHeads, mambaDim   int
	experts, used, expertFFN, shared       int
	untied                                 bool
	// pattern has a letter for each layer: M for Mamba-2, * for attention, E for experts. In models
	// whose layers all have experts, the letter is for what precedes them.
	pattern  string
	alone    bool // an E is a layer of its own, and experts have no gate
	settings map[string]any
}

// hybrids has the shapes by name. The sizes are those of the models' config.json files.
var hybrids = map[string]hybrid{
	// nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B
	"nemotron-3-nano-30b-a3b": {
		arch: "nemotron_h_moe", hidden: 2688, heads: 32, kvHeads: 2, headDim: 128, vocab: 131072, context: 262144,
		states: 128, groups: 8, mambaHeads: 64, mambaDim: 64, experts: 128, used: 6, expertFFN: 1856, shared: 3712, untied: true, alone: true,
		pattern: "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME",
		settings: map[string]any{
			"expert_weights_norm": true, "expert_weights_scale": float32(2.5), "expert_gating_func": uint32(2), "expert_shared_count": uint32(1),
		},
	},
	// ibm-granite/granite-4.0-h-tiny
	"granite-4-h-tiny": {
		arch: "granitehybrid", hidden: 1536, heads: 12, kvHeads: 4, headDim: 128, vocab: 100352, context: 131072,
		states: 128, groups: 1, mambaHeads: 48, mambaDim: 64, experts: 64, used: 6, expertFFN: 512, shared: 1024,
		pattern: strings.Repeat("MMMMM*MMMM", 4),
		settings: map[string]any{
			"embedding_scale": float32(12), "residual_scale": float32(0.22), "attention.scale": float32(0.0078125), "logit_scale": float32(6),
		},
	},
}

// hybridTaps is the number of rows of the convolution of Mamba-2.
const hybridTaps = 4

var hybridNames = strings.Join(slices.Sorted(maps.Keys(hybrids)), "[:LAYERS], ") + "[:LAYERS]"

func parseHybrid(name string) (*Shape, error) {
	base, _, _ := strings.Cut(name, ":")
	h, ok := hybrids[base]
	if !ok {
		return nil, nil
	}
	layers, err := parseLayers(name, len(h.pattern))
	if err != nil {
		return nil, err
	}
	if layers < len(h.pattern) { // the last layers, which have all kinds
		h.pattern = h.pattern[max(strings.Index(h.pattern, "*")+1-layers, 0):][:layers]
	}
	return &Shape{name, h.vocab, h.meta(name), h.tensors}, nil
}

func (h *hybrid) inner() int { return h.mambaHeads * h.mambaDim }

func (h *hybrid) meta(name string) func(m *gguf.Metadata) {
	return func(m *gguf.Metadata) {
		set := func(key string, v any) { m.Set(h.arch+"."+key, v) }
		m.Set("general.architecture", h.arch)
		m.Set("general.name", name+" (random weights)")
		kvHeads, ffn := make([]int32, len(h.pattern)), make([]int32, len(h.pattern))
		for i, kind := range h.pattern {
			if kind == '*' {
				kvHeads[i] = int32(h.kvHeads)
			}
			if kind == 'E' || !h.alone {
				ffn[i] = int32(h.expertFFN)
			}
		}
		set("context_length", uint32(h.context))
		set("embedding_length", uint32(h.hidden))
		set("block_count", uint32(len(h.pattern)))
		set("feed_forward_length", ffn)
		set("attention.head_count", uint32(h.heads))
		set("attention.head_count_kv", kvHeads)
		set("attention.key_length", uint32(h.headDim))
		set("attention.value_length", uint32(h.headDim))
		set("attention.layer_norm_rms_epsilon", float32(1e-5))
		set("rope.scaling.finetuned", false)
		set("vocab_size", uint32(h.vocab))
		set("expert_count", uint32(h.experts))
		set("expert_used_count", uint32(h.used))
		set("expert_feed_forward_length", uint32(h.expertFFN))
		set("expert_shared_feed_forward_length", uint32(h.shared))
		set("ssm.conv_kernel", uint32(hybridTaps))
		set("ssm.state_size", uint32(h.states))
		set("ssm.group_count", uint32(h.groups))
		set("ssm.inner_size", uint32(h.inner()))
		set("ssm.time_step_rank", uint32(h.mambaHeads))
		for key, v := range h.settings {
			set(key, v)
		}
	}
}

func (h *hybrid) tensors(b *builder) {
	b.head("token_embd.weight", h.hidden, h.vocab)
	for i, kind := range h.pattern {
		in := func(s string) string { return fmt.Sprintf("blk.%d.%s.weight", i, s) }
		b.floats(in("attn_norm"), h.hidden)
		switch kind {
		case 'M':
			h.mamba(b, in, i)
		case '*':
			b.matrix(in("attn_q"), h.hidden, h.heads*h.headDim)
			b.matrix(in("attn_k"), h.hidden, h.kvHeads*h.headDim)
			b.matrix(in("attn_v"), h.hidden, h.kvHeads*h.headDim)
			b.matrix(in("attn_output"), h.heads*h.headDim, h.hidden)
		}
		if !h.alone {
			b.floats(in("ffn_norm"), h.hidden)
		}
		if kind == 'E' || !h.alone {
			h.mixture(b, in, i)
		}
	}
	b.floats("output_norm.weight", h.hidden)
	if h.untied {
		b.head("output.weight", h.hidden, h.vocab)
	}
}

func (h *hybrid) mamba(b *builder, in func(string) string, i int) {
	name := func(s string) string { return fmt.Sprintf("blk.%d.%s", i, s) }
	channels := h.inner() + 2*h.groups*h.states
	b.matrix(in("ssm_in"), h.hidden, h.inner()+channels+h.mambaHeads)
	b.floats(in("ssm_conv1d"), hybridTaps, channels)
	b.floats(name("ssm_conv1d.bias"), channels)
	b.floats(name("ssm_dt.bias"), h.mambaHeads)
	b.floats(name("ssm_a"), h.mambaHeads)
	b.floats(name("ssm_d"), h.mambaHeads)
	b.floats(in("ssm_norm"), h.inner()/h.groups, h.groups)
	b.matrix(in("ssm_out"), h.inner(), h.hidden)
}

func (h *hybrid) mixture(b *builder, in func(string) string, i int) {
	b.floats(in("ffn_gate_inp"), h.hidden, h.experts)
	if h.alone {
		b.floats(fmt.Sprintf("blk.%d.exp_probs_b.bias", i), h.experts)
	} else {
		b.matrix(in("ffn_gate_exps"), h.hidden, h.expertFFN, h.experts)
		b.matrix(in("ffn_gate_shexp"), h.hidden, h.shared)
	}
	b.matrix(in("ffn_up_exps"), h.hidden, h.expertFFN, h.experts)
	b.matrix(in("ffn_down_exps"), h.expertFFN, h.hidden, h.experts)
	b.matrix(in("ffn_up_shexp"), h.hidden, h.shared)
	b.matrix(in("ffn_down_shexp"), h.shared, h.hidden)
}

package model_test

import (
	"fmt"
	"maps"
)

// decoderLayout describes how a decoder's file differs from a Llama file in tensors and settings. A
// file has two layers.
type decoderLayout struct {
	arch                                           string
	qkvBias, outputBias, headNorms, wholeNorms     bool
	noPreNorms, postNorms, sinks, fusedUp, fusedIn bool
	attnGate, convolution                          bool   // convolution: of the first layer
	ffnNorm                                        string // "" for ffn_norm
	experts, expertBias, correction, shared, mtp   bool
	dense                                          int // leading layers without experts
	recurrent, gatedHeads, sharedGate, jointGates  bool
	mamba                                          bool // recurrent layers are Mamba-2
	alone                                          bool // three layers: a recurrent one, attention, a network without a gate
	latent                                         int
	settings                                       map[string]any
}

// Sizes of the decoders in test files.
const (
	decoderHeads, decoderKVHeads, decoderHead = 4, 2, 8
	decoderFFN, decoderExpertFFN              = 24, 16
	decoderExperts, decoderUsed               = 4, 2
)

// decoderLayouts has a layout for each family of decoders except Llama.
var decoderLayouts = []decoderLayout{
	{arch: "qwen2", qkvBias: true},
	{arch: "qwen3", headNorms: true},
	{arch: "qwen3moe", headNorms: true, experts: true},
	{arch: "gemma3", headNorms: true, postNorms: true, settings: map[string]any{"attention.sliding_window": 5, "attention.sliding_window_pattern": 2}},
	{
		arch: "gpt-oss", qkvBias: true, outputBias: true, sinks: true, ffnNorm: "post_attention_norm", experts: true, expertBias: true,
		settings: map[string]any{"attention.sliding_window": 5},
	},
	{arch: "glm4", qkvBias: true, postNorms: true, fusedUp: true},
	{
		arch: "glm4moe", qkvBias: true, headNorms: true, ffnNorm: "post_attention_norm", experts: true, correction: true, shared: true, dense: 1, mtp: true,
		settings: map[string]any{"expert_shared_count": 1, "leading_dense_block_count": 1, "nextn_predict_layers": 1},
	},
	{arch: "phi3", fusedUp: true, fusedIn: true, settings: map[string]any{"attention.sliding_window": 20}},
	{arch: "olmo2", wholeNorms: true, noPreNorms: true, postNorms: true},
	{arch: "smollm3"},
	{arch: "lfm2", headNorms: true, convolution: true, settings: map[string]any{
		"attention.head_count_kv": []int32{0, 2}, "shortconv.l_cache": 3,
	}},
	{arch: "lfm2moe", headNorms: true, convolution: true, experts: true, correction: true, dense: 1, settings: map[string]any{
		"attention.head_count_kv": []int32{0, 1}, "shortconv.l_cache": 4, "leading_dense_block_count": 1, "expert_gating_func": 2,
	}},
	{arch: "muse-glimmer", headNorms: true, postNorms: true, attnGate: true, settings: map[string]any{
		"attention.sliding_window": 5, "attention.sliding_window_pattern": []bool{true, false}, "logit_scale": float32(0.5), "final_logit_softcapping": float32(2),
	}},
	{
		arch: "qwen35", headNorms: true, recurrent: true, gatedHeads: true, ffnNorm: "post_attention_norm", settings: recurrentSettings,
	},
	{
		arch: "qwen35moe", headNorms: true, recurrent: true, gatedHeads: true, ffnNorm: "post_attention_norm", settings: recurrentMixture,
		experts: true, shared: true, sharedGate: true, mtp: true,
	},
	{arch: "granitehybrid", recurrent: true, mamba: true, experts: true, shared: true, settings: with(mambaSettings, map[string]any{
		"attention.head_count_kv": []int32{0, 2}, "expert_shared_feed_forward_length": decoderExpertFFN, "rope.scaling.finetuned": false,
		"logit_scale": float32(4), "residual_scale": float32(0.5), "embedding_scale": float32(3), "attention.scale": float32(0.25),
	})},
	{arch: "nemotron_h", recurrent: true, mamba: true, alone: true, ffnNorm: "attn_norm", settings: with(mambaSettings, map[string]any{
		"attention.head_count_kv": []int32{0, 2, 0}, "feed_forward_length": []int32{0, 0, decoderFFN},
	})},
	{
		arch: "nemotron_h_moe", recurrent: true, mamba: true, alone: true, ffnNorm: "attn_norm", experts: true, shared: true, correction: true, latent: 12,
		settings: with(mambaSettings, map[string]any{
			"attention.head_count_kv": []int32{0, 2, 0}, "feed_forward_length": []int32{0, 0, decoderFFN}, "moe_latent_size": 12,
			"expert_shared_feed_forward_length": decoderFFN, "expert_gating_func": 2,
		}),
	},
	{
		arch: "qwen3next", headNorms: true, recurrent: true, gatedHeads: true, ffnNorm: "post_attention_norm", settings: recurrentMixture,
		experts: true, shared: true, sharedGate: true, jointGates: true, mtp: true,
	},
	{arch: "granite", settings: map[string]any{
		"logit_scale": float32(4), "residual_scale": float32(0.5), "embedding_scale": float32(3), "attention.scale": float32(0.25),
	}},
}

// Settings of layouts in which the first layer is recurrent and the second one has attention.
var (
	recurrentSettings = map[string]any{
		"full_attention_interval": 2, "rope.dimension_count": 4, "rope.dimension_sections": []int32{1, 1, 0, 0}, "attention.key_length": decoderHead,
		"ssm.conv_kernel": 4, "ssm.state_size": deltaDim, "ssm.group_count": deltaKeyHeads, "ssm.time_step_rank": deltaHeads, "ssm.inner_size": deltaHeads * deltaDim,
	}
	recurrentMixture = with(recurrentSettings, map[string]any{"expert_shared_feed_forward_length": decoderExpertFFN, "nextn_predict_layers": 1})
	mambaSettings    = map[string]any{
		"ssm.conv_kernel": 4, "ssm.state_size": mambaState, "ssm.group_count": mambaGroups, "ssm.time_step_rank": mambaHeads, "ssm.inner_size": mambaHeads * mambaDim,
	}
)

const mambaHeads, mambaGroups, mambaState, mambaDim = 4, 2, 8, 6

// with returns settings with others added.
func with(settings, others map[string]any) map[string]any {
	all := maps.Clone(settings)
	maps.Copy(all, others)
	return all
}

// scan adds a layer of Mamba-2 in place of attention.
func (l *decoderLayout) scan(b *build, i int) {
	name := func(s string) string { return blockName(i, s) }
	const inner = mambaHeads * mambaDim
	const cols = inner + 2*mambaGroups*mambaState
	b.weight(name("ssm_in"), 0, hidden, inner+cols+mambaHeads)
	b.weight(name("ssm_conv1d"), 0, 4, cols)
	b.vector(fmt.Sprintf("blk.%d.ssm_conv1d.bias", i), cols)
	b.vector(fmt.Sprintf("blk.%d.ssm_dt.bias", i), mambaHeads)
	b.floats(fmt.Sprintf("blk.%d.ssm_a", i), []float32{-0.1, -2, -0.5, -9}, 1, mambaHeads)
	b.floats(fmt.Sprintf("blk.%d.ssm_d", i), []float32{1, -0.3, 0.5, 2}, 1, mambaHeads)
	b.weight(name("ssm_norm"), 0, inner/mambaGroups, mambaGroups)
	b.weight(name("ssm_out"), 0, inner, hidden)
}

const deltaHeads, deltaKeyHeads, deltaDim = 4, 2, 8

// delta adds a recurrent layer in place of attention.
func (l *decoderLayout) delta(b *build, i int) {
	name := func(s string) string { return blockName(i, s) }
	const cols = (2*deltaKeyHeads + deltaHeads) * deltaDim
	b.weight(name("attn_qkv"), 0, hidden, cols)
	b.weight(name("attn_gate"), 0, hidden, deltaHeads*deltaDim)
	if l.jointGates {
		b.weight(name("ssm_ba"), 0, hidden, 2*deltaHeads)
	} else {
		b.weight(name("ssm_alpha"), 0, hidden, deltaHeads)
		b.weight(name("ssm_beta"), 0, hidden, deltaHeads)
	}
	b.weight(name("ssm_conv1d"), 0, 4, cols)
	b.vector(fmt.Sprintf("blk.%d.ssm_dt.bias", i), deltaHeads)
	b.floats(fmt.Sprintf("blk.%d.ssm_a", i), []float32{-0.1, -2, -0.5, -9}, deltaHeads)
	b.vector(name("ssm_norm"), deltaDim)
	b.weight(name("ssm_out"), 0, deltaHeads*deltaDim, hidden)
}

func (l *decoderLayout) build() *build {
	b := newBuild(l.arch)
	layers := 2
	if l.mtp || l.alone {
		layers++
	}
	b.set("block_count", layers)
	b.set("context_length", 512)
	b.set("embedding_length", hidden)
	b.set("feed_forward_length", decoderFFN)
	b.set("attention.head_count", decoderHeads)
	b.set("attention.head_count_kv", decoderKVHeads)
	b.set("attention.layer_norm_rms_epsilon", float32(0.01))
	b.set("rope.freq_base", float32(100))
	if l.experts {
		b.set("expert_count", decoderExperts)
		b.set("expert_used_count", decoderUsed)
		b.set("expert_feed_forward_length", decoderExpertFFN)
	}
	for name, v := range l.settings {
		b.set(name, v)
	}
	b.weight("token_embd.weight", 0, hidden, vocab)
	b.vector("output_norm.weight", hidden)
	b.weight("output.weight", 0, hidden, vocab)
	for i := range layers {
		l.layer(b, i)
	}
	if l.mtp {
		name := func(s string) string { return blockName(layers-1, "nextn."+s) }
		b.weight(name("eh_proj"), 0, 2*hidden, hidden)
		b.vector(name("enorm"), hidden)
		b.vector(name("hnorm"), hidden)
		b.vector(name("shared_head_norm"), hidden)
	}
	return b
}

func (l *decoderLayout) layer(b *build, i int) {
	name := func(s string) string { return blockName(i, s) }
	bias := func(s string) string { return fmt.Sprintf("blk.%d.%s.bias", i, s) }
	queries, keys := decoderHeads*decoderHead, decoderKVHeads*decoderHead
	if list, ok := l.settings["attention.head_count_kv"].([]int32); ok {
		keys = int(list[i]) * decoderHead
	}
	attends := (i > 0 || !l.convolution && !l.recurrent) && (!l.alone || i != 2)
	network := !l.alone || i == 2
	switch {
	case !attends && l.alone && network:
	case l.mamba && !attends:
		l.scan(b, i)
	case l.recurrent && !attends:
		l.delta(b, i)
	case l.convolution && !attends:
		b.weight(name("shortconv.in_proj"), 0, hidden, 3*hidden)
		b.weight(name("shortconv.conv"), 0, l.settings["shortconv.l_cache"].(int), hidden)
		b.weight(name("shortconv.out_proj"), 0, hidden, hidden)
	case l.fusedIn:
		b.weight(name("attn_qkv"), 0, hidden, queries+2*keys)
	case l.gatedHeads:
		b.weight(name("attn_q"), 0, hidden, 2*queries)
	default:
		b.weight(name("attn_q"), 0, hidden, queries)
	}
	if attends && !l.fusedIn {
		b.weight(name("attn_k"), 0, hidden, keys)
		b.weight(name("attn_v"), 0, hidden, keys)
	}
	if attends {
		b.weight(name("attn_output"), 0, queries, hidden)
	}
	if l.attnGate {
		b.weight(name("attn_gate"), 0, hidden, queries)
	}
	ffnNorm := l.ffnNorm
	if ffnNorm == "" {
		ffnNorm = "ffn_norm"
	}
	moe := l.experts && i >= l.dense && network
	for _, v := range []struct {
		have bool
		name string
		n    int
	}{
		{l.qkvBias, bias("attn_q"), queries}, {l.qkvBias, bias("attn_k"), keys}, {l.qkvBias, bias("attn_v"), keys},
		{l.outputBias, bias("attn_output"), hidden}, {l.sinks, name("attn_sinks"), decoderHeads},
		{l.headNorms && attends, name("attn_q_norm"), decoderHead}, {l.headNorms && attends, name("attn_k_norm"), decoderHead},
		{l.wholeNorms, name("attn_q_norm"), queries}, {l.wholeNorms, name("attn_k_norm"), keys},
		{!l.noPreNorms, name("attn_norm"), hidden}, {!l.noPreNorms && !l.alone, name(ffnNorm), hidden},
		{l.postNorms, name("post_attention_norm"), hidden}, {l.postNorms, name("post_ffw_norm"), hidden},
		{moe && l.expertBias, bias("ffn_gate_inp"), decoderExperts}, {moe && l.correction, bias("exp_probs_b"), decoderExperts},
	} {
		if v.have {
			b.vector(v.name, v.n)
		}
	}
	switch {
	case !network:
	case moe:
		l.mixture(b, name, bias)
	case l.alone:
		b.weight(name("ffn_up"), 0, hidden, decoderFFN)
		b.weight(name("ffn_down"), 0, decoderFFN, hidden)
	case l.fusedUp:
		b.weight(name("ffn_up"), 0, hidden, 2*decoderFFN)
		b.weight(name("ffn_down"), 0, decoderFFN, hidden)
	default:
		b.weight(name("ffn_gate"), 0, hidden, decoderFFN)
		b.weight(name("ffn_up"), 0, hidden, decoderFFN)
		b.weight(name("ffn_down"), 0, decoderFFN, hidden)
	}
}

func (l *decoderLayout) mixture(b *build, name, bias func(string) string) {
	b.weight(name("ffn_gate_inp"), 0, hidden, decoderExperts)
	in, shared := hidden, decoderExpertFFN
	if l.latent > 0 {
		in, shared = l.latent, decoderFFN
		b.weight(name("ffn_latent_down"), 0, hidden, in)
		b.weight(name("ffn_latent_up"), 0, in, hidden)
	}
	if !l.alone {
		b.weight(name("ffn_gate_exps"), 0, in, decoderExpertFFN, decoderExperts)
	}
	b.weight(name("ffn_up_exps"), 0, in, decoderExpertFFN, decoderExperts)
	b.weight(name("ffn_down_exps"), 0, decoderExpertFFN, in, decoderExperts)
	if l.expertBias {
		b.weight(bias("ffn_gate_exps"), 0, decoderExpertFFN, decoderExperts)
		b.weight(bias("ffn_up_exps"), 0, decoderExpertFFN, decoderExperts)
		b.weight(bias("ffn_down_exps"), 0, hidden, decoderExperts)
	}
	if l.shared {
		if !l.alone {
			b.weight(name("ffn_gate_shexp"), 0, hidden, shared)
		}
		b.weight(name("ffn_up_shexp"), 0, hidden, shared)
		b.weight(name("ffn_down_shexp"), 0, shared, hidden)
	}
	if l.sharedGate {
		b.vector(name("ffn_gate_inp_shexp"), hidden)
	}
}

package model_test

// gemma4Layout has the properties in which Gemma 4's files differ. A file has four layers, of which
// every second has a window.
type gemma4Layout struct {
	kvFull, kvSliding int // key heads
	keysAsValues      bool
	experts, split    bool // experts; with separate gate and up
	inputs            int  // values of a layer's input; 0 for none
	shared            int  // last layers without keys and values
}

const gemma4Full, gemma4Sliding, gemma4Heads = 16, 8, 4 // values of a head, and number of heads

var gemma4Bases = map[string]func() *build{
	"gemma4":                       gemma4Layout{kvFull: 1, kvSliding: 4, keysAsValues: true}.build,
	"gemma4 with experts":          gemma4Layout{kvFull: 1, kvSliding: 2, keysAsValues: true, experts: true}.build,
	"gemma4 with separate experts": gemma4Layout{kvFull: 2, kvSliding: 2, experts: true, split: true}.build,
	"gemma4 with inputs":           gemma4Layout{kvFull: 1, kvSliding: 1, inputs: 8, shared: 2}.build,
}

func (l gemma4Layout) build() *build {
	b := newBuild("gemma4")
	b.set("block_count", 4)
	b.set("context_length", 512)
	b.set("embedding_length", hidden)
	b.set("feed_forward_length", decoderFFN)
	b.set("attention.head_count", gemma4Heads)
	b.set("attention.head_count_kv", []int32{int32(l.kvSliding), int32(l.kvFull), int32(l.kvSliding), int32(l.kvFull)})
	b.set("attention.key_length", gemma4Full)
	b.set("attention.value_length", gemma4Full)
	b.set("attention.key_length_swa", gemma4Sliding)
	b.set("attention.value_length_swa", gemma4Sliding)
	b.set("attention.layer_norm_rms_epsilon", float32(0.01))
	b.set("attention.sliding_window", 5)
	b.set("attention.sliding_window_pattern", []bool{true, false, true, false})
	b.set("rope.dimension_count", gemma4Full)
	b.set("rope.dimension_count_swa", gemma4Sliding)
	b.set("rope.freq_base", float32(1000))
	b.set("rope.freq_base_swa", float32(100))
	b.set("final_logit_softcapping", float32(2))
	b.weight("token_embd.weight", 0, hidden, vocab)
	b.vector("output_norm.weight", hidden)
	b.weight("output.weight", 0, hidden, vocab)
	b.floats("rope_freqs.weight", []float32{1, 1, 1e30, 1e30, 1e30, 1e30, 1e30, 1e30}, gemma4Full/2)
	if l.shared > 0 {
		b.set("attention.shared_kv_layers", l.shared)
	}
	if l.experts {
		b.set("expert_count", decoderExperts)
		b.set("expert_used_count", decoderUsed)
		b.set("expert_feed_forward_length", decoderExpertFFN)
	}
	if l.inputs > 0 {
		b.set("embedding_length_per_layer_input", l.inputs)
		b.weight("per_layer_token_embd.weight", 0, 4*l.inputs, vocab)
		b.weight("per_layer_model_proj.weight", 0, hidden, 4*l.inputs)
		b.vector("per_layer_proj_norm.weight", l.inputs)
	}
	for i := range 4 {
		l.layer(b, i)
	}
	return b
}

func (l gemma4Layout) layer(b *build, i int) {
	name := func(s string) string { return blockName(i, s) }
	dim, kv := gemma4Full, l.kvFull
	if i%2 == 0 {
		dim, kv = gemma4Sliding, l.kvSliding
	}
	b.weight(name("attn_q"), 0, hidden, gemma4Heads*dim)
	b.vector(name("attn_q_norm"), dim)
	b.weight(name("attn_output"), 0, gemma4Heads*dim, hidden)
	if i < 4-l.shared {
		b.weight(name("attn_k"), 0, hidden, kv*dim)
		b.vector(name("attn_k_norm"), dim)
		if i%2 == 0 || !l.keysAsValues {
			b.weight(name("attn_v"), 0, hidden, kv*dim)
		}
	}
	for _, norm := range []string{"attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"} {
		b.vector(name(norm), hidden)
	}
	b.floats(name("layer_output_scale"), []float32{0.5 + float32(i)/4}, 1)
	b.weight(name("ffn_gate"), 0, hidden, decoderFFN)
	b.weight(name("ffn_up"), 0, hidden, decoderFFN)
	b.weight(name("ffn_down"), 0, decoderFFN, hidden)
	if l.experts {
		l.mixture(b, i)
	}
	if l.inputs > 0 {
		b.weight(name("inp_gate"), 0, hidden, l.inputs)
		b.weight(name("proj"), 0, l.inputs, hidden)
		b.vector(name("post_norm"), hidden)
	}
}

func (l gemma4Layout) mixture(b *build, i int) {
	name := func(s string) string { return blockName(i, s) }
	b.weight(name("ffn_gate_inp"), 0, hidden, decoderExperts)
	b.vector(scaleOf(i, "ffn_gate_inp"), hidden)
	b.vector(scaleOf(i, "ffn_down_exps"), decoderExperts)
	for _, norm := range []string{"pre_ffw_norm_2", "post_ffw_norm_1", "post_ffw_norm_2"} {
		b.vector(name(norm), hidden)
	}
	if l.split {
		b.weight(name("ffn_gate_exps"), 0, hidden, decoderExpertFFN, decoderExperts)
		b.weight(name("ffn_up_exps"), 0, hidden, decoderExpertFFN, decoderExperts)
	} else {
		b.weight(name("ffn_gate_up_exps"), 0, hidden, 2*decoderExpertFFN, decoderExperts)
	}
	b.weight(name("ffn_down_exps"), 0, decoderExpertFFN, hidden, decoderExperts)
}

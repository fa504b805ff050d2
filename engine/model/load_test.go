package model_test

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ingot-run/ingot/engine/cpu"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/engine/model"
	"github.com/ingot-run/ingot/engine/model/modeltest"
)

// bases has a function for each valid file that the tests below break.
var bases = func() map[string]func() *build {
	all := maps.Clone(firstBases)
	maps.Copy(all, gemma4Bases)
	for i := range decoderLayouts {
		all[decoderLayouts[i].arch] = decoderLayouts[i].build
	}
	return all
}()

var firstBases = map[string]func() *build{
	"llama": func() *build {
		return llamaLayout{hidden: 32, heads: 4, kvHeads: 2, key: 12, value: 10, rope: 8}.build()
	},
	"glm": func() *build { return flash().build() },
	"lite": func() *build {
		b := glmLayout{arch: "deepseek2", layers: 2, dense: 1, joint: true, olderKeys: true, shared: 2}.build()
		b.set("rope.scaling.type", "yarn")
		b.set("rope.scaling.factor", float32(40))
		b.set("rope.scaling.original_context_length", 64)
		return b
	},
}

// eachBase calls test for each of bases, with a function that returns a copy of the valid file.
func eachBase(t *testing.T, test func(t *testing.T, base func() *build)) {
	t.Helper()
	for name, base := range bases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			valid := base()
			_, err := load(t, valid.write(t))
			require.NoError(t, err)
			test(t, valid.clone)
		})
	}
}

// TestLongContexts reads files of models that were trained for more positions than any memory
// holds.
func TestLongContexts(t *testing.T) {
	for _, c := range []struct{ file, config int }{{10_485_760, 10_485_760}, {1 << 30, 1 << 30}, {1 << 50, 1 << 30}} {
		for _, base := range []string{"llama", "glm"} {
			b := bases[base]()
			b.set("context_length", uint64(c.file))
			m, err := load(t, b.write(t))
			require.NoError(t, err)
			require.Equal(t, c.config, m.Config().Context, base)
		}
	}
}

// TestRefusals breaks a file in one way at a time. The error must name the cause. It must wrap
// ErrUnsupported if the file is well formed but needs something that Ingot does not compute.
func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		name, base  string
		change      func(b *build)
		message     string
		unsupported bool
	}{
		{"another architecture", "llama", func(b *build) { b.meta.Set("general.architecture", "rwkv6") }, `"rwkv6": model is not supported (supported: deepseek2,`, true},
		{"an architecture with a long name", "llama", func(b *build) { b.meta.Set("general.architecture", strings.Repeat("x", 1<<20)) }, `xxx": model is not supported (supported:`, true},
		{"an architecture with a similar name", "llama", func(b *build) { b.meta.Set("general.architecture", "gemma2") }, `"gemma2": model is not supported; use a model of architecture gemma3,`, true},
		{"a related architecture", "llama", func(b *build) { b.meta.Set("general.architecture", "mixtral") }, `use a model of architecture llama,`, true},
		{"no architecture", "llama", func(b *build) { b.remove("general.architecture") }, "general.architecture", false},
		{"experts of a llama without the number used", "llama", func(b *build) { b.set("expert_count", 8) }, "llama.expert_used_count", false},
		{"no experts of a llama", "llama", func(b *build) { b.set("expert_count", 0) }, "", false},
		{"a bias", "llama", func(b *build) { b.vector("blk.1.attn_q.bias", 48) }, "blk.1.attn_q.bias", true},
		{"norms of queries in a Llama file", "llama", func(b *build) { b.vector("blk.0.attn_q_norm.weight", 12) }, "blk.0.attn_q_norm.weight", true},
		{"a tensor of a layer beyond the last", "llama", func(b *build) { b.vector("blk.2.attn_norm.weight", 32) }, "blk.2.attn_norm.weight", true},
		{"key heads that do not divide the query heads", "llama", func(b *build) { b.set("attention.head_count_kv", 3) }, "llama.attention.head_count_kv", false},
		{"no key heads", "llama", func(b *build) { b.set("attention.head_count_kv", 0) }, "llama.attention.head_count_kv", false},
		{"an array of key heads", "llama", func(b *build) { b.set("attention.head_count_kv", []int32{2, 4}) }, "llama.attention.head_count_kv", true},
		{"an array of heads", "llama", func(b *build) { b.set("attention.head_count", []uint32{2, 4}) }, "llama.attention.head_count", true},
		{"an array of network sizes", "llama", func(b *build) { b.set("feed_forward_length", []int32{64, 32}) }, "llama.feed_forward_length", true},
		{"a rotation larger than a head", "llama", func(b *build) { b.set("rope.dimension_count", 14) }, "llama.rope.dimension_count", false},
		{"a rotation of an odd number of values", "llama", func(b *build) { b.set("rope.dimension_count", 7) }, "llama.rope.dimension_count", false},
		{"a rotation of no values", "llama", func(b *build) { b.set("rope.dimension_count", 0) }, "llama.rope.dimension_count", false},
		{"a base of 0", "llama", func(b *build) { b.set("rope.freq_base", float32(0)) }, "llama.rope.freq_base", false},
		{"a base that is NaN", "llama", func(b *build) { b.set("rope.freq_base", float32(math.NaN())) }, "llama.rope.freq_base", false},
		{"an unknown scaling of the rotation", "llama", func(b *build) { b.set("rope.scaling.type", "longrope") }, `"longrope"`, true},
		{"a scaling factor of 0", "llama", func(b *build) { b.set("rope.scaling.factor", float32(0)) }, "llama.rope.scaling.factor", false},
		{"a negative scaling factor", "llama", func(b *build) { b.set("rope.scaling.factor", float32(-2)) }, "llama.rope.scaling.factor", false},
		{"frequency divisors of 0", "llama", func(b *build) { b.floats("rope_freqs.weight", make([]float32, 4), 4) }, "rope_freqs.weight", false},
		{"too few frequency divisors", "llama", func(b *build) { b.floats("rope_freqs.weight", []float32{1, 2}, 2) }, "rope_freqs.weight", false},
		{"negative eps", "llama", func(b *build) { b.set("attention.layer_norm_rms_epsilon", float32(-1)) }, "llama.attention.layer_norm_rms_epsilon", false},
		{"a layer count as text", "llama", func(b *build) { b.set("block_count", "2") }, "llama.block_count", false},
		{"a negative layer count", "llama", func(b *build) { b.set("block_count", int32(-2)) }, "llama.block_count", false},
		{"no layers", "llama", func(b *build) { b.set("block_count", 0) }, "llama.block_count", false},
		{"an absurd hidden size", "llama", func(b *build) { b.set("embedding_length", uint64(1)<<62) }, "llama.embedding_length", false},
		{"a large hidden size", "llama", func(b *build) { b.set("embedding_length", 1<<20) }, "token_embd.weight", false},
		{"a large head", "llama", func(b *build) { b.set("attention.key_length", 1<<20) }, "blk.0.attn_q.weight", false},
		{"absurdly many heads", "llama", func(b *build) { b.set("attention.head_count", 1<<20); b.set("attention.head_count_kv", 1<<20) }, "blk.0.attn_q.weight", false},

		{"a base of 0 for sliding layers", "gemma3", func(b *build) { b.set("rope.freq_base_swa", float32(0)) }, "gemma3.rope.freq_base_swa", false},
		{"soft caps of logits", "gemma3", func(b *build) { b.set("final_logit_softcapping", float32(30)) }, "gemma3.final_logit_softcapping", true},
		{"no window", "gpt-oss", func(b *build) { b.set("attention.sliding_window", 0) }, "gpt-oss.attention.sliding_window", false},
		{"an unsupported gating of gpt-oss", "gpt-oss", func(b *build) { b.set("expert_gating_func", 2) }, "gpt-oss.expert_gating_func", true},
		{"a rotation by sections", "glm4", func(b *build) { b.set("rope.dimension_sections", []int32{2, 2}) }, "glm4.rope.dimension_sections", true},
		{"the sliding windows of OLMo 3", "olmo2", func(b *build) { b.set("attention.sliding_window", 4096) }, "olmo2.attention.sliding_window", true},
		{"no logit_scale", "granite", func(b *build) { b.remove("logit_scale") }, "granite.logit_scale", false},
		{"long factors without an original context", "phi3", func(b *build) {
			b.floats("rope_factors_long.weight", []float32{1, 2, 3, 4}, 4)
			b.floats("rope_factors_short.weight", []float32{1, 1, 1, 1}, 4)
		}, "phi3.rope.scaling.original_context_length", false},
		{"a long factor of 0", "phi3", func(b *build) {
			b.set("rope.scaling.original_context_length", 8)
			b.floats("rope_factors_long.weight", []float32{1, 2, 3, 0}, 4)
			b.floats("rope_factors_short.weight", []float32{1, 1, 1, 1}, 4)
		}, "rope_factors_long.weight", false},

		{"expert groups", "glm", func(b *build) { b.set("expert_group_count", 8) }, "deepseek2.expert_group_count", true},
		{"one expert group", "glm", func(b *build) { b.set("expert_group_count", 1) }, "", false},
		{"an unsupported gating of deepseek2", "glm", func(b *build) { b.set("expert_gating_func", 3) }, "deepseek2.expert_gating_func", true},
		{"temperature by position", "glm", func(b *build) { b.set("attention.temperature_scale", float32(0.1)) }, "deepseek2.attention.temperature_scale", true},
		{"no temperature by position", "glm", func(b *build) { b.set("attention.temperature_scale", float32(0)) }, "", false},
		{"no experts used", "glm", func(b *build) { b.remove("expert_used_count") }, "deepseek2.expert_used_count", false},
		{"more experts used than there are", "glm", func(b *build) { b.set("expert_used_count", glmExperts+1) }, "deepseek2.expert_used_count", false},
		{"far too many experts", "glm", func(b *build) { b.set("expert_count", 1025) }, "deepseek2.expert_count", true},
		{"far too many experts used", "glm", func(b *build) { b.set("expert_count", 1024); b.set("expert_used_count", 65) }, "deepseek2.expert_used_count", true},
		{"no value size of a head", "glm", func(b *build) { b.remove("attention.value_length_mla") }, "deepseek2.attention.value_length_mla", false},
		{"rotation of a whole head", "glm", func(b *build) { b.set("rope.dimension_count", glmNope+glmRope) }, "rotation", false},
		{"MTP layers without a trunk", "glm", func(b *build) { b.set("nextn_predict_layers", 4) }, "deepseek2.nextn_predict_layers", false},
		{"a bias of the network", "glm", func(b *build) { b.vector("blk.0.ffn_gate.bias", glmFFN) }, "blk.0.ffn_gate.bias", true},
		{"experts of a dense layer", "glm", func(b *build) { b.vector("blk.0.exp_probs_b.bias", glmExperts) }, "blk.0.exp_probs_b.bias", true},
		{"an MTP layer without nextn_predict_layers", "glm", func(b *build) { b.remove("nextn_predict_layers") }, "blk.3.nextn", true},
		{"experts of two types", "glm", func(b *build) {
			const up = "blk.2.ffn_up_exps.weight"
			b.remove(up)
			b.weight(up, gguf.TypeBF16, 32, glmExpertFFN, glmExperts)
		}, "blk.2.ffn_gate_exps.weight", true},
		{"a shared expert without expert_shared_count", "glm", func(b *build) { b.set("expert_shared_count", 0) }, "shexp", true},
		{"a joint weight of the wrong size", "lite", func(b *build) { b.set("attention.kv_lora_rank", glmRank-2) }, "attn_kv", false},
		{"YaRN without the original context", "lite", func(b *build) { b.remove("rope.scaling.original_context_length") }, "deepseek2.rope.scaling.original_context_length", false},
		{"YaRN's own factor for attention", "lite", func(b *build) { b.set("rope.scaling.attn_factor", float32(2)) }, "deepseek2.rope.scaling.attn_factor", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := bases[c.base]()
			c.change(b)
			_, err := load(t, b.write(t))
			if c.message == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.message)
			require.ErrorContains(t, err, "model.gguf")
			require.Less(t, len(err.Error()), 1000)
			require.Equal(t, c.unsupported, isUnsupported(err), "%v", err)
		})
	}
}

func isUnsupported(err error) bool { return errors.Is(err, model.ErrUnsupported) }

// optional reports whether a file may lack a tensor.
func optional(name string) bool {
	for _, end := range []string{"exp_probs_b.bias", "rope_freqs.weight", "layer_output_scale.weight", "ffn_down_exps.scale"} {
		if strings.HasSuffix(name, end) {
			return true
		}
	}
	return name == "output.weight"
}

// TestMissingTensors removes each tensor in turn.
func TestMissingTensors(t *testing.T) {
	eachBase(t, func(t *testing.T, base func() *build) {
		t.Helper()
		for _, tensor := range base().tensors {
			b := base()
			b.remove(tensor.Name)
			_, err := load(t, b.write(t))
			if optional(tensor.Name) || slices.Contains([]string{"qwen35moe", "qwen3next"}, b.arch) && strings.HasSuffix(tensor.Name, "shared_head_norm.weight") ||
				b.arch == "gemma4" && strings.HasSuffix(tensor.Name, "attn_v.weight") {
				require.NoError(t, err, tensor.Name)
				continue
			}
			name := tensor.Name
			switch {
			case strings.Contains(name, "nextn.eh_proj"): // this tensor identifies an MTP layer; without it, the layer counts as part of the trunk
				name = strings.TrimSuffix(name, "eh_proj.weight")
				if slices.Contains([]string{"qwen35moe", "qwen3next"}, base().arch) { // in the trunk, this layer would be recurrent
					name = "blk.2.attn_qkv"
				}
			case strings.Contains(name, "attn_kv_b"): // without this tensor, the loader expects the split form
				name = "attn_k_b"
			case strings.Contains(name, "ffn_gate_up_exps"): // without this tensor, the loader expects separate tensors
				name = "ffn_gate_exps"
			case strings.Contains(name, "attn_qkv"): // without this tensor, the loader expects separate tensors for queries, keys and values
				name = "attn_q"
			case base().arch == "glm4moe" && name == "blk.0.attn_q_norm.weight": // the loader expects head norms only if this tensor exists
				name = "attn_k_norm"
			}
			require.ErrorContains(t, err, name)
		}
	})
}

// TestWrongShapes adds one row or column to each tensor in turn.
func TestWrongShapes(t *testing.T) {
	eachBase(t, func(t *testing.T, base func() *build) {
		t.Helper()
		for i, tensor := range base().tensors {
			for d := range tensor.Shape {
				b := base()
				shape := append([]int{}, tensor.Shape...)
				shape[d]++
				b.tensors[i] = gguf.Tensor{Name: tensor.Name, Shape: shape}
				b.tensors[i].Data = make([]byte, 4*b.tensors[i].Elements())
				_, err := load(t, b.write(t))
				if tensor.Name == "token_embd.weight" && d == 1 { // this dimension defines the size of the vocabulary
					require.ErrorContains(t, err, "output.weight")
					continue
				}
				require.ErrorContains(t, err, tensor.Name)
			}
		}
	})
}

// TestSameValuesInOtherDimensions loads files whose tensors have the same rows, but one dimension
// fewer.
func TestSameValuesInOtherDimensions(t *testing.T) {
	b := flash().build()
	for _, name := range []string{"blk.0.attn_k_b.weight", "blk.0.attn_v_b.weight"} {
		tensor := b.tensor(name)
		tensor.Shape = []int{tensor.Shape[0], tensor.Shape[1] * tensor.Shape[2]}
	}
	requirePlain(t, b.write(t))
}

// TestMissingSettings removes each setting of the architecture in turn. The model must load with
// the format's default, or the error must name the setting or a tensor.
func TestMissingSettings(t *testing.T) {
	// Optional settings. Other tests check some of the defaults.
	defaults := []string{
		"attention.head_count_kv", "rope.dimension_count", "rope.dimension_sections", "rope.freq_base", "attention.value_length",
		"expert_weights_scale", "expert_weights_norm", "expert_gating_func", "attention.key_length", "rope.scaling.factor", "rope.scaling.type",
		"residual_scale", "embedding_scale", "attention.scale", "attention.sliding_window", "attention.sliding_window_pattern",
		"feed_forward_length", // optional in a model without dense layers
		"leading_dense_block_count", "expert_shared_count", "rope.scaling.finetuned", "attention.shared_kv_layers",
		"attention.value_length_swa", "rope.dimension_count_swa", "rope.freq_base_swa", "final_logit_softcapping",
	}
	eachBase(t, func(t *testing.T, base func() *build) {
		t.Helper()
		for _, key := range base().meta.Keys() {
			b := base()
			b.remove(key)
			_, err := load(t, b.write(t))
			if err == nil {
				short := strings.TrimPrefix(key, b.arch+".")
				require.Contains(t, defaults, short, "the model loads without %s", key)
				continue
			}
			named := strings.Contains(err.Error(), key) || strings.Contains(err.Error(), "tensor ")
			require.True(t, named, "without %s: %v", key, err)
		}
	})
}

// TestPredictionAnnouncedButAbsent loads files with nextn_predict_layers but without the tensors of
// an MTP layer, and a file with two MTP layers.
func TestPredictionAnnouncedButAbsent(t *testing.T) {
	t.Run("no tensors", func(t *testing.T) {
		b := flash().build()
		for _, tensor := range flash().build().tensors {
			if strings.HasPrefix(tensor.Name, "blk.3.") {
				b.remove(tensor.Name)
			}
		}
		m, err := load(t, b.write(t))
		require.NoError(t, err)
		require.Zero(t, m.Config().DraftLayers)
		require.Equal(t, 3, m.Config().Layers)
		err = m.(model.Drafter).Draft(modeltest.Batch([]int32{1}, 0), model.TrunkStates, rows(1))
		require.ErrorIs(t, err, model.ErrUnsupported)
		requirePlain(t, b.write(t))
	})
	t.Run("no tensors, and not counted in block_count", func(t *testing.T) {
		g := flash()
		g.mtp = 0
		b := g.build()
		b.set("nextn_predict_layers", 1)
		m, err := load(t, b.write(t))
		require.NoError(t, err)
		require.Zero(t, m.Config().DraftLayers)
		require.Equal(t, 3, m.Config().Layers)
	})
	t.Run("two MTP layers", func(t *testing.T) {
		g := flash()
		g.mtp = 2
		m, err := load(t, g.build().write(t))
		require.NoError(t, err)
		require.Equal(t, 1, m.Config().DraftLayers)
		require.Equal(t, 3, m.Config().Layers)
	})
}

// TestBothForms loads a file that has the weights of keys and values in both forms, joint and
// split.
func TestBothForms(t *testing.T) {
	g := flash()
	g.joint = true
	b, split := g.build(), flash().build()
	for i := range 4 {
		for _, form := range []string{"k", "v"} {
			b.tensors = append(b.tensors, *split.tensor(fmt.Sprintf("blk.%d.attn_%s_b.weight", i, form)))
		}
	}
	_, err := load(t, b.write(t))
	require.NoError(t, err)
}

// TestNoPanics changes settings and tensors at random. A file must be refused or must run, with any
// result.
func TestNoPanics(t *testing.T) {
	values := []any{
		uint32(0), uint32(1), uint32(2), uint32(3), uint32(7), uint32(8), uint32(1 << 20), uint32(math.MaxUint32), uint64(math.MaxUint64),
		int32(-1), int64(math.MinInt64), float32(0), float32(-1), float32(1e38), float32(math.Inf(1)), float32(math.NaN()), float64(2),
		true, false, "", "yarn", "linear", []int32{1, 2}, []string{"x"},
	}
	be, err := cpu.New(1)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, be.Close()) })
	rapid.Check(t, func(rt *rapid.T) {
		b := bases[rapid.SampledFrom(slices.Sorted(maps.Keys(bases))).Draw(rt, "base")]()
		keys := slices.Concat(b.meta.Keys()[1:], []string{b.arch + ".rope.scaling.type", b.arch + ".rope.scaling.factor", b.arch + ".rope.scaling.yarn_beta_fast",
			b.arch + ".rope.scaling.yarn_log_multiplier", b.arch + ".expert_group_count", b.arch + ".attention.key_length"})
		for range rapid.IntRange(0, 3).Draw(rt, "settings") {
			b.meta.Set(rapid.SampledFrom(keys).Draw(rt, "key"), rapid.SampledFrom(values).Draw(rt, "value"))
		}
		for range rapid.IntRange(0, 1).Draw(rt, "tensors") {
			b.remove(b.tensors[rapid.IntRange(0, len(b.tensors)-1).Draw(rt, "tensor")].Name)
		}
		f, err := gguf.Open(b.write(t))
		require.NoError(rt, err)
		defer func() { require.NoError(rt, f.Close()) }()
		m, err := model.Load(be, f, smallLimits)
		if err != nil {
			return
		}
		_, err = m.Forward(modeltest.Batch([]int32{1, 2, 3}, 0))
		require.NoError(rt, err)
	})
}

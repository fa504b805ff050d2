package model_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/engine/model"
	"github.com/ingot-run/ingot/engine/model/modeltest"
)

func scaleOf(layer int, name string) string { return fmt.Sprintf("blk.%d.%s.scale", layer, name) }

// TestRefusalsOfGemma4 breaks a file in one way at a time, as TestRefusals does.
func TestRefusalsOfGemma4(t *testing.T) {
	for name, c := range map[string]struct {
		base        string
		change      func(b *build)
		message     string
		unsupported bool
	}{
		"a pattern that is too short": {"gemma4", func(b *build) { b.set("attention.sliding_window_pattern", []bool{true}) }, "gemma4.attention.sliding_window_pattern", false},
		"a pattern without a window":  {"gemma4", func(b *build) { b.set("attention.sliding_window", 0) }, "gemma4.attention.sliding_window", false},
		"key heads that differ": {"gemma4", func(b *build) {
			b.set("attention.head_count_kv", []int32{4, 1, 2, 1})
		}, "gemma4.attention.head_count_kv", true},
		"too few key heads":     {"gemma4", func(b *build) { b.set("attention.head_count_kv", []int32{4, 1}) }, "gemma4.attention.head_count_kv", false},
		"a negative key head":   {"gemma4", func(b *build) { b.set("attention.head_count_kv", []int32{-4, 1, 4, 1}) }, "gemma4.attention.head_count_kv", false},
		"other values":          {"gemma4", func(b *build) { b.set("attention.value_length", 8) }, "gemma4.attention.key_length is 16 and gemma4.attention.value_length is 8", true},
		"keys of no multiple":   {"gemma4", func(b *build) { b.set("attention.key_length_swa", 6); b.set("attention.value_length_swa", 6) }, "multiple", true},
		"all layers shared":     {"gemma4", func(b *build) { b.set("attention.shared_kv_layers", 4) }, "gemma4.attention.shared_kv_layers", false},
		"no source of a layer":  {"gemma4", func(b *build) { b.set("attention.shared_kv_layers", 3) }, "gemma4.attention.shared_kv_layers", false},
		"a rotation too large":  {"gemma4", func(b *build) { b.set("rope.dimension_count_swa", 10) }, "gemma4.rope.dimension_count", false},
		"soft caps of scores":   {"gemma4", func(b *build) { b.set("attn_logit_softcapping", float32(50)) }, "gemma4.attn_logit_softcapping", true},
		"a factor of NaN":       {"gemma4", func(b *build) { b.tensor("blk.0.layer_output_scale.weight").Data = []byte{0, 0, 0xc0, 0x7f} }, "blk.0.layer_output_scale.weight", false},
		"no experts used":       {"gemma4 with experts", func(b *build) { b.set("expert_used_count", 0) }, "gemma4.expert_used_count", false},
		"experts without sizes": {"gemma4 with experts", func(b *build) { b.remove("expert_count") }, "blk.0.ffn_gate_inp", true},
		"suppressed tokens":     {"gemma4", func(b *build) { b.meta.Set("tokenizer.ggml.suppress_tokens", "all") }, "tokenizer.ggml.suppress_tokens", false},
		"unused keys": {"gemma4 with inputs", func(b *build) {
			b.weight("blk.3.attn_k.weight", 0, hidden, gemma4Full)
			b.weight("blk.3.attn_v.weight", 0, hidden, gemma4Full)
			b.vector("blk.3.attn_k_norm.weight", gemma4Full)
		}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := bases[c.base]()
			c.change(b)
			_, err := load(t, b.write(t))
			if c.message == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.message)
			require.Equal(t, c.unsupported, isUnsupported(err), "%v", err)
		})
	}
}

// TestSuppressedTokens checks that the tokens that a file lists have the lowest logits, and that
// the others are unchanged.
func TestSuppressedTokens(t *testing.T) {
	logits := func(ids []int32) []float32 {
		b := bases["gemma4"]()
		if ids != nil {
			b.meta.Set("tokenizer.ggml.suppress_tokens", ids)
		}
		m, err := load(t, b.write(t))
		require.NoError(t, err)
		out, err := m.Forward(modeltest.Batch([]int32{1, 2, 3}, 0))
		require.NoError(t, err)
		return slices.Clone(out[2])
	}
	plain, without := logits(nil), logits([]int32{5, 7, -1, vocab})
	for id, v := range plain {
		if id == 5 || id == 7 {
			require.Less(t, without[id], float32(-1e29))
			continue
		}
		require.Equal(t, v, without[id])
	}
}

// TestSizesOfGemma4 checks the memory of the cache and its groups for the sizes of the published
// models.
func TestSizesOfGemma4(t *testing.T) {
	t.Parallel()
	free := model.Limits{Context: 8192, FreeWindows: true}
	for name, c := range map[string]struct {
		config   model.Config
		position int // bytes in float16
		groups   model.Groups
	}{
		"26B-A4B": {
			model.Config{Layers: 30, Sliding: 25, Window: 1024, KeyCols: 2048, ValueCols: 2048, KeyDim: 256, ValueDim: 256, FullParts: 2, SlidingParts: 1},
			25*8192 + 5*4096, model.Groups{Layers: 3, Full: 1, Sliding: 9, Window: 1024, Parts: []int{2, 1, 1, 1, 1, 1, 1, 1, 1, 1}},
		},
		"31B": {
			model.Config{Layers: 60, Sliding: 50, Window: 1024, KeyCols: 4096, ValueCols: 4096, KeyDim: 256, ValueDim: 256, FullParts: 2, SlidingParts: 1},
			50*16384 + 10*8192, model.Groups{Layers: 5, Full: 1, Sliding: 10, Window: 1024, Parts: []int{2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}},
		},
		"E2B": {
			model.Config{Layers: 35, Shared: 20, Sliding: 12, Window: 512, KeyCols: 512, ValueCols: 512, KeyDim: 256, ValueDim: 256, FullParts: 1, SlidingParts: 2},
			12*1024 + 3*2048, model.Groups{Layers: 3, Full: 1, Sliding: 2, Window: 512, Parts: []int{1, 2, 2}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			position, err := c.config.PositionBytes(gguf.TypeF16)
			require.NoError(t, err)
			require.Equal(t, c.position, position)
			g := c.config.Groups(free)
			require.Equal(t, c.groups, g)
			slot, err := g.SlotBytes(c.config, gguf.TypeF16)
			require.NoError(t, err)
			require.LessOrEqual(t, slot*(g.Full+g.Sliding)*10, position*11, "groups waste at most a tenth")
			whole := c.config.Groups(model.Limits{Context: 8192})
			require.Equal(t, [2]int{g.Full + g.Sliding, 0}, [2]int{whole.Full, whole.Sliding}, "groups whose pages are not freed")
		})
	}
}

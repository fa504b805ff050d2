package model

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestScaleOfGemma3 checks the factor of the attention scores. In Google's code, it is the square
// root of 1/query_pre_attn_scalar: of 1/168 for Gemma 3 27B (hidden size 5376, 32 heads). The other
// sizes use the size of a head, as Llama does.
func TestScaleOfGemma3(t *testing.T) {
	t.Parallel()
	for layers, want := range map[int]float64{26: 0, 34: 0, 48: 0, 61: 0, 62: 0.0771516750, 63: 0} {
		l := settings(t, map[string]any{"attention.head_count": uint32(32), "attention.key_length": uint32(128)})
		d := gemma3(l, Config{Layers: layers, Hidden: 5376}, Limits{})
		require.InDelta(t, want, d.scale, 1e-8, "%d layers", layers)
		require.InDelta(t, 73.3212111, d.embedScale, 1e-6)
		require.True(t, d.headNorms && d.postNorms)
		require.Nil(t, d.slidingFreqs)
	}
	l := settings(t, map[string]any{"attention.head_count": uint32(32), "attention.key_length": uint32(128)})
	require.NotNil(t, gemma3(l, Config{Layers: 26, Hidden: 1152, Window: 512}, Limits{}).slidingFreqs)
}

// Every sixth layer has no window, unless the file has another pattern.
func TestWindowOfGemma3(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		settings map[string]any
		full     []int // of the layers 0 to 11
		length   int
	}{
		"no pattern":     {map[string]any{"attention.sliding_window": uint32(512)}, []int{5, 11}, 512},
		"each third":     {map[string]any{"attention.sliding_window": uint32(512), "attention.sliding_window_pattern": uint32(3)}, []int{2, 5, 8, 11}, 512},
		"all layers":     {map[string]any{"attention.sliding_window": uint32(512), "attention.sliding_window_pattern": uint32(0)}, nil, 512},
		"without window": {nil, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, 0},
	} {
		w := gemma3Window(settings(t, c.settings))
		require.Equal(t, c.length, w.length, name)
		var full []int
		for layer := range 12 {
			if !w.covers(layer) {
				full = append(full, layer)
			}
		}
		require.Equal(t, c.full, full, name)
	}
}

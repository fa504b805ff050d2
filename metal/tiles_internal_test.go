package metal

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/gguf"
)

func TestAgree(t *testing.T) {
	t.Parallel()
	values := []float32{3, -40, 0.5}
	other := func(i int, v float32) []float32 {
		changed := []float32{3, -40, 0.5}
		changed[i] = v
		return changed
	}
	for _, mode := range []Mode{Release, Debug, FastMath} {
		require.True(t, agree(values, other(0, 3), mode))
		require.Equal(t, mode == FastMath, agree(values, other(0, 3.00001), mode), "a rounding difference")
		require.False(t, agree(values, other(2, 0.6), mode), "another value")
		require.False(t, agree(values, other(1, 40), mode), "another sign")
		require.False(t, agree(values, other(0, float32(math.NaN())), mode))
	}
}

// TestChoiceOfWideTiles checks for which products an H100 uses wide tiles. The shapes are those of
// GLM-4.7-Flash.
func TestChoiceOfWideTiles(t *testing.T) {
	t.Parallel()
	g := DefaultGeometry().ofDevice("sm_90")
	find := func(kernel string) *tiled {
		c := g.find(kernel, gguf.TypeQ4K, 0, 0, 0)
		made := newTiled(kernel, &c)
		return &made
	}
	for _, c := range []struct {
		kernel              string
		out, matrices, rows int
		wide                bool
	}{
		{ProductTile, 2048, 1, 2048, true}, // 512 wide tiles
		{ProductTile, 5120, 1, 2048, true},
		{ProductTile, 256, 20, 2048, true},
		{ProductTile, 576, 1, 2048, true},  // 160
		{ProductTile, 512, 1, 2048, false}, // 128, which do not occupy the GPU
		{ProductTile, 2048, 1, 512, false},
		{ProductTile, 154_880, 1, 64, false}, // few rows
		{GatedTile, 10_240, 1, 2048, true},
		{GatedTile, 10_240, 1, 128, false},
	} {
		k := find(c.kernel)
		w := &weight{out: c.out, matrices: c.matrices}
		require.True(t, k.fits(w, c.rows), "%+v", c)
		require.Equal(t, c.wide, k.forRows(w, c.rows) == k.wide, "%+v", c)
	}
	for _, kernel := range []string{ExpertGatedTile, ExpertDownTile} {
		k := find(kernel)
		for rows, want := range map[int]int{64: 8, 128: k.inputs, 1024: k.inputs, 2048: wideTileInputs} {
			require.Equal(t, want, tileOfChoices(rows, 4, 64, k), "%s, %d rows", kernel, rows)
		}
		require.Equal(t, k, k.forChoices(k.inputs))
		require.Equal(t, k.wide, k.forChoices(wideTileInputs))
		require.Nil(t, k.forChoices(8))
	}
	apple := DefaultGeometry().ofDevice("Apple9").find(ProductTile, gguf.TypeQ4K, 0, 0, 0)
	require.Nil(t, newTiled(ProductTile, &apple).wide)
}

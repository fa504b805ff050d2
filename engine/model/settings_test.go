package model

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
)

// settings returns a loader for a file that has only the given settings of deepseek2, and no
// tensors.
func settings(t *testing.T, values map[string]any) *loader {
	t.Helper()
	meta := gguf.NewMetadata()
	for key, v := range values {
		meta.Set("deepseek2."+key, v)
	}
	path := filepath.Join(t.TempDir(), "settings.gguf")
	out, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, gguf.Write(out, meta, nil))
	require.NoError(t, out.Close())
	f, err := gguf.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	return newLoader(nil, f, "deepseek2")
}

// TestGatingOfEarlyFlashFiles checks the default gating. Early files of GLM-4.7-Flash do not have
// expert_gating_func and use sigmoid. All other files without it use softmax.
func TestGatingOfEarlyFlashFiles(t *testing.T) {
	for _, c := range []struct {
		layers, vocab int
		metadata      map[string]any
		want          compute.Gating
	}{
		{47, 154880, nil, compute.GatingSigmoid},
		{47, 154880, map[string]any{"expert_gating_func": uint32(1)}, compute.GatingSoftmax},
		{47, 32000, nil, compute.GatingSoftmax},
		{27, 154880, nil, compute.GatingSoftmax},
		{27, 102400, map[string]any{"expert_gating_func": uint32(2)}, compute.GatingSigmoid},
	} {
		l := settings(t, c.metadata)
		require.Equal(t, c.want, l.routeShape(flashGating(Config{Layers: c.layers, Vocab: c.vocab})).Gating, "%+v", c)
		require.NoError(t, l.err)
	}
}

// Each result has the name of the model, so a long one is cut, between characters.
func TestLongNamesAreCut(t *testing.T) {
	for name, want := range map[string]string{
		strings.Repeat("a", maxName):         strings.Repeat("a", maxName),
		strings.Repeat("a", maxName-1) + "é": strings.Repeat("a", maxName-1),
		strings.Repeat("b", 1<<20):           strings.Repeat("b", maxName),
	} {
		meta := gguf.NewMetadata()
		meta.Set("general.name", name)
		require.Equal(t, want, newLoader(nil, gguf.New("m", meta, nil), "llama").name())
	}
}

// TestFirstErrorStays checks that a loader returns zeros after an error and keeps the first error.
func TestFirstErrorStays(t *testing.T) {
	l := settings(t, map[string]any{"block_count": uint32(math.MaxUint32), "rope.freq_base": "fast"})
	require.Zero(t, l.size("block_count"))
	require.Zero(t, l.size("embedding_length"))
	require.InDelta(t, 5, l.floatOr("rope.freq_base", 5), 0)
	require.ErrorContains(t, l.err, "deepseek2.block_count")
}

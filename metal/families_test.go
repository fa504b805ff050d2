package metal_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/engine/model"
	"github.com/ingot-run/ingot/engine/model/modeltest"
	"github.com/ingot-run/ingot/metal"
)

// TestFamilies compares a small model of each family with results of Hugging Face transformers for
// the same weights.
func TestFamilies(t *testing.T) {
	t.Parallel()
	families(t, emulated, gguf.TypeF32, func(string) float64 { return 1e-3 })
}

// families compares the shortest prompts. Their answers are longer than the attention windows of
// the reference models. It uses the smallest file of each model, so the experts of gpt-oss are
// MXFP4. kv is the type of the KV pages. tolerance returns the bound for a file.
func families(t *testing.T, start starter, kv gguf.Type, bound func(path string) float64) {
	t.Helper()
	modeltest.Families(t, func(t *testing.T, f *modeltest.Family) {
		path := f.Files[len(f.Files)-1]
		be := start(t, metal.Options{Geometry: tilesFrom(5)})
		m, tolerance := loadFamily(t, be, path, kv), bound(path)
		t.Logf("log-probabilities differ by at most %.2g", modeltest.Compare(t, m, f.Prompts[1:3], tolerance))
		if f.MTP != nil {
			off := modeltest.CompareMTP(t, m, f)
			require.Less(t, off, tolerance)
			t.Logf("logits of the MTP layer differ by at most %.2g", off)
		}
		if f.Assistant != nil {
			off := modeltest.CompareAssistant(t, be, m, f)
			require.Less(t, off, tolerance)
			t.Logf("logits of drafts differ by at most %.2g", off)
		}
	})
}

func loadFamily(t *testing.T, be *metal.Backend, path string, kv gguf.Type) model.Model {
	t.Helper()
	f, err := gguf.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	limits := modeltest.FamilyLimits
	limits.KV = kv
	m, err := model.Load(be, f, limits)
	require.NoError(t, err)
	return m
}

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
	families(t, emulated, 1e-3)
}

// families compares the shortest prompts. Their answers are longer than the attention windows of
// the reference models. It uses the smallest file of each model, so the experts of gpt-oss are
// MXFP4.
func families(t *testing.T, start starter, tolerance float64) {
	t.Helper()
	modeltest.Families(t, func(t *testing.T, f *modeltest.Family) {
		be := start(t, metal.Options{Geometry: tilesFrom(5)})
		m := loadFamily(t, be, f.Files[len(f.Files)-1])
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

func loadFamily(t *testing.T, be *metal.Backend, path string) model.Model {
	t.Helper()
	f, err := gguf.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	m, err := model.Load(be, f, modeltest.FamilyLimits)
	require.NoError(t, err)
	return m
}

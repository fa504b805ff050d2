package model_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/cpu"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/engine/model"
	"github.com/ingot-run/ingot/engine/model/modeltest"
)

// TestFamilies compares a small model of each family with the results of Hugging Face transformers
// for the same weights.
func TestFamilies(t *testing.T) {
	modeltest.Families(t, func(t *testing.T, f *modeltest.Family) {
		t.Parallel()
		longest := 256
		for _, p := range f.Prompts {
			longest = max(longest, len(p.All()))
		}
		m := loadContext(t, f.Files[0], longest)
		t.Logf("log-probabilities differ by at most %.2g", modeltest.Compare(t, m, f.Prompts, 1e-3))
		if f.MTP != nil {
			off := modeltest.CompareMTP(t, m, f)
			require.Less(t, off, 1e-3)
			t.Logf("logits of the MTP layer differ by at most %.2g", off)
		}
	})
}

// TestFamilyTypes compares copies of the models in other types. The weights of a model have the
// same values in all types. F16 weights and their activations are rounded to 16 bits in products.
func TestFamilyTypes(t *testing.T) {
	modeltest.Families(t, func(t *testing.T, f *modeltest.Family) {
		exact := openFile(t, f.Files[0])
		for _, path := range f.Files[1:] {
			for _, tensor := range openFile(t, path).Tensors() {
				want, ok := exact.Tensor(tensor.Name)
				require.True(t, ok)
				require.Equal(t, want.Values(), tensor.Values(), "weights of tensor %s of type %v", tensor.Name, tensor.Type)
			}
			t.Logf("%s: log-probabilities differ by at most %.2g", filepath.Base(path), modeltest.Compare(t, loadFamily(t, path), f.Prompts[:3], 4e-3))
		}
	})
}

func openFile(t *testing.T, path string) *gguf.File {
	t.Helper()
	f, err := gguf.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	return f
}

// loadFamily loads a reference model on the CPU.
func loadFamily(t *testing.T, path string) model.Model {
	t.Helper()
	return loadContext(t, path, 256)
}

func loadContext(t *testing.T, path string, context int) model.Model {
	t.Helper()
	f, err := gguf.Open(path)
	require.NoError(t, err)
	be, err := cpu.New(2)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, be.Close())
		require.NoError(t, f.Close())
	})
	limits := modeltest.FamilyLimits
	limits.Context, limits.RopeContext = context, min(context, limits.RopeContext)
	m, err := model.Load(be, f, limits)
	require.NoError(t, err)
	return m
}

// TestRopeFactorsByContext checks that Phi-3 uses the long factors if it is loaded for more
// positions than the original context.
func TestRopeFactorsByContext(t *testing.T) {
	short, long := []float32{1, 1.5, 2, 1}, []float32{3, 4, 5, 6}
	logits := func(original int, short, long []float32) []float32 {
		b := bases["phi3"]()
		b.set("rope.scaling.original_context_length", original)
		b.set("rope.scaling.attn_factor", float32(1.2))
		b.floats("rope_factors_short.weight", short, 4)
		b.floats("rope_factors_long.weight", long, 4)
		out, err := loadFamily(t, b.write(t)).Forward(modeltest.Batch([]int32{1, 2, 3, 4}, 0))
		require.NoError(t, err)
		return out[3]
	}
	require.Equal(t, logits(256, short, long), logits(300, short, short), "the short factors apply up to the original context of 256 positions")
	require.Equal(t, logits(255, short, long), logits(300, long, short))
	require.NotEqual(t, logits(255, short, long), logits(256, short, long))
}

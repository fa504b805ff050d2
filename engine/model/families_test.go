package model_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/cpu"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/engine/model"
	"github.com/ingot-run/ingot/engine/model/modeltest"
)

// TestFamilies compares a small model of each family with what transformers computed from the same weights.
func TestFamilies(t *testing.T) {
	modeltest.Families(t, func(t *testing.T, f *modeltest.Family) {
		t.Parallel()
		m := loadFamily(t, f.Files[0])
		t.Logf("log-probabilities differ by at most %.2g", modeltest.Compare(t, m, f.Prompts, 1e-3))
		if f.MTP != nil {
			off := modeltest.CompareMTP(t, m, f)
			require.Less(t, off, 1e-3)
			t.Logf("logits of the MTP layer differ by at most %.2g", off)
		}
	})
}

// loadFamily loads a model on the CPU for contexts of up to 256 positions.
func loadFamily(t *testing.T, path string) model.Model {
	t.Helper()
	f, err := gguf.Open(path)
	require.NoError(t, err)
	be, err := cpu.New(2)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, be.Close())
		require.NoError(t, f.Close())
	})
	limits := modeltest.Limits
	limits.Context = 256
	m, err := model.Load(be, f, limits)
	require.NoError(t, err)
	return m
}

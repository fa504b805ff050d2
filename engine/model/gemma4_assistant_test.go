package model_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/cpu"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/engine/model"
	"github.com/ingot-run/ingot/engine/model/modeltest"
)

// TestAssistants compares the drafters of the references with the results of transformers.
func TestAssistants(t *testing.T) {
	tested := 0
	modeltest.Families(t, func(t *testing.T, f *modeltest.Family) {
		if f.Assistant == nil {
			return
		}
		tested++
		be, m := loadTarget(t, f.Files[0])
		off := modeltest.CompareAssistant(t, be, m, f)
		require.Less(t, off, 1e-3)
		t.Logf("logits of drafts differ by at most %.2g", off)
	})
	require.Equal(t, 2, tested)
}

func loadTarget(t *testing.T, path string) (*cpu.Backend, model.Model) {
	t.Helper()
	be, err := cpu.New(2)
	require.NoError(t, err)
	f := openFile(t, path)
	t.Cleanup(func() { require.NoError(t, be.Close()) })
	m, err := model.Load(be, f, modeltest.FamilyLimits)
	require.NoError(t, err)
	return be, m
}

// TestAssistantOfAnotherModel loads drafters for models for which they were not made. The error
// must say so.
func TestAssistantOfAnotherModel(t *testing.T) {
	var drafter, other string
	modeltest.Families(t, func(_ *testing.T, f *modeltest.Family) {
		switch f.Name {
		case "gemma4":
			drafter = f.Assistant.File
		case "gemma4-e":
			other = f.Files[0]
		}
		if drafter == "" || other == "" {
			return
		}
		path := drafter
		for name, c := range map[string]struct {
			target  string
			change  func(b *build)
			message string
		}{
			"another family":       {bases["llama"]().write(t), func(*build) {}, "drafts only for models of architecture gemma4"},
			"another size":         {bases["gemma4"]().write(t), func(*build) {}, "has a hidden size of 32"},
			"another window":       {other, func(b *build) { b.set("attention.sliding_window", 17) }, "a window of 17"},
			"other heads":          {other, func(b *build) { b.set("attention.key_length_swa", 32) }, "gemma4-assistant.attention.key_length_swa"},
			"a missing projection": {other, func(b *build) { b.remove("nextn.pre_projection.weight") }, "nextn.pre_projection.weight"},
			"its own keys":         {other, func(b *build) { b.weight("blk.0.attn_gate.weight", 0, 32, 32) }, "blk.0.attn_gate.weight"},
		} {
			b := rebuild(t, path)
			c.change(b)
			f := openFile(t, b.write(t))
			be, m := loadTarget(t, c.target)
			_, err := model.LoadAssistant(be, m, f, modeltest.FamilyLimits)
			require.ErrorContains(t, err, c.message, name)
		}
		drafter = ""
		f2 := openFile(t, path)
		be, err := cpu.New(1)
		require.NoError(t, err)
		_, err = model.Load(be, f2, modeltest.FamilyLimits)
		require.ErrorIs(t, err, model.ErrUnsupported)
		require.ErrorContains(t, err, "--draft model=FILE")
		c, err := model.ReadConfig(f2)
		require.NoError(t, err)
		require.True(t, c.Assistant)
		bytes, err := c.PositionBytes(gguf.TypeF16)
		require.NoError(t, err)
		require.Zero(t, bytes)
		require.NoError(t, be.Close())
	})
}

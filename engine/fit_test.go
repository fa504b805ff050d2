package engine_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/cpu"
	"github.com/ingot-run/ingot/engine/gguf"
)

// TestCheckFitIsWhatOpenDoes compares the answer with an engine that is opened.
func TestCheckFitIsWhatOpenDoes(t *testing.T) {
	t.Parallel()
	const path = "../models/tiny-glm.q8_0.gguf"
	for name, opts := range map[string]engine.Options{
		"as it comes":    {},
		"little memory":  {Memory: 9 << 20, MaxSequences: 2, KV: gguf.TypeF16},
		"a context":      {Memory: 64 << 20, Context: 512, MaxSequences: 3},
		"too little":     {Memory: 1 << 20},
		"a long context": {Memory: 9 << 20, Context: 4096},
		"a small model":  {Memory: 64 << 20, Draft: engine.DraftModel, DraftModel: path},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			be, err := cpu.New(1)
			require.NoError(t, err)
			fit, fitErr := engine.CheckFit(path, be, opts)
			eng, err := engine.Open(path, be, opts)
			if err != nil {
				require.ErrorContains(t, err, fitErr.Error())
				require.Positive(t, fit.Weights)
				require.Equal(t, opts.Memory, fit.Memory)
				return
			}
			defer func() { require.NoError(t, eng.Close()) }()
			require.NoError(t, fitErr)
			require.Equal(t, eng.Info().Context, fit.Context)
			require.Equal(t, eng.Snapshot().PagesTotal*engine.DefaultPageSize, fit.Tokens)
			require.Equal(t, 4096, fit.Trained)
			require.LessOrEqual(t, fit.Weights+fit.PerToken*int64(fit.Tokens), fit.Memory)
		})
	}
}

// A file whose settings make a position of the cache larger than any memory is refused before its size is used.
func TestAbsurdSettings(t *testing.T) {
	t.Parallel()
	f, err := gguf.Open(microLlama)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	meta := gguf.NewMetadata()
	for _, key := range f.Meta().Keys() {
		v, _ := f.Meta().Any(key)
		meta.Set(key, v)
	}
	const huge = uint32(1 << 20)
	for _, key := range []string{"block_count", "attention.head_count", "attention.head_count_kv", "attention.key_length", "attention.value_length"} {
		meta.Set("llama."+key, huge)
	}
	path := filepath.Join(t.TempDir(), "absurd.gguf")
	out, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, gguf.Write(out, meta, f.Tensors()))
	require.NoError(t, out.Close())

	be := backend(t)
	_, err = engine.CheckFit(path, be, engine.Options{})
	require.ErrorContains(t, err, "position")
	_, err = engine.Open(path, be, engine.Options{})
	require.ErrorContains(t, err, "position")
}

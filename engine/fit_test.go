package engine_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/cpu"
	"github.com/ingot-run/ingot/engine/gguf"
)

// TestCheckFitIsWhatOpenDoes compares the result of CheckFit with an engine that is opened with the
// same options.
func TestCheckFitIsWhatOpenDoes(t *testing.T) {
	t.Parallel()
	const path = "../models/tiny-glm.q8_0.gguf"
	for name, opts := range map[string]engine.Options{
		"default options": {},
		"little memory":   {Memory: 32 << 20, MaxSequences: 2, KV: gguf.TypeF16},
		"a context":       {Memory: 64 << 20, Context: 512, MaxSequences: 3},
		"too little":      {Memory: 1 << 20},
		"a long context":  {Memory: 24 << 20, Context: 4096},
		"a small model":   {Memory: 64 << 20, Draft: engine.DraftModel, DraftModel: path},
		"fewest tokens":   {Memory: 18 << 20, MaxSequences: 1, Draft: engine.DraftOff},
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
			cache := fit.PerToken * int64(fit.Tokens)
			require.InEpsilon(t, fit.Weights+cache, be.Bytes(), 0.01, "the backend's memory is that of the packed weights and the cache")
			require.LessOrEqual(t, fit.Weights+fit.Steps+fit.Rows+fit.PerToken*int64(fit.Tokens), fit.Memory)
		})
	}
}

// A file whose settings make one position of the cache larger than any memory is refused before the
// size overflows.
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

// Without a given context, the engine has the largest context that fits into the memory: one page
// more does not fit.
func TestTheLargestContext(t *testing.T) {
	t.Parallel()
	const path = "../models/tiny-glm.q8_0.gguf"
	be := backend(t)
	defer func() { require.NoError(t, be.Close()) }()
	opts := engine.Options{Memory: 28 << 20, MaxSequences: 8}
	fit, err := engine.CheckFit(path, be, opts)
	require.NoError(t, err)
	require.Less(t, fit.Context, fit.Trained)
	for more, fits := range map[int]bool{0: true, 1: false} {
		opts.Context = fit.Context + more
		_, err = engine.CheckFit(path, be, opts)
		require.Equal(t, fits, err == nil, "a context that is %d positions longer: %v", more, err)
	}
}

// Without a given number of sequences, the engine chooses it by memory and cost. Each has room in
// the cache, and steps take little of the memory.
func TestAutomaticSequences(t *testing.T) {
	t.Parallel()
	const path = "../models/tiny-glm.q8_0.gguf"
	largest := 0
	for _, c := range []struct {
		memory    int64
		low, high int // of the number of sequences by memory
	}{{26 << 20, 1, 32}, {64 << 20, 8, 128}, {4 << 30, engine.MaxAutomatic, engine.MaxAutomatic}} {
		be, err := cpu.New(1)
		require.NoError(t, err)
		opts := engine.Options{Memory: c.memory, KV: gguf.TypeF16}
		fit, err := engine.CheckFit(path, be, opts)
		require.NoError(t, err)
		require.GreaterOrEqual(t, fit.Sequences, c.low, "%d bytes", c.memory)
		require.LessOrEqual(t, fit.Sequences, c.high, "%d bytes", c.memory)
		require.GreaterOrEqual(t, fit.Sequences, largest, "more memory, more sequences")
		largest = fit.Sequences
		require.LessOrEqual(t, fit.Weights+fit.Steps+fit.Rows+fit.PerToken*int64(fit.Tokens), fit.Memory)
		require.LessOrEqual(t, fit.PerToken*int64(fit.Tokens), int64(1<<30), "the cache does not take all memory")
		eng, err := engine.Open(path, be, opts)
		require.NoError(t, err)
		info := eng.Info()
		require.Equal(t, fit.Pages, info.Fit.Pages)
		require.GreaterOrEqual(t, info.MaxSequences, min(8, fit.Sequences))
		require.LessOrEqual(t, info.MaxSequences, fit.Sequences)
		require.Equal(t, engine.DefaultStepTokens+fit.Sequences, info.StepTokens)
		require.NoError(t, eng.Close())
	}
	be := backend(t)
	defer func() { require.NoError(t, be.Close()) }()
	fit, err := engine.CheckFit(path, be, engine.Options{StepTokens: 20, Memory: 4 << 30})
	require.NoError(t, err)
	require.LessOrEqual(t, fit.Sequences, 20, "a step has a row for each sequence")
}

// Options.Loading is called with more and more bytes, up to all bytes of the file's tensors.
func TestLoading(t *testing.T) {
	t.Parallel()
	for name, path := range families(t) {
		var done []int64
		open(t, path, engine.Options{Loading: func(bytes, total int64) {
			require.LessOrEqual(t, bytes, total, name)
			done = append(done, bytes*100/total)
		}})
		require.True(t, slices.IsSorted(done), name)
		require.Less(t, done[0], int64(60), name)
		require.Greater(t, done[len(done)-1], int64(90), name)
	}
}

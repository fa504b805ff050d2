package engine_test

import (
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

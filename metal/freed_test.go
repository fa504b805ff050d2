package metal_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/model/modeltest"
	"github.com/ingot-run/ingot/metal"
)

// TestFreedWindows compares greedy answers with the references' while pages before sliding windows
// are freed. The windows have 16 positions.
func TestFreedWindows(t *testing.T) {
	t.Parallel()
	modeltest.Families(t, func(t *testing.T, f *modeltest.Family) {
		if f.Name != "gemma3" && f.Name != "gpt-oss" {
			return
		}
		opts := engine.Options{Context: 96, PageSize: 8, StepTokens: 24, MaxSequences: 2, Draft: engine.DraftNGram}
		e, err := engine.Open(f.Files[0], emulated(t, metal.Options{}), opts)
		require.NoError(t, err)
		defer func() { require.NoError(t, e.Close()) }()
		require.Equal(t, 16, e.Info().Fit.Window)
		compared := 0
		for i, p := range f.Prompts[:4] {
			c, err := e.Generate(t.Context(), generation.Request{Tokens: p.IDs, MaxTokens: len(p.Tokens), IgnoreEOS: true})
			require.NoError(t, err)
			for k, token := range p.Tokens {
				if p.TopLogits[k][0]-p.TopLogits[k][1] <= modeltest.MinGap {
					break
				}
				require.Equal(t, token, c.Choices[0].Tokens[k], "prompt %d, token %d", i, k)
				compared++
			}
		}
		require.Greater(t, compared, 20)
	})
}

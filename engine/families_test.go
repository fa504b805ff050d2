package engine_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/cpu"
	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/model/modeltest"
)

// TestFamilies answers the prompts of each family's reference in one batch, with drafts, and with
// small pages. Each answer must be that of the reference, up to the first token whose two highest
// logits are too close to decide.
func TestFamilies(t *testing.T) {
	t.Parallel()
	modeltest.Families(t, func(t *testing.T, f *modeltest.Family) {
		be, err := cpu.New(2)
		require.NoError(t, err)
		opts := engine.Options{Context: max(f.Longest(), 96), PageSize: 8, StepTokens: 24, MaxSequences: 6, Draft: engine.DraftNGram}
		if f.MTP != nil {
			opts.Draft = engine.DraftMTP
		}
		e, err := engine.Open(f.Files[0], be, opts)
		require.NoError(t, err)
		defer func() { require.NoError(t, e.Close()) }()
		var group sync.WaitGroup
		answers := make([][]int32, len(f.Prompts))
		for i, p := range f.Prompts {
			group.Go(func() {
				c, err := e.Generate(t.Context(), generation.Request{Tokens: p.IDs, MaxTokens: len(p.Tokens), IgnoreEOS: true})
				if err == nil {
					answers[i] = c.Choices[0].Tokens
				}
			})
		}
		group.Wait()
		compared := 0
		for i, p := range f.Prompts {
			require.Len(t, answers[i], len(p.Tokens))
			for k, token := range p.Tokens {
				if p.TopLogits[k][0]-p.TopLogits[k][1] <= modeltest.MinGap {
					break
				}
				require.Equal(t, token, answers[i][k], "prompt %d, token %d", i, k)
				compared++
			}
		}
		require.Greater(t, compared, 50)
	})
}

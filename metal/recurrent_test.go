package metal_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/model"
	"github.com/ingot-run/ingot/engine/model/modeltest"
	"github.com/ingot-run/ingot/metal"
)

// TestRecurrentFamilies answers prompts with a model of recurrent layers: one at a time, with
// several steps in flight; together, with prompts cut at the ends of chunks; and with drafts, some
// of which are rejected. The tokens must be the same. The plan of the model's memory must be exact.
func TestRecurrentFamilies(t *testing.T) {
	t.Parallel()
	recurrentFamilies(t, emulated)
}

func recurrentFamilies(t *testing.T, start starter) {
	t.Helper()
	modeltest.Families(t, func(t *testing.T, f *modeltest.Family) {
		if f.Name != "qwen35" {
			t.Skip("only one family with recurrent layers answers with all settings")
		}
		var prompts [][]int32
		for _, p := range f.Prompts {
			if n := len(p.IDs); n > 60 && n < 140 && len(prompts) < 3 {
				prompts = append(prompts, p.IDs)
			}
		}
		require.Len(t, prompts, 3)
		planIsExact(t, start(t, metal.Options{}), f.Files[0], model.Limits{States: 3})
		planIsExact(t, start(t, metal.Options{}), f.Files[0], model.Limits{States: 2, Drafts: 3})
		var want [][]int32
		for _, c := range []struct {
			name   string
			opts   engine.Options
			atOnce int
		}{
			{"alone", engine.Options{Draft: engine.DraftOff, NoSharing: true}, 1},
			{"together", engine.Options{Draft: engine.DraftOff, StepTokens: 70, MaxSequences: 3, PageSize: 8}, 3},
			{"MTP", engine.Options{Draft: engine.DraftMTP, DraftTokens: 2, StepTokens: 200, MaxSequences: 3}, 3},
			{"n-grams", engine.Options{Draft: engine.DraftNGram, DraftTokens: 3, StepTokens: 200, MaxSequences: 2}, 3},
		} {
			got, stats := answerAll(t, start, f.Files[0], c.opts, prompts, c.atOnce)
			if want == nil {
				want = got
			}
			require.Equal(t, want, got, c.name)
			if c.opts.Draft != engine.DraftOff {
				require.Greater(t, stats.DraftTokens, stats.AcceptedTokens, c.name)
			}
		}
	})
}

// answerAll answers prompts, some at once. It returns the tokens and the sum of drafts.
func answerAll(t *testing.T, start starter, path string, opts engine.Options, prompts [][]int32, atOnce int) (tokens [][]int32, stats generation.Stats) {
	t.Helper()
	opts.Context = 200
	eng, err := engine.Open(path, start(t, metal.Options{}), opts)
	require.NoError(t, err)
	defer func() { require.NoError(t, eng.Close()) }()
	answers := make([]generation.Completion, len(prompts))
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(atOnce)
	for i, p := range prompts {
		group.Go(func() (err error) {
			answers[i], err = eng.Generate(ctx, generation.Request{Tokens: p, MaxTokens: 14, IgnoreEOS: true})
			return err
		})
	}
	require.NoError(t, group.Wait())
	for i := range answers {
		tokens = append(tokens, answers[i].Choices[0].Tokens)
		stats.DraftTokens += answers[i].Stats.DraftTokens
		stats.AcceptedTokens += answers[i].Stats.AcceptedTokens
	}
	return tokens, stats
}

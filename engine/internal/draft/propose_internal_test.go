package draft

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/internal/cache"
	"github.com/ingot-run/ingot/engine/internal/cost"
	"github.com/ingot-run/ingot/engine/model"
)

// A step has at most MaxOutputs drafts and as many rows and pages as there is room for, however
// much its sequences could draft.
func TestDraftsFitIntoAStep(t *testing.T) {
	t.Parallel()
	const size = 4
	repeated := []int32{1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3}
	for name, c := range map[string]struct {
		seqs, rows, others, pages int
		limit                     int // maximum length of a sequence; 0 for no limit
		drafts                    int // of all sequences
		first                     int // of the first one
	}{
		"one sequence":                  {seqs: 1, rows: 512, pages: 100, drafts: MaxTokens, first: MaxTokens},
		"as many drafts as outputs":     {seqs: MaxOutputs / MaxTokens, rows: 512, pages: 1000, drafts: MaxOutputs, first: MaxTokens},
		"more than outputs":             {seqs: MaxOutputs/MaxTokens + 3, rows: 512, pages: 1000, drafts: MaxOutputs, first: MaxTokens},
		"as many as rows":               {seqs: 2, rows: 12, others: 3, pages: 100, drafts: 12 - 2 - 3, first: min(MaxTokens, 7)},
		"no room for drafts":            {seqs: 2, rows: 5, others: 3, pages: 100},
		"more rows than there are":      {seqs: 2, rows: 4, others: 3, pages: 100},
		"as many as pages":              {seqs: 1, rows: 512, pages: 6, drafts: 3, first: 3}, // 21 of 24 positions are taken
		"no pages":                      {seqs: 4, rows: 512, pages: 24, drafts: 12, first: 3},
		"close to the end of an answer": {seqs: 1, rows: 512, pages: 100, limit: 24, drafts: 2, first: 2},
		"at the end of an answer":       {seqs: 1, rows: 512, pages: 100, limit: 22},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			steps := cost.NewSteps(cost.NewCurve([]int{1}, []float64{1}), 0, 0, 0)
			sp, err := New(Options{NGram: true, Fixed: MaxTokens, Steps: steps, Limits: model.Limits{Rows: c.rows}})
			require.NoError(t, err)
			pool := cache.NewPool(c.pages, size, cache.Groups{})
			var seqs []*Sequence
			for range c.seqs {
				s := &Sequence{Tokens: repeated, Limit: 1000, Table: pool.NewTable()}
				if c.limit > 0 {
					s.Limit = c.limit
				}
				require.True(t, s.Table.Grow(len(repeated)))
				seqs = append(seqs, s)
			}
			require.NoError(t, sp.Draft(nil, Next{Running: c.seqs, Decode: seqs, Others: c.others}))
			total := 0
			for _, s := range seqs {
				total += len(s.Drafts)
				for i, token := range s.Drafts {
					require.Equal(t, repeated[3+i], token, "what followed 1 2 3 before")
				}
				require.GreaterOrEqual(t, s.Table.Positions(), s.Length()+len(s.Drafts))
			}
			require.Equal(t, c.drafts, total)
			require.Len(t, seqs[0].Drafts, c.first)
		})
	}
}

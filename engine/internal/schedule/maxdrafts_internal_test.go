package schedule

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/internal/draft"
	"github.com/ingot-run/ingot/engine/model"
)

// However many tokens the sequences could draft, a step has at most draft.MaxDrafts drafts: the
// output head has room for no more.
func TestDraftsOfAStepAreLimited(t *testing.T) {
	t.Parallel()
	const sequences, each = 24, 8
	for name, speculate := range map[string]func(be compute.Backend, o *draft.Options){
		"n-grams":   func(_ compute.Backend, o *draft.Options) { o.NGram = true },
		"MTP layer": func(_ compute.Backend, o *draft.Options) { o.MTP = o.Model.(model.Drafter) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newManual(t, setup{
				path: microGLM, limits: model.Limits{Context: 64}, options: Options{MaxSequences: sequences},
				speculate: func(be compute.Backend, o *draft.Options) {
					o.Fixed = each
					speculate(be, o)
				},
			})
			ask := func(i int32) generation.Request {
				return generation.Request{
					Tokens: []int32{i, 11, 22, 33, i, 11, 22, 33, i, 11, 22}, MaxTokens: 30, IgnoreEOS: true,
					Sampling: generation.Sampling{LogitBias: map[int32]float64{33: 100}}, // the answers repeat a token
				}
			}
			most := 0
			var requests []*request
			for i := range int32(sequences) {
				requests = append(requests, m.begin(ask(100+i)))
			}
			for m.step(); len(m.loop.planner.running) > 0; m.step() {
				drafts := 0
				for _, s := range m.loop.planner.running {
					drafts += len(s.draft.Drafts)
				}
				most = max(most, drafts)
				require.LessOrEqual(t, drafts, draft.MaxDrafts(sequences))
			}
			require.Equal(t, draft.MaxDrafts(sequences), most)
			for _, r := range requests {
				require.NoError(t, r.err)
				require.Len(t, r.seqs[0].answer(), 30)
			}
		})
	}
}

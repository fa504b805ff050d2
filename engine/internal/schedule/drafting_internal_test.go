package schedule

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/internal/draft"
)

// Drafts are counted in the request and in the snapshot, and do not change the answer.
func TestDraftsAreCounted(t *testing.T) {
	t.Parallel()
	req := generation.Request{Tokens: []int32{1, 2, 3, 1, 2, 3}, N: 2, MaxTokens: 30, IgnoreEOS: true}
	plain := newManual(t, setup{path: microGLM})
	want := plain.begin(req)
	plain.finish(want)
	require.Zero(t, want.stats().DraftTokens)
	m := newManual(t, setup{path: microGLM, speculate: func(be compute.Backend, o *draft.Options) { o.NGram, o.Fixed = true, 2; byMTP(be, o) }})
	got := m.begin(req)
	m.finish(got)
	for i := range got.seqs {
		require.Equal(t, want.seqs[i].answer(), got.seqs[i].answer())
	}
	st, now := got.stats(), m.Snapshot()
	require.Positive(t, st.AcceptedTokens)
	require.Greater(t, st.DraftTokens, st.AcceptedTokens)
	require.Equal(t, []uint64{now.DraftTokens, now.AcceptedTokens}, []uint64{uint64(st.DraftTokens), uint64(st.AcceptedTokens)})
	require.EqualValues(t, 60, now.GeneratedTokens)
	require.GreaterOrEqual(t, now.PromptTokens, uint64(6))
	require.Less(t, now.Steps, uint64(31))
}

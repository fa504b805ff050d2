package draft

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGateLearnsWhatConfidenceIsWorth(t *testing.T) {
	t.Parallel()
	g := newGate()
	require.Less(t, g.Chance(0.3), g.Chance(0.8))
	require.Less(t, g.Chance(0.8), g.Chance(1), "at first, chances follow the confidence")
	for i := range 400 {
		g.Observe(0.8, i%4 == 0)
		g.Observe(0.999, true)
	}
	require.InDelta(t, 0.25, g.Chance(0.76), 0.15, "drafts of this confidence were mostly wrong")
	require.InDelta(t, 1, g.Chance(0.9995), 0.01)
	require.Greater(t, g.Chance(0.9), g.Chance(0.8), "other classes do not change")
}

func TestGateWeighsADraftAgainstItsCost(t *testing.T) {
	t.Parallel()
	g := newGate()
	g.Token, g.Row = 1, 0.3
	require.True(t, g.worthRow(0.31))
	require.False(t, g.worthRow(0.29))
	require.True(t, g.worthPass(0.61, 0.3), "a further draft costs a pass too")
	require.False(t, g.worthPass(0.59, 0.3))
}

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

// Class c begins at a confidence of 1-1/2^c, and its share at first is that of its middle.
func TestClassesOfConfidence(t *testing.T) {
	t.Parallel()
	for confidence, want := range map[float64]int{
		0: 0, 0.49: 0, 0.5: 1, 0.74: 1, 0.75: 2, 0.874: 2, 0.875: 3, 1 - 1.0/256: 8, 1 - 1.0/512: 9, 1 - 1.0/1024: 9, 1: 9,
	} {
		require.Equal(t, want, class(confidence), "%g", confidence)
	}
	g := newGate()
	for confidence, want := range map[float64]float64{0: 0.25, 0.5: 0.625, 0.75: 0.8125, 0.875: 0.90625, 1: 1 - 0.75/512} {
		require.InDelta(t, want, g.Chance(confidence), 1e-12, "%g", confidence)
	}
	g.Observe(0.6, true)
	require.InDelta(t, 0.625+0.05*0.375, g.Chance(0.5), 1e-12)
	g.Observe(0.6, false)
	require.InDelta(t, 0.95*0.64375, g.Chance(0.7), 1e-12)
	require.InDelta(t, 0.25, g.Chance(0.4), 1e-12)
}

// A draft that yields exactly what it costs is made.
func TestADraftThatIsJustWorthItsCost(t *testing.T) {
	t.Parallel()
	g := gate{Token: 2, Row: 0.5}
	require.True(t, g.worthRow(0.25))
	require.False(t, g.worthRow(0.24))
	require.True(t, g.worthPass(0.75, 1))
	require.False(t, g.worthPass(0.74, 1))
}

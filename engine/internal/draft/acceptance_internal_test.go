package draft

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The averages over all sequences, and the record of one, move by the weights that the constants
// give.
func TestAveragesOfDrafts(t *testing.T) {
	t.Parallel()
	a := newAcceptance(0.5)
	a.Observe(3, 1) // right, wrong, not verified
	require.InDeltaSlice(t, []float64{0.525, 0.475, 0.5}, a.share[:3], 1e-12)
	a.Observe(2, 2)
	require.InDeltaSlice(t, []float64{0.54875, 0.50125, 0.5}, a.share[:3], 1e-12)
	a.Observe(0, 0)
	require.InDeltaSlice(t, []float64{0.54875, 0.50125, 0.5}, a.share[:3], 1e-12)
	a.rest()
	require.InDeltaSlice(t, []float64{0.54870125, 0.50124875, 0.5}, a.share[:3], 1e-12)

	var r record
	r.Observe(3, 1)
	require.InDeltaSlice(t, []float64{2, 1}, []float64{r.tried, r.right}, 1e-12)
	r.Observe(2, 2)
	require.InDeltaSlice(t, []float64{3.8, 2.9}, []float64{r.tried, r.right}, 1e-12)
	r.Observe(4, 0)
	require.InDeltaSlice(t, []float64{4.42, 2.61}, []float64{r.tried, r.right}, 1e-12)
	chances := a.chances(&r)
	require.InDelta(t, (4*0.54870125+2.61)/(4+4.42), chances[0], 1e-12)
	require.InDelta(t, (4*0.5+2.61)/(4+4.42), chances[MaxTokens-1], 1e-12)
}

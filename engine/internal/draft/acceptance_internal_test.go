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
	require.InDeltaSlice(t, []float64{0.5, 0.5, 0.5}, a.share[:3], 0, "the step has not ended")
	a.settle()
	require.InDeltaSlice(t, []float64{0.525, 0.475, 0.5}, a.share[:3], 1e-12)
	a.Observe(2, 2)
	a.settle()
	require.InDeltaSlice(t, []float64{0.54875, 0.50125, 0.5}, a.share[:3], 1e-12)
	a.Observe(0, 0)
	a.settle()
	require.InDeltaSlice(t, []float64{0.54875, 0.50125, 0.5}, a.share[:3], 1e-12)
	a.rest()
	require.InDeltaSlice(t, []float64{0.54870125, 0.50124875, 0.5}, a.share[:3], 1e-12)

	few, many := newAcceptance(0.5), newAcceptance(0.5)
	for range 3 {
		few.Observe(1, 1)
	}
	few.settle()
	require.InDelta(t, 1-0.5*0.95*0.95*0.95, few.share[0], 1e-12)
	for i := range 200 {
		many.Observe(1, i%4/3)
	}
	many.settle()
	require.InDelta(t, 0.5-0.25*0.25, many.share[0], 1e-12, "however many drafts a step has")

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

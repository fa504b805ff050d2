package cost

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCurve(t *testing.T) {
	t.Parallel()
	c := NewCurve([]int{1, 4, 8}, []float64{2, 1, 6})
	for rows, want := range map[int]float64{0: 0, 1: 2, 2: 2, 4: 2, 6: 4, 8: 6, 16: 12} {
		require.InDelta(t, want, c.Seconds(rows), 1e-12, "%d rows", rows)
	}
	for range 400 {
		c.Observe(4, 3)
	}
	require.InDelta(t, 3, c.Seconds(4), 0.01)
	c.Observe(4, 1e9)
	require.Less(t, c.Seconds(4), 4.0)

	// Slow passes of one size raise the estimates of other sizes too, but less: either the machine
	// is busy, or the estimate for this size was wrong.
	c = NewCurve([]int{1, 4, 8}, []float64{1, 2, 4})
	for range 60 {
		c.Observe(1, 2)
	}
	require.InDelta(t, 2, c.Seconds(1), 0.1)
	require.InDelta(t, 6, c.Seconds(8), 0.5)

	// A pass whose size is between two points corrects both points. Repeated passes do not push the
	// points apart.
	c = NewCurve([]int{8, 12}, []float64{8, 12})
	for range 400 {
		c.Observe(9, 18)
	}
	require.InDelta(t, 18, c.Seconds(9), 0.1)
	require.Less(t, c.Seconds(12), 25.0)

	var nothing Curve
	nothing.Observe(3, 1)
	require.Zero(t, nothing.Seconds(3))
	require.False(t, math.IsNaN(nothing.Seconds(0)))
}

// The points around a number of rows: the same one at a point and beyond the ends.
func TestPointsAround(t *testing.T) {
	t.Parallel()
	c := NewCurve([]int{2, 4, 8}, []float64{1, 2, 3})
	for rows, want := range map[int][3]float64{1: {0, 0, 0}, 2: {0, 0, 0}, 3: {0, 1, 0.5}, 4: {1, 1, 0}, 5: {1, 2, 0.25}, 8: {2, 2, 0}, 9: {2, 2, 0}} {
		low, high, share := c.between(rows)
		require.Equal(t, want, [3]float64{float64(low), float64(high), share}, "%d rows", rows)
	}
	before := c.seconds[0] * c.drift[0]
	c.Observe(0, 100)
	require.InDelta(t, before, c.at(0), 0, "a pass without rows corrects nothing")
	c.Observe(1, 100)
	require.Greater(t, c.at(0), before, "a pass of one row does")
	var none Curve
	none.Observe(1, 1)
	require.Zero(t, none.Seconds(1))
}

package console

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestChart(t *testing.T) {
	t.Parallel()
	c := NewChart([]float64{0, 130, 65}, time.Minute)
	require.InDelta(t, 65, c.Now, 0)
	require.InDelta(t, 130, c.Highest, 0)
	require.Len(t, c.Bars, 3)
	require.InDelta(t, c.Bars[1].Height, 2*c.Bars[2].Height, 1e-9)
	require.InDelta(t, 200, c.Lines[2].Value, 0, "the axis ends above the highest bar")
	require.Equal(t, "1 min ago: 130 tokens/s", c.Bars[1].Text)
	for _, b := range c.Bars {
		require.InDelta(t, chartHeight-chartBottom, b.Y+b.Height, 1e-9, "bars stand on the axis")
		require.GreaterOrEqual(t, b.Y, float64(chartTop))
	}
}

func TestRoundUp(t *testing.T) {
	t.Parallel()
	for v, wanted := range map[float64]float64{0: 1, 0.3: 0.5, 1: 1, 1.1: 2, 4: 5, 7: 10, 130: 200, 501: 1000} {
		require.InDelta(t, wanted, roundUp(v), 1e-9, v)
	}
}

func TestLeftText(t *testing.T) {
	t.Parallel()
	for left, wanted := range map[time.Duration]string{
		0: "", 1: "1 s left", 12 * time.Second: "13 s left", 61 * time.Second: "1 min left", 185 * time.Minute: "3 h 5 min left",
	} {
		require.Equal(t, wanted, leftText(left))
	}
}

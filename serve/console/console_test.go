package console

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestThroughput(t *testing.T) {
	t.Parallel()
	speeds := NewThroughput([]float64{0, 130, 65}, time.Minute)
	require.InDelta(t, 65, speeds.Now, 0)
	require.InDelta(t, 130, speeds.Highest, 0)
	c := speeds.chart()
	require.Len(t, c.Bars, 3)
	require.InDelta(t, c.Bars[1].Value, 2*c.Bars[2].Value, 1e-9)
	require.InDelta(t, 200, c.Y.Ticks[2].At, 0, "the axis ends above the highest bar")
	require.Equal(t, "1 min ago: 130 tokens/s", c.Bars[1].Title)
	for _, b := range c.Bars {
		require.InDelta(t, c.Bottom(), c.AtY(0), 1e-9, "bars stand on the axis")
		require.LessOrEqual(t, b.Value, c.Y.High)
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

package console

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestHistory: a bar is the mean of a minute, and samples older than an hour are dropped.
func TestHistory(t *testing.T) {
	t.Parallel()
	var h history
	require.Equal(t, make([]float64, 60), h.bars())
	for range historyPerBar {
		h.add(10)
	}
	for i := range historyPerBar {
		h.add(float64(i))
	}
	bars := h.bars()
	require.InDelta(t, 10, bars[58], 1e-9)
	require.InDelta(t, 5.5, bars[59], 1e-9)
	for range len(h.samples) {
		h.add(7)
	}
	for _, v := range h.bars() {
		require.InDelta(t, 7, v, 1e-9)
	}
}

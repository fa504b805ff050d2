package schedule

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStopRates(t *testing.T) {
	t.Parallel()
	var s stopRate
	require.Equal(t, []int{128, 9}, []int{s.length(), s.maxInFlight()})
	s = stopRate{tokens: 1000, stopped: 9}
	require.Equal(t, []int{112, 8}, []int{s.length(), s.maxInFlight()})
	s.add(true)
	s.add(false)
	require.Equal(t, stopRate{1002, 10}, s)
	s = stopRate{tokens: stopMemory - 2, stopped: 9}
	s.add(true)
	require.Equal(t, stopRate{stopMemory - 1, 10}, s)
	s.add(false)
	require.Equal(t, stopRate{stopMemory / 2, 5}, s, "older answers count half")
}

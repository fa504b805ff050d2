package enqueue

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLineRanges(t *testing.T) {
	t.Parallel()
	require.Equal(t, "line 7", lineRanges([]int{7}))
	require.Equal(t, "lines 1-3, 5, 9-10", lineRanges([]int{3, 1, 2, 10, 5, 9}))
	var odd []int
	for i := range 25 {
		odd = append(odd, 2*i+1)
	}
	require.True(t, strings.HasSuffix(lineRanges(odd), "37, 39, and 5 more"), lineRanges(odd))
}

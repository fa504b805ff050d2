package metal

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAgree(t *testing.T) {
	t.Parallel()
	values := []float32{3, -40, 0.5}
	other := func(i int, v float32) []float32 {
		changed := []float32{3, -40, 0.5}
		changed[i] = v
		return changed
	}
	for _, mode := range []Mode{Release, Debug, FastMath} {
		require.True(t, agree(values, other(0, 3), mode))
		require.Equal(t, mode == FastMath, agree(values, other(0, 3.00001), mode), "a rounding difference")
		require.False(t, agree(values, other(2, 0.6), mode), "another value")
		require.False(t, agree(values, other(1, 40), mode), "another sign")
		require.False(t, agree(values, other(0, float32(math.NaN())), mode))
	}
}

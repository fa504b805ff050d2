package computetest

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRandomTensor checks that random blocks have the requested standard deviation, up to a
// constant factor.
func TestRandomTensor(t *testing.T) {
	r := newRig(t, nil, "tensors")
	for _, kind := range r.types {
		t.Run(kind.String(), func(t *testing.T) {
			tensor := RandomTensor(r.rand, "weight", kind, 0.5, 512, 64)
			values := tensor.Values()
			squares := 0.0
			for _, v := range values {
				squares += float64(v) * float64(v)
			}
			deviation := math.Sqrt(squares / float64(len(values)))
			require.Greater(t, deviation, 0.25)
			require.Less(t, deviation, 1.0)
		})
	}
}

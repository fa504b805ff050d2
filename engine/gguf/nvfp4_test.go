package gguf

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// ScaleNVFP4 multiplies each matrix by its scale.
func TestScaleNVFP4(t *testing.T) {
	t.Parallel()
	const matrices, rows, n = 3, 2, 128
	x := Tensor{Name: "w", Type: TypeNVFP4, Shape: []int{n, rows, matrices}, Data: randomBlocks(rand.New(rand.NewPCG(1, 1)), TypeNVFP4, matrices*rows*n/64)}
	for _, scales := range [][]float32{{0.25, -3, 0.0078125}, {1.5}} {
		got, want := ScaleNVFP4(x, scales), x.Values()
		require.Equal(t, x.Shape, got.Shape)
		for i := range want {
			want[i] *= scales[i*len(scales)/len(want)]
		}
		require.Equal(t, want, got.Values())
	}
}

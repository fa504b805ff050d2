package kernels

import (
	"fmt"
	"testing"
	"unsafe"
)

// BenchmarkAttention times the three parts of attention over one page of 16 positions. The shapes
// are keys of 256 values with two queries, keys of 64 values with the queries of one row, the same
// with the queries of many rows, and MLA's latents of 576 values.
func BenchmarkAttention(b *testing.B) {
	for _, s := range Sets() {
		for _, shape := range []struct{ queries, dims, valueDims int }{{2, 256, 256}, {3, 64, 64}, {32, 64, 64}, {20, 576, 512}} {
			const positions = 16
			q, k := make([]float32, shape.queries*shape.dims), make([]float32, positions*shape.dims)
			out, weights := make([]float32, shape.queries*shape.dims), make([]float32, shape.queries*positions)
			at := make([]int64, shape.queries)
			for i := range at {
				at[i] = int64(i * shape.dims)
			}
			name := fmt.Sprintf("%s/%dx%d", s.Name, shape.queries, shape.dims)
			rate := func(b *testing.B, dims int) {
				b.ReportMetric(float64(shape.queries*positions*dims)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GMAC/s")
			}
			b.Run(name+"/scores", func(b *testing.B) {
				a := &ScoresArgs{Q: &q[0], At: &at[0], K: unsafe.Pointer(&k[0]), Out: &weights[0], Queries: int64(shape.queries), Positions: positions,
					Stride: int64(shape.dims), OutStride: positions, Dims: int64(shape.dims), Scale: 1}
				for b.Loop() {
					s.Scores(a)
				}
				rate(b, shape.dims)
			})
			b.Run(name+"/softmax", func(b *testing.B) {
				a := &SoftmaxArgs{X: &weights[0], N: int64(len(weights))}
				for b.Loop() {
					s.Softmax(a)
				}
			})
			b.Run(name+"/values", func(b *testing.B) {
				a := &ValuesArgs{Weights: &weights[0], V: unsafe.Pointer(&k[0]), Out: &out[0], At: &at[0], Queries: int64(shape.queries), Positions: positions,
					Stride: int64(shape.dims), WeightsStride: positions, Dims: int64(shape.valueDims)}
				for b.Loop() {
					s.Values(a)
				}
				rate(b, shape.valueDims)
			})
		}
	}
}

package kernels

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ingot-run/ingot/engine/gguf"
)

// BenchmarkProduct times products on one thread. Some weights are larger than any cache. With them,
// memory limits the speed of one row. Arithmetic limits the speed of 16 rows, if the weights are
// prefetched early enough.
func BenchmarkProduct(b *testing.B) {
	for _, p := range allProducts() {
		for _, kind := range gguf.Types() {
			for _, shape := range []struct{ rows, weights int }{{1, 65536}, {16, 65536}, {1, 64}, {4, 64}, {16, 64}} {
				b.Run(fmt.Sprintf("%s/%v/%v/rows=%d/weights=%d", p.level, p.precision, kind, shape.rows, shape.weights), func(b *testing.B) {
					const n = 2048
					r := rand.New(rand.NewPCG(1, 1))
					one := pack(b, kind, randomWeights(b, r, kind, 64, n), 64, n)
					packed := slices.Repeat(one, shape.weights/64)
					x := randomActivations(r, p, shape.rows, n)
					order := make([]int, shape.rows)
					for i := range order {
						order[i] = i
					}
					out := make([]float32, shape.rows*shape.weights)
					b.SetBytes(int64(len(packed)))
					for b.Loop() {
						x.multiply(kind, packed, order, nil, out)
					}
					macs := float64(shape.rows) * float64(shape.weights) * n * float64(b.N)
					b.ReportMetric(macs/b.Elapsed().Seconds()/1e9, "GMAC/s")
				})
			}
		}
	}
}

package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

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

// BenchmarkTileProduct times products of tiles and other products on one thread, in turns, and
// reports the fastest of each in billions of products per second. The weights fit into the
// second-level cache.
func BenchmarkTileProduct(b *testing.B) {
	for _, p := range tiledProducts(b) {
		for _, kind := range gguf.Types() {
			for _, rows := range []int{2, 4, 6, 8, 12, 16, 17, 32, 64, 512} {
				const n, weights = 2048, 128
				if p.TileProduct(kind) == nil {
					continue
				}
				b.Run(fmt.Sprintf("%v/%v/rows=%d", p.precision, kind, rows), func(b *testing.B) {
					r := rand.New(rand.NewPCG(1, 1))
					packed := pack(b, kind, randomWeights(b, r, kind, weights, n), weights, n)
					x := randomActivations(r, p, rows, n)
					order := make([]int, rows)
					for i := range order {
						order[i] = i
					}
					z, out := x.tiled(order), make([]float32, rows*weights)
					fastest := [2]time.Duration{math.MaxInt64, math.MaxInt64}
					for b.Loop() {
						for i, multiply := range []func(){
							func() { z.multiply(kind, packed, nil, out) },
							func() { x.multiply(kind, packed, order, nil, out) },
						} {
							start := time.Now()
							multiply()
							fastest[i] = min(fastest[i], time.Since(start))
						}
					}
					for i, name := range []string{"tiles", "other"} {
						b.ReportMetric(float64(rows*n*weights)/fastest[i].Seconds()/1e9, name+"-GMAC/s")
					}
					b.ReportMetric(float64(fastest[1])/float64(fastest[0]), "ratio")
				})
			}
		}
	}
}

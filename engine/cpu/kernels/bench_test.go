package kernels

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/ingot-run/ingot/engine/gguf"
)

// BenchmarkProduct times products on one thread. The time of one row over weights larger than any cache is limited by memory; the
// time of 16 rows over weights that fit into a cache is limited by arithmetic.
func BenchmarkProduct(b *testing.B) {
	for _, s := range Sets() {
		for _, kind := range gguf.Types() {
			for _, shape := range []struct{ rows, weights int }{{1, 65536}, {1, 64}, {4, 64}, {16, 64}} {
				b.Run(fmt.Sprintf("%s/%v/rows=%d/weights=%d", s.Name, kind, shape.rows, shape.weights), func(b *testing.B) {
					const n = 2048
					r := rand.New(rand.NewPCG(1, 1))
					one := pack(b, kind, randomWeights(b, r, kind, 64, n), 64, n)
					packed := slices.Repeat(one, shape.weights/64)
					x := randomActivations(r, s, shape.rows, n)
					order := make([]int, shape.rows)
					for i := range order {
						order[i] = i
					}
					out := make([]float32, shape.rows*shape.weights)
					b.SetBytes(int64(len(packed)))
					for b.Loop() {
						x.multiply(s, kind, packed, order, nil, out)
					}
					macs := float64(shape.rows) * float64(shape.weights) * n * float64(b.N)
					b.ReportMetric(macs/b.Elapsed().Seconds()/1e9, "GMAC/s")
				})
			}
		}
	}
}

// BenchmarkProductRows times products with 1 to 33 rows over weights in the cache, in turn, and reports the fastest of each in
// microseconds. More rows must not take less time: a step is given any number of them.
func BenchmarkProductRows(b *testing.B) {
	const n, weights, maxRows = 512, 512, 33
	for _, s := range Sets() {
		for _, kind := range []gguf.Type{gguf.TypeQ80, gguf.TypeQ40, gguf.TypeQ4K, gguf.TypeF16, gguf.TypeF32} {
			b.Run(fmt.Sprintf("%s/%v", s.Name, kind), func(b *testing.B) {
				r := rand.New(rand.NewPCG(1, 1))
				packed := pack(b, kind, randomWeights(b, r, kind, weights, n), weights, n)
				x, order, out := randomActivations(r, s, maxRows, n), make([]int, maxRows), make([]float32, maxRows*weights)
				for i := range order {
					order[i] = i
				}
				fastest := make([]time.Duration, maxRows+1)
				for b.Loop() {
					for rows := 1; rows <= maxRows; rows++ {
						start := time.Now()
						x.multiply(s, kind, packed, order[:rows], nil, out)
						if took := time.Since(start); fastest[rows] == 0 || took < fastest[rows] {
							fastest[rows] = took
						}
					}
				}
				for rows := 1; rows <= maxRows; rows++ {
					b.ReportMetric(float64(fastest[rows].Nanoseconds())/1e3, fmt.Sprintf("µs/%02d", rows))
				}
			})
		}
	}
}

package kernels

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ingot-run/ingot/engine/gguf"
)

// rowTimes has the shortest times of products with 1, 2, … rows and weights that fit into the
// cache.
type rowTimes struct {
	kind    gguf.Type
	packed  []byte
	x       *activations
	order   []int
	out     []float32
	fastest []time.Duration // by the number of rows; element 0 is not used
}

func newRowTimes(t testing.TB, level operation, kind gguf.Type) *rowTimes {
	const n, weights, maxRows = 512, 512, 33
	r := rand.New(rand.NewPCG(1, 1))
	p := &rowTimes{
		kind: kind, packed: pack(t, kind, randomWeights(t, r, kind, weights, n), weights, n),
		x: randomActivations(r, level, maxRows, n), order: make([]int, maxRows), out: make([]float32, maxRows*weights),
		fastest: make([]time.Duration, maxRows+1),
	}
	for i := range p.order {
		p.order[i] = i
	}
	return p
}

// measure times a product of each number of rows, in turn.
func (p *rowTimes) measure() {
	for rows := 1; rows < len(p.fastest); rows++ {
		start := time.Now()
		p.x.multiply(p.kind, p.packed, p.order[:rows], nil, p.out)
		if took := time.Since(start); p.fastest[rows] == 0 || took < p.fastest[rows] {
			p.fastest[rows] = took
		}
	}
}

// inversions returns for how many n a product of n rows takes more than 1.05 times as long as one
// of n+1 rows. A product with fewer rows should never be slower.
func (p *rowTimes) inversions() (count int) {
	for rows := 1; rows < len(p.fastest)-1; rows++ {
		if float64(p.fastest[rows]) > 1.05*float64(p.fastest[rows+1]) {
			count++
		}
	}
	return count
}

// BenchmarkProductRows times products with 1 to 33 rows, and reports the fastest of each in
// microseconds. The inversions that it reports should be 0 on a quiet machine.
func BenchmarkProductRows(b *testing.B) {
	for _, level := range allProducts() {
		for _, kind := range []gguf.Type{gguf.TypeQ80, gguf.TypeQ40, gguf.TypeQ4K, gguf.TypeF16, gguf.TypeF32} {
			b.Run(fmt.Sprintf("%s/%v/%v", level.level, level.precision, kind), func(b *testing.B) {
				p := newRowTimes(b, level, kind)
				for b.Loop() {
					p.measure()
				}
				for rows, took := range p.fastest[1:] {
					b.ReportMetric(float64(took.Nanoseconds())/1e3, fmt.Sprintf("µs/%02d", rows+1))
				}
				b.ReportMetric(float64(p.inversions()), "inversions")
			})
		}
	}
}

package eval

import (
	"math"
	"runtime"
	"sync"

	"github.com/ingot-run/ingot/internal/pyrandom"
)

// Numbers of samples of the harness's bootstrap.
const (
	bootstraps       = 100_000
	corpusBootstraps = 100 // for metrics that are slow to compute
	bootstrapChunk   = 1000
)

// bootstrapError returns the standard error of a statistic of n rows by the harness's bootstrap. It
// draws samples of n rows with replacement. Samples 1000·i to 1000·i+999 are drawn by Python's
// generator with seed i. statistic gets the indices of the rows of a sample; several goroutines
// call it.
func bootstrapError(n, samples int, statistic func(rows []int) float64) float64 {
	chunk := min(bootstrapChunk, samples)
	values := make([]float64, samples/chunk*chunk)
	next := make(chan int)
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			rows := make([]int, n)
			for i := range next {
				random := pyrandom.New(uint64(i)) //nolint:gosec // the number of a chunk
				for s := range chunk {
					for k := range rows {
						rows[k] = random.Choice(n)
					}
					values[i*chunk+s] = statistic(rows)
				}
			}
		})
	}
	for i := range samples / chunk {
		next <- i
	}
	close(next)
	wg.Wait()
	return deviation(values)
}

// deviation returns the standard deviation of a sample.
func deviation(values []float64) float64 {
	n := float64(len(values))
	mean, squares := 0.0, 0.0
	for _, v := range values {
		mean += v / n
	}
	for _, v := range values {
		squares += (v - mean) * (v - mean)
	}
	return math.Sqrt(squares / (n - 1))
}

package bench

import (
	"bytes"
	"sync"
	"time"
)

const (
	// bandwidthBytes is read by each thread: far beyond the caches.
	bandwidthBytes = 256 << 20
	// bandwidthRuns is how often; the fastest counts.
	bandwidthRuns = 5
)

// Bandwidth measures how many bytes a second so many threads can read from memory together, each from a part of its own.
func Bandwidth(threads int) float64 {
	parts := make([][]byte, threads)
	for i := range parts {
		parts[i] = bytes.Repeat([]byte{1}, bandwidthBytes) // written, so that every page has memory of its own
	}
	found, best := make([]int, threads), 0.0
	for range bandwidthRuns {
		var group sync.WaitGroup
		start := time.Now()
		for i, part := range parts {
			// To look for a byte that is not there reads all of it with vector instructions.
			group.Go(func() { found[i] = bytes.IndexByte(part, 0) })
		}
		group.Wait()
		best = max(best, float64(threads*bandwidthBytes)/time.Since(start).Seconds())
	}
	return best
}

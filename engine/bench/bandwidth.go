package bench

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// bandwidthBytes is read by each thread: far beyond the caches.
	bandwidthBytes = 512 << 20
	// bandwidthRuns is how often; the fastest counts.
	bandwidthRuns = 5
	// lineWords is the 8-byte words of a cache line, of which one is looked at.
	lineWords = 8
)

// Bandwidth measures how many bytes a second so many threads can read from memory together, each from a part of its own.
func Bandwidth(threads int) (rate float64, err error) {
	data, err := unix.Mmap(-1, 0, threads*bandwidthBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return 0, fmt.Errorf("take %d bytes to measure memory's bandwidth: %w", threads*bandwidthBytes, err)
	}
	defer func() { err = errors.Join(err, unix.Munmap(data)) }()
	adviseHuge(data)
	words := unsafe.Slice((*uint64)(unsafe.Pointer(&data[0])), len(data)/8)
	for i := range words {
		words[i] = uint64(i) // so that every page has memory of its own
	}
	parts := slices.Collect(slices.Chunk(words, bandwidthBytes/8))
	sums, best := make([]uint64, threads), 0.0
	for range bandwidthRuns {
		var group sync.WaitGroup
		start := time.Now()
		for i, part := range parts {
			group.Go(func() { sums[i] = touch(part) })
		}
		group.Wait()
		best = max(best, float64(threads*bandwidthBytes)/time.Since(start).Seconds())
	}
	return best, nil
}

// touch brings all cache lines of words in, four runs of them at a time so that the processor fetches ahead in each.
func touch(words []uint64) (sum uint64) {
	n := len(words) / 4
	a, b, c, d := words[:n], words[n:2*n], words[2*n:3*n], words[3*n:4*n]
	for i := 0; i < n; i += lineWords {
		sum += a[i] + b[i] + c[i] + d[i]
	}
	return sum
}

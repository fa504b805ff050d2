package bench

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// Each thread reads threadBytes, but all threads together read at most allBytes. This is far
	// more than the caches hold, and still fits into memory on machines with many processors.
	threadBytes = 512 << 20
	allBytes    = 2 << 30
	// bandwidthRuns is the number of runs. The fastest run is the result.
	bandwidthRuns = 5
	// lineWords is the number of 8-byte words of a cache line. One word of each line is read.
	lineWords = 8
)

// measured has the result of Bandwidth for each number of threads. Its lock also prevents two
// measurements at once, which would each get half of the bandwidth.
var measured = struct {
	sync.Mutex
	rates map[int]float64
}{rates: map[int]float64{}}

// Bandwidth returns the bytes per second that the given number of threads read from memory
// together. A process measures it once, since it is a property of the machine.
func Bandwidth(threads int) (rate float64, err error) {
	measured.Lock()
	defer measured.Unlock()
	if have, ok := measured.rates[threads]; ok {
		return have, nil
	}
	if rate, err = measureBandwidth(threads); err == nil {
		measured.rates[threads] = rate
	}
	return rate, err
}

// measureBandwidth measures what Bandwidth returns. Each thread reads its own part of the memory.
func measureBandwidth(threads int) (rate float64, err error) {
	each := min(threadBytes, allBytes/threads) &^ (os.Getpagesize() - 1)
	data, err := unix.Mmap(-1, 0, threads*each, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return 0, fmt.Errorf("measure the memory bandwidth: allocate %d bytes: %w", threads*each, err)
	}
	defer func() { err = errors.Join(err, unix.Munmap(data)) }()
	adviseHuge(data)
	words := unsafe.Slice((*uint64)(unsafe.Pointer(&data[0])), len(data)/8)
	for i := range words {
		words[i] = uint64(i) // so that the system allocates every page
	}
	parts := slices.Collect(slices.Chunk(words, each/8))
	sums, best := make([]uint64, threads), 0.0
	for range bandwidthRuns {
		var group sync.WaitGroup
		start := time.Now()
		for i, part := range parts {
			group.Go(func() { sums[i] = touch(part) })
		}
		group.Wait()
		best = max(best, float64(threads*each)/time.Since(start).Seconds())
	}
	return best, nil
}

// touch reads a word of every cache line of words. It divides words into four parts and reads them
// alternately, so that the processor prefetches in all of them at once.
func touch(words []uint64) (sum uint64) {
	n := len(words) / 4
	a, b, c, d := words[:n], words[n:2*n], words[2*n:3*n], words[3*n:4*n]
	for i := 0; i < n; i += lineWords {
		sum += a[i] + b[i] + c[i] + d[i]
	}
	return sum
}

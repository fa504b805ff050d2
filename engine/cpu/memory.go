package cpu

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// memory allocates packed weights and KV pages, which exist as long as the backend. The memory
// comes directly from the system, not from Go's heap: with gigabytes of weights in the heap, the
// garbage collector would let about the same amount of garbage accumulate before it runs.
type memory struct {
	chunks [][]byte
	free   []byte // free part of the last chunk
	taken  int64
}

const (
	chunkBytes = 64 << 20
	alignment  = 64
)

// bytes returns n zero bytes, aligned to cache lines. The system allocates a memory page when it is
// first written to.
func (m *memory) bytes(n int) ([]byte, error) {
	size := (n + alignment - 1) &^ (alignment - 1)
	if size > len(m.free) {
		chunk, err := unix.Mmap(-1, 0, max(size, chunkBytes), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
		if err != nil {
			return nil, fmt.Errorf("allocate %d bytes: %w", size, err)
		}
		adviseHuge(chunk)
		m.chunks = append(m.chunks, chunk)
		if size >= chunkBytes {
			m.taken += int64(size)
			return chunk[:n:n], nil
		}
		m.free = chunk
	}
	b := m.free[:n:n]
	m.free = m.free[size:]
	m.taken += int64(size)
	return b, nil
}

func (m *memory) release() error {
	var first error
	for _, c := range m.chunks {
		if err := unix.Munmap(c); err != nil && first == nil {
			first = fmt.Errorf("free the CPU backend's memory: %w", err)
		}
	}
	*m = memory{}
	return first
}

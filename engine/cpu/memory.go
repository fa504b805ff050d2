package cpu

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// memory hands out what lives as long as the backend: packed weights and KV pages. It is taken from the system directly,
// since a garbage collector that counts gigabytes of weights would let as many of garbage gather.
type memory struct {
	chunks [][]byte
	free   []byte // of the last chunk
	taken  int64
}

const (
	chunkBytes = 64 << 20
	alignment  = 64
)

// bytes returns n bytes of zero, aligned to cache lines. The system provides a page once it is written.
func (m *memory) bytes(n int) ([]byte, error) {
	size := (n + alignment - 1) &^ (alignment - 1)
	if size > len(m.free) {
		chunk, err := unix.Mmap(-1, 0, max(size, chunkBytes), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
		if err != nil {
			return nil, fmt.Errorf("take %d bytes of memory: %w", size, err)
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

// release gives everything back.
func (m *memory) release() error {
	var first error
	for _, c := range m.chunks {
		if err := unix.Munmap(c); err != nil && first == nil {
			first = fmt.Errorf("give memory back: %w", err)
		}
	}
	*m = memory{}
	return first
}

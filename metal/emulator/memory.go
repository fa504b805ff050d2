package emulator

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// allocate returns zeroed memory outside of Go's heap, aligned to pages. It does not move, and the
// garbage collector ignores it.
func allocate(bytes int) ([]byte, error) {
	return unix.Mmap(-1, 0, bytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
}

func release(memory []byte) error { return unix.Munmap(memory) }

func address(memory []byte) uintptr { return uintptr(unsafe.Pointer(&memory[0])) }

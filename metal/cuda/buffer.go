package cuda

import (
	"fmt"
	"unsafe"

	"github.com/ingot-run/ingot/metal"
)

// buffer is a buffer of the device. Its address is 0 after it is freed.
type buffer struct {
	address uintptr
	bytes   int
	storage metal.Storage
	written metal.Ticket // the submission that follows the last upload to the buffer
}

// hostMapped are the flags CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP of cuMemHostAlloc.
// They let the GPU access the memory.
const hostMapped = 1 | 2

// NewBuffer implements metal.Device. Shared buffers are in the CPU's memory, which the GPU reads
// slowly.
func (d *Device) NewBuffer(bytes int, storage metal.Storage) (metal.Buffer, error) {
	if bytes < 1 {
		return 0, fmt.Errorf("make a buffer of %d bytes: the size must be at least 1", bytes)
	}
	made := buffer{bytes: bytes, storage: storage, written: d.queue.submitted + 1}
	err := d.do(func() error {
		whole := uintptr(bytes+15) &^ 15
		var at uint64
		var err error
		if storage == metal.Shared {
			at, err = d.driver.value(cuMemHostAlloc, whole, hostMapped)
		} else {
			at, err = d.driver.value(cuMemAlloc, whole)
		}
		if err != nil {
			return err
		}
		made.address = uintptr(at)
		if err := d.driver.call(cuMemsetD8Async, made.address, 0, whole, d.stream); err != nil {
			return err
		}
		if storage == metal.Shared {
			return d.driver.call(cuStreamSynchronize, d.stream)
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("make a buffer of %d bytes, with %d in use: %w", bytes, d.memory, err)
	}
	d.memory += bytes
	d.buffers = append(d.buffers, made)
	d.counters.Buffers++
	return metal.Buffer(len(d.buffers)), nil
}

// buffer returns the buffer of a handle, or nil if there is none or it was freed.
func (d *Device) buffer(b metal.Buffer) *buffer {
	if b == 0 || int(b) > len(d.buffers) || d.buffers[b-1].address == 0 {
		return nil
	}
	return &d.buffers[b-1]
}

// FreeBuffer implements metal.Device. After Close, it does nothing, since Close has freed all
// buffers.
func (d *Device) FreeBuffer(b metal.Buffer) {
	if d.closed {
		return
	}
	m := d.buffer(b)
	if m == nil {
		panic(fmt.Sprintf("cuda: buffer %d does not exist", b))
	}
	_ = d.do(func() error { return d.release(m) }) // fails only if the device is lost, and then its memory is lost too
}

func (d *Device) release(m *buffer) error {
	free := cuMemFree
	if m.storage == metal.Shared {
		free = cuMemFreeHost
	}
	err := d.driver.call(free, m.address)
	d.memory -= m.bytes
	*m = buffer{}
	return err
}

// Contents implements metal.Device.
func (d *Device) Contents(b metal.Buffer) []byte {
	m := d.buffer(b)
	if m == nil || m.storage != metal.Shared {
		panic(fmt.Sprintf("cuda: buffer %d is not a shared buffer", b))
	}
	return unsafe.Slice((*byte)(pointer(m.address)), m.bytes)
}

// within returns a buffer. It returns an error unless the given number of bytes, beginning at
// offset, lie inside the buffer.
func (d *Device) within(b metal.Buffer, offset, bytes int) (*buffer, error) {
	m := d.buffer(b)
	if m == nil {
		return nil, fmt.Errorf("buffer %d does not exist", b)
	}
	if offset < 0 || offset > m.bytes || bytes > m.bytes-offset {
		return nil, fmt.Errorf("bytes %d to %d are not inside a buffer of %d bytes", offset, offset+bytes, m.bytes)
	}
	return m, nil
}

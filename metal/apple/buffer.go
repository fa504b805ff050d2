package apple

import (
	"fmt"
	"unsafe"

	"github.com/ingot-run/ingot/metal"
)

// buffer is a buffer of the device. Its object is 0 after it is freed.
type buffer struct {
	object   id
	bytes    int
	contents unsafe.Pointer // nil if private
}

// NewBuffer implements metal.Device. Metal zeroes new buffers.
func (d *Device) NewBuffer(bytes int, storage metal.Storage) (metal.Buffer, error) {
	if d.closed {
		return 0, fmt.Errorf("make a buffer of %d bytes: %w", bytes, ErrClosed)
	}
	if bytes < 1 {
		return 0, fmt.Errorf("make a buffer of %d bytes: the size must be at least 1", bytes)
	}
	if bytes > d.info.MaxBuffer {
		return 0, fmt.Errorf("make a buffer of %d bytes: %w: a buffer can have at most %d bytes", bytes, metal.ErrMemory, d.info.MaxBuffer)
	}
	var made buffer
	var err error
	d.thread.do(func() { made, err = d.allocate(bytes, storage) })
	if err != nil {
		return 0, err
	}
	d.buffers = append(d.buffers, made)
	d.counters.Buffers++
	return metal.Buffer(len(d.buffers)), nil
}

func (d *Device) allocate(bytes int, storage metal.Storage) (buffer, error) {
	o := d.objc
	options := uintptr(storagePrivate)
	if storage == metal.Shared {
		options = storageShared
	}
	made := buffer{bytes: bytes, object: o.own(id(o.send(d.device, deviceNewBuffer, whole(bytes), options)))}
	if made.object == 0 {
		have := o.send(d.device, deviceAllocated)
		return made, fmt.Errorf("make a buffer of %d bytes, with %d bytes in use: %w; lower --memory or --context, or use --kv q8_0", bytes, have, metal.ErrMemory)
	}
	if storage == metal.Shared {
		made.contents = pointer(o.send(made.object, bufferContents))
	}
	d.residency.add(d, made.object)
	return made, nil
}

// whole rounds a number of bytes up to a multiple of 4, since macOS copies words of four bytes.
func whole(bytes int) uintptr { return uintptr(bytes+3) &^ 3 }

// buffer returns the buffer of a handle, or nil if there is none or it was freed.
func (d *Device) buffer(b metal.Buffer) *buffer {
	if b == 0 || int(b) > len(d.buffers) || d.buffers[b-1].object == 0 {
		return nil
	}
	return &d.buffers[b-1]
}

// FreeBuffer implements metal.Device. After Close it does nothing.
func (d *Device) FreeBuffer(b metal.Buffer) {
	if d.closed {
		return
	}
	m := d.buffer(b)
	if m == nil {
		panic(fmt.Sprintf("metal: buffer %d does not exist", b))
	}
	d.thread.do(func() {
		d.residency.remove(d, m.object)
		d.objc.release(&m.object)
	})
	*m = buffer{}
}

// Contents implements metal.Device. It returns nil after Close.
func (d *Device) Contents(b metal.Buffer) []byte {
	if d.closed {
		return nil
	}
	m := d.buffer(b)
	if m == nil || m.contents == nil {
		panic(fmt.Sprintf("metal: buffer %d is not a shared buffer", b))
	}
	return unsafe.Slice((*byte)(m.contents), m.bytes)
}

// Read implements metal.Device.
func (d *Device) Read(dst []byte, b metal.Buffer, offset int) error {
	memory := d.Contents(b)
	if offset < 0 || offset > len(memory) || len(dst) > len(memory)-offset {
		return fmt.Errorf("read %d bytes from byte %d of a buffer of %d bytes: they are not inside the buffer", len(dst), offset, len(memory))
	}
	copy(dst, memory[offset:])
	return nil
}

package apple

import (
	"fmt"
	"unsafe"

	"github.com/ingot-run/ingot/metal"
)

// stagingBytes is the size of each of the two staging buffers: the CPU fills one while the GPU
// copies the other.
const stagingBytes = 8 << 20

// staging is the memory through which uploads pass. The first upload allocates it.
type staging struct {
	halves [2]half
}

// half is a staging buffer with the copy that reads it.
type half struct {
	buffer   buffer
	commands id // command buffer of the copy in flight, or 0
}

// Upload implements metal.Device.
func (d *Device) Upload(b metal.Buffer, offset int, src []byte) error {
	if d.closed {
		return fmt.Errorf("upload %d bytes: %w", len(src), ErrClosed)
	}
	m := d.buffer(b)
	if m == nil {
		return fmt.Errorf("upload %d bytes: buffer %d does not exist", len(src), b)
	}
	if offset < 0 || offset > m.bytes || len(src) > m.bytes-offset {
		return fmt.Errorf("upload %d bytes to byte %d of a buffer of %d bytes: they are not inside the buffer", len(src), offset, m.bytes)
	}
	if end := offset + len(src); m.contents == nil && (offset%4 != 0 || end%4 != 0 && end != m.bytes) {
		return fmt.Errorf("upload %d bytes to byte %d of a private buffer: both numbers must be multiples of 4; only an upload to the end of the buffer may have another size", len(src), offset)
	}
	var err error
	if m.contents != nil {
		copy(unsafe.Slice((*byte)(m.contents), m.bytes)[offset:], src)
	} else {
		d.thread.do(func() { err = d.staging.upload(d, m.object, offset, src) })
	}
	if err != nil {
		return fmt.Errorf("upload %d bytes: %w", len(src), err)
	}
	d.counters.UploadedBytes += len(src)
	return nil
}

// upload copies src in pieces of at most stagingBytes and waits for the last copy.
func (s *staging) upload(d *Device, to id, offset int, src []byte) error {
	if err := d.recover(); err != nil {
		return err
	}
	err := s.open(d, min(len(src), stagingBytes))
	for i := 0; err == nil && len(src) > 0; i++ {
		h := &s.halves[i%2]
		if err = h.wait(d); err != nil {
			break
		}
		n := copy(unsafe.Slice((*byte)(h.buffer.contents), h.buffer.bytes), src)
		err = h.copy(d, to, offset, n)
		offset, src = offset+n, src[n:]
	}
	for i := range s.halves {
		if failed := s.halves[i].wait(d); err == nil {
			err = failed
		}
	}
	return err
}

// open makes sure that both halves have at least the given number of bytes. If they are smaller,
// open frees them and allocates larger ones. The number of bytes must not exceed stagingBytes.
func (s *staging) open(d *Device, bytes int) error {
	if s.halves[0].buffer.bytes >= bytes {
		d.residency.commit(d)
		return nil
	}
	s.free(d)
	for i := range s.halves {
		var err error
		if s.halves[i].buffer, err = d.allocate(bytes, metal.Shared); err != nil {
			s.free(d)
			return err
		}
	}
	d.residency.commit(d)
	return nil
}

// free frees the halves. No copy may be in flight.
func (s *staging) free(d *Device) {
	for i := range s.halves {
		m := &s.halves[i].buffer
		if m.object == 0 {
			continue
		}
		d.residency.remove(d, m.object)
		d.objc.release(&m.object)
		*m = buffer{}
	}
}

// copy starts a copy of the first n bytes of the half to a buffer. n must be a multiple of 4,
// except at the end of the buffer.
func (h *half) copy(d *Device, to id, offset, n int) error {
	o := d.objc
	h.commands = o.retain(id(o.send(d.queue, queueCommandBuffer)))
	encoder := id(o.send(h.commands, commandsBlit))
	if encoder == 0 {
		o.release(&h.commands)
		return errNoEncoder
	}
	o.send(encoder, blitCopy, uintptr(h.buffer.object), 0, uintptr(to), uintptr(offset), whole(n))
	o.send(encoder, encoderEnd)
	o.send(h.commands, commandsCommit)
	return nil
}

func (h *half) wait(d *Device) error {
	if h.commands == 0 {
		return nil
	}
	defer d.objc.release(&h.commands)
	d.objc.send(h.commands, commandsWait)
	return d.outcome(h.commands)
}

package cuda

import (
	"fmt"
	"unsafe"

	"github.com/ingot-run/ingot/metal"
)

// stagingBytes is the size of each staging area for transfers. Uploads use two areas: the CPU fills
// one while the GPU copies the other. Read uses the third one.
const stagingBytes = 8 << 20

// staging is pinned memory, from and to which the GPU can copy without the CPU.
type staging struct {
	address uintptr
	memory  []byte // three areas of stagingBytes: two for uploads, one for Read
	turn    int    // index of the area for the next upload
	used    int    // bytes of that area that are in use
	copied  [2]uintptr
	waits   [2]bool // whether the area's event in copied is recorded and must be waited for
}

func (d *Device) openStaging() error {
	at, err := d.driver.value(cuMemHostAlloc, 3*stagingBytes, hostMapped)
	if err != nil {
		return fmt.Errorf("allocate pinned memory for transfers: %w", err)
	}
	s := &d.staging
	s.address = uintptr(at)
	s.memory = unsafe.Slice((*byte)(pointer(s.address)), 3*stagingBytes)
	for i := range s.copied {
		if s.copied[i], err = d.event(eventWithoutTiming); err != nil {
			return err
		}
	}
	return nil
}

// Upload implements metal.Device. Small uploads are placed one after another in an area, so that
// the uploads of steps in flight do not wait for each other.
func (d *Device) Upload(b metal.Buffer, offset int, src []byte) error {
	m, err := d.within(b, offset, len(src))
	if err != nil {
		return fmt.Errorf("upload %d bytes: %w", len(src), err)
	}
	m.written = d.queue.submitted + 1
	d.upload.to, d.upload.src = m.address+uintptr(offset), src
	err = d.do(d.upload.run)
	d.upload.src = nil
	if err != nil {
		return fmt.Errorf("upload %d bytes: %w", len(src), err)
	}
	d.counters.UploadedBytes += len(src)
	return nil
}

// upload holds the arguments of Upload for the thread with the device's context. Unlike a closure,
// it is not allocated for each call.
type upload struct {
	run func() error
	to  uintptr
	src []byte
}

func (d *Device) copyUp() error {
	s := &d.staging
	for to, src := d.upload.to, d.upload.src; len(src) > 0; {
		if s.used == stagingBytes {
			if err := d.driver.call(cuEventRecord, s.copied[s.turn], d.stream); err != nil {
				return err
			}
			s.waits[s.turn] = true
			s.turn, s.used = 1-s.turn, 0
		}
		if s.used == 0 && s.waits[s.turn] {
			if err := d.driver.call(cuEventSynchronize, s.copied[s.turn]); err != nil {
				return err
			}
		}
		at := s.turn*stagingBytes + s.used
		n := copy(s.memory[at:(s.turn+1)*stagingBytes], src)
		if err := d.driver.call(cuMemcpyHtoDAsync, to, s.address+uintptr(at), uintptr(n), d.stream); err != nil {
			return err
		}
		s.used = min((s.used+n+63)&^63, stagingBytes)
		to, src = to+uintptr(n), src[n:]
	}
	return nil
}

// Read implements metal.Device. If all uploads to the buffer are known to be done, the copy does
// not wait for submitted work: Wait has returned after the work that wrote to the buffer, so a
// second stream can read it while later work runs.
func (d *Device) Read(dst []byte, b metal.Buffer, offset int) error {
	m, err := d.within(b, offset, len(dst))
	if err != nil {
		return fmt.Errorf("read %d bytes: %w", len(dst), err)
	}
	d.download.from, d.download.dst, d.download.stream = m.address+uintptr(offset), dst, d.stream
	if m.written <= d.queue.waited && d.copies != 0 {
		d.download.stream = d.copies
	}
	err = d.do(d.download.run)
	d.download.dst = nil
	if err != nil {
		return fmt.Errorf("read %d bytes: %w", len(dst), err)
	}
	d.counters.ReadBytes += len(dst)
	return nil
}

// download holds the arguments of Read for the thread with the device's context.
type download struct {
	run    func() error
	from   uintptr
	dst    []byte
	stream uintptr
}

func (d *Device) copyDown() error {
	s := &d.staging
	for from, dst := d.download.from, d.download.dst; len(dst) > 0; {
		n := min(len(dst), stagingBytes)
		if err := d.driver.call(cuMemcpyDtoHAsync, s.address+2*stagingBytes, from, uintptr(n), d.download.stream); err != nil {
			return err
		}
		if err := d.driver.call(cuStreamSynchronize, d.download.stream); err != nil {
			return err
		}
		copy(dst, s.memory[2*stagingBytes:2*stagingBytes+n])
		from, dst = from+uintptr(n), dst[n:]
	}
	return nil
}

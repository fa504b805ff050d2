package cuda

import (
	"encoding/binary"
	"fmt"
	"math"
	"runtime"
	"time"
	"unsafe"

	"github.com/ingot-run/ingot/metal"
)

const (
	// maxInFlight is how many submissions can be in flight.
	maxInFlight = 32
	// maxParameters is the bytes of a kernel's parameters.
	maxParameters = 4 << 10
	// maxGroups is the threadgroups of a launch's second and third dimension.
	maxGroups = 65535
)

// queue is the submissions in flight, and what Submit and Wait pass to the thread with the context: all of it is here so that
// nothing is allocated.
type queue struct {
	run, wait func() error

	work   []metal.Dispatch // of Submit
	ticket metal.Ticket     // of Wait
	timing metal.Timing     // of Wait

	submitted, waited metal.Ticket // the last ones
	begun, ended      [maxInFlight]uintptr
	started           time.Time

	parameters    [maxParameters]byte
	parameterSize uint64
	extra         [5]uintptr // that the launch finds these by
	elapsed       float32    // milliseconds
}

// Names of what extra has: CU_LAUNCH_PARAM_BUFFER_POINTER and CU_LAUNCH_PARAM_BUFFER_SIZE.
const (
	launchPointer = 1
	launchSize    = 2
)

func (d *Device) openQueue() error {
	q := &d.queue
	q.extra = [5]uintptr{
		launchPointer, uintptr(unsafe.Pointer(&q.parameters)), launchSize, uintptr(unsafe.Pointer(&q.parameterSize)), 0,
	}
	for i := range q.begun {
		var err error
		if q.begun[i], err = d.event(0); err != nil {
			return err
		}
		if q.ended[i], err = d.event(0); err != nil {
			return err
		}
	}
	return nil
}

// Submit implements metal.Device. Dispatches run in their order, one after another.
func (d *Device) Submit(work []metal.Dispatch) (metal.Ticket, error) {
	q := &d.queue
	if q.submitted-q.waited == maxInFlight {
		return 0, fmt.Errorf("submit %d dispatches: %d submissions are in flight; wait for one first", len(work), maxInFlight)
	}
	for i := range work {
		if err := d.check(&work[i]); err != nil {
			return 0, fmt.Errorf("submit dispatch %d, %s: %w", i, work[i].Name, err)
		}
	}
	q.work = work
	err := d.do(q.run)
	q.work = nil
	if err != nil {
		return 0, fmt.Errorf("submit %d dispatches: %w", len(work), err)
	}
	q.submitted++
	d.counters.CommandBuffers++
	d.counters.Dispatches += len(work)
	return q.submitted, nil
}

// check finds what the GPU cannot be asked to do.
func (d *Device) check(w *metal.Dispatch) error {
	if w.Pipeline == 0 || int(w.Pipeline) > len(d.pipelines) {
		return fmt.Errorf("pipeline %d is none", w.Pipeline)
	}
	p, threads := &d.pipelines[w.Pipeline-1], w.Threads[0]*w.Threads[1]*w.Threads[2]
	switch {
	case 8*len(w.Buffers)+len(w.Args)+4 > maxParameters:
		return fmt.Errorf("%d buffers and %d bytes of arguments of kernel %s: at most %d bytes in all", len(w.Buffers), len(w.Args), p.name, maxParameters)
	case w.ThreadgroupMemory < 0 || w.ThreadgroupMemory%16 != 0 || w.ThreadgroupMemory+p.info.ThreadgroupMemory > d.info.ThreadgroupMemory:
		return fmt.Errorf("%d bytes of threadgroup memory for kernel %s: a multiple of 16, and at most %d with its own %d",
			w.ThreadgroupMemory, p.name, d.info.ThreadgroupMemory, p.info.ThreadgroupMemory)
	case w.Threads[1] != 1 || w.Threads[2] != 1 || threads < 32 || threads > p.info.MaxThreads || threads%32 != 0:
		return fmt.Errorf("threadgroups of %v threads for kernel %s: a line of a multiple of 32, at most %d", w.Threads, p.name, p.info.MaxThreads)
	case min(w.Groups[0], w.Groups[1], w.Groups[2]) < 1 || w.Groups[0] > math.MaxInt32 || w.Groups[2] > maxGroups || p.native && w.Groups[1] > maxGroups:
		return fmt.Errorf("a grid of %v threadgroups for kernel %s", w.Groups, p.name)
	}
	for i, b := range w.Buffers {
		m := d.buffer(b.Buffer)
		if m == nil {
			return fmt.Errorf("buffer %d of kernel %s, %d, is none", i, p.name, b.Buffer)
		}
		if b.Offset < 0 || b.Offset >= m.bytes || b.Offset%4 != 0 {
			return fmt.Errorf("buffer %d of kernel %s, of %d bytes, is bound from byte %d on", i, p.name, m.bytes, b.Offset)
		}
	}
	return nil
}

// launchAll is Submit on a thread with the context.
func (d *Device) launchAll() error {
	q := &d.queue
	slot := q.submitted % maxInFlight
	if err := d.driver.call(cuEventRecord, q.begun[slot], d.stream); err != nil {
		return err
	}
	for i := range q.work {
		w := &q.work[i]
		if err := d.launch(w); err != nil {
			return fmt.Errorf("dispatch %d, %s, kernel %s: %w", i, w.Name, d.pipelines[w.Pipeline-1].name, err)
		}
	}
	return d.driver.call(cuEventRecord, q.ended[slot], d.stream)
}

// launch starts a dispatch, as several launches where its grid is too high for one.
func (d *Device) launch(w *metal.Dispatch) error {
	for y := 0; y < w.Groups[1]; y += maxGroups {
		if err := d.launchFrom(w, y); err != nil {
			return err
		}
	}
	if d.debug {
		return d.driver.call(cuStreamSynchronize, d.stream) // so that a fault has the name of its kernel
	}
	return nil
}

// launchFrom starts a dispatch from threadgroup y on. Its buffers' addresses and its argument struct are the kernel's
// parameters, in this order, and then y, where the kernel is translated: see source.go.
func (d *Device) launchFrom(w *metal.Dispatch, y int) error {
	q, p := &d.queue, &d.pipelines[w.Pipeline-1]
	n := 0
	for _, b := range w.Buffers {
		binary.NativeEndian.PutUint64(q.parameters[n:], uint64(d.buffers[b.Buffer-1].address)+uint64(b.Offset))
		n += 8
	}
	n += copy(q.parameters[n:], w.Args)
	if !p.native {
		binary.NativeEndian.PutUint32(q.parameters[n:], uint32(y))
		n += 4
	}
	q.parameterSize = uint64(n)
	err := d.driver.call(cuLaunchKernel, p.function,
		uintptr(w.Groups[0]), uintptr(min(w.Groups[1]-y, maxGroups)), uintptr(w.Groups[2]), uintptr(w.Threads[0]), 1, 1,
		uintptr(w.ThreadgroupMemory), d.stream, 0, uintptr(unsafe.Pointer(&q.extra)))
	runtime.KeepAlive(d)
	return err
}

// Wait implements metal.Device.
func (d *Device) Wait(t metal.Ticket) (metal.Timing, error) {
	q := &d.queue
	if t <= q.waited || t > q.submitted {
		return metal.Timing{}, fmt.Errorf("wait for submission %d: it is none that is in flight", t)
	}
	q.ticket = t
	err := d.do(q.wait)
	d.counters.Waits++
	q.waited = t
	if err != nil {
		return metal.Timing{}, fmt.Errorf("wait for submission %d: %w", t, err)
	}
	return q.timing, nil
}

// await is Wait on a thread with the context.
func (d *Device) await() error {
	q := &d.queue
	slot := (q.ticket - 1) % maxInFlight
	if err := d.driver.call(cuEventSynchronize, q.ended[slot]); err != nil {
		return err
	}
	end := time.Since(q.started)
	if err := d.driver.call(cuEventElapsedTime, uintptr(unsafe.Pointer(&q.elapsed)), q.begun[slot], q.ended[slot]); err != nil {
		return err
	}
	q.timing = metal.Timing{Start: end - time.Duration(float64(q.elapsed)*float64(time.Millisecond)), End: end}
	return nil
}

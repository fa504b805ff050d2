package apple

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"github.com/ingot-run/ingot/metal"
)

const (
	// maxSubmissions is the maximum number of submissions in flight.
	maxSubmissions = 32
	// maxParts is the number of command buffers in flight at which splitting stops: the work that
	// follows gets one command buffer per submission. At most maxSubmissions more command buffers
	// can then follow, so there are fewer than 64. Metal blocks when 64 command buffers of a queue
	// are in flight.
	maxParts = 28
	// minPart is the minimum number of dispatches in a command buffer before the work is split. The
	// gap between two command buffers is negligible compared with the time of this many dispatches.
	minPart = 24
)

var errNoEncoder = errors.New("the queue returned no command buffer, or the command buffer no encoder")

// submission is a command buffer in flight. If the work was split, several consecutive command
// buffers have the same ticket.
type submission struct {
	ticket   metal.Ticket
	commands id
}

// size has the layout of MTLSize.
type size [3]uintptr

// encoding holds the arguments and results that Submit and Wait exchange with the device's thread,
// and the arrays to which messages point. It is part of the device, so that Submit and Wait
// allocate nothing.
type encoding struct {
	run, wait func()

	work   []metal.Dispatch // argument of Submit
	ticket metal.Ticket     // argument of Wait
	timing metal.Timing     // result of Wait
	err    error            // result of Submit or Wait

	buffers, offsets [maxBuffers]uintptr
	groups, threads  size
}

// Submit implements metal.Device.
func (d *Device) Submit(work []metal.Dispatch) (metal.Ticket, error) {
	if d.closed {
		return 0, fmt.Errorf("submit %d dispatches: %w", len(work), ErrClosed)
	}
	if n := d.countInFlight(); n == maxSubmissions {
		return 0, fmt.Errorf("submit %d dispatches: %d submissions are in flight; wait for one first", len(work), n)
	}
	// A violation of Metal's rules can end the process, so the driver checks all dispatches first.
	for i := range work {
		if err := d.check(&work[i]); err != nil {
			return 0, fmt.Errorf("submit dispatch %d, %s: %w", i, work[i].Name, err)
		}
	}
	e := &d.encoding
	e.work, e.err = work, nil
	d.thread.do(e.run)
	e.work = nil
	if e.err != nil {
		return 0, fmt.Errorf("submit %d dispatches: %w", len(work), e.err)
	}
	d.counters.Dispatches += len(work)
	return d.submitted, nil
}

func (d *Device) countInFlight() int {
	if len(d.inFlight) == 0 {
		return 0
	}
	return int(d.submitted - d.inFlight[0].ticket + 1)
}

// check returns an error for a dispatch that violates Metal's rules.
func (d *Device) check(w *metal.Dispatch) error {
	if w.Pipeline == 0 || int(w.Pipeline) > len(d.pipelines) {
		return fmt.Errorf("pipeline %d does not exist", w.Pipeline)
	}
	p, threads := &d.pipelines[w.Pipeline-1], w.Threads[0]*w.Threads[1]*w.Threads[2]
	bound := len(w.Buffers)
	if len(w.Args) > 0 {
		bound++
	}
	switch {
	case bound > maxBuffers:
		return fmt.Errorf("kernel %s has %d buffers and %d bytes of arguments: it can have at most %d buffers, including one for the arguments", p.name, len(w.Buffers), len(w.Args), maxBuffers)
	case len(w.Args) > maxArgs:
		return fmt.Errorf("kernel %s has %d bytes of arguments: at most %d are allowed", p.name, len(w.Args), maxArgs)
	case w.ThreadgroupMemory < 0 || w.ThreadgroupMemory%16 != 0 || w.ThreadgroupMemory+p.info.ThreadgroupMemory > d.info.ThreadgroupMemory:
		return fmt.Errorf("kernel %s has %d bytes of threadgroup memory: the number must be a multiple of 16, and at most %d together with the %d bytes that the kernel declares",
			p.name, w.ThreadgroupMemory, d.info.ThreadgroupMemory, p.info.ThreadgroupMemory)
	case min(w.Threads[0], w.Threads[1], w.Threads[2]) < 1 || threads > p.info.MaxThreads || threads%p.info.SimdWidth != 0:
		return fmt.Errorf("kernel %s has threadgroups of %v threads: the product must be a multiple of %d and at most %d", p.name, w.Threads, p.info.SimdWidth, p.info.MaxThreads)
	case min(w.Groups[0], w.Groups[1], w.Groups[2]) < 1:
		return fmt.Errorf("kernel %s has a grid of %v threadgroups: each dimension must be at least 1", p.name, w.Groups)
	}
	for i, b := range w.Buffers {
		m := d.buffer(b.Buffer)
		if m == nil {
			return fmt.Errorf("kernel %s: argument %d is buffer %d, which does not exist", p.name, i, b.Buffer)
		}
		if b.Offset < 0 || b.Offset >= m.bytes || b.Offset%4 != 0 {
			return fmt.Errorf("kernel %s: buffer %d is bound at byte %d: the offset must be a multiple of 4 and less than the buffer's %d bytes", p.name, i, b.Offset, m.bytes)
		}
	}
	return nil
}

// encode is the part of Submit that runs on the device's thread.
func (d *Device) encode() { d.encoding.err = d.commit(d.encoding.work) }

// commit encodes work into one command buffer, or into several if dispatches have SplitBefore.
func (d *Device) commit(work []metal.Dispatch) error {
	if err := d.recover(); err != nil {
		return err
	}
	d.residency.commit(d)
	d.submitted++
	from := 0
	for i := range work {
		if work[i].SplitBefore && i-from >= minPart && len(d.inFlight) < maxParts {
			if err := d.commitPart(work[from:i]); err != nil {
				return err
			}
			from = i
		}
	}
	return d.commitPart(work[from:])
}

// commitPart encodes work into one command buffer of the last submission. Metal's hazard tracking
// makes the writes of earlier command buffers visible to it.
func (d *Device) commitPart(work []metal.Dispatch) error {
	o := d.objc
	commands := o.retain(id(o.send(d.queue, queueCommandBuffer)))
	encoder := id(o.send(commands, commandsCompute, dispatchConcurrent))
	if encoder == 0 {
		o.release(&commands)
		return errNoEncoder
	}
	last := metal.Pipeline(0)
	for i := range work {
		w := &work[i]
		if w.Barrier && i > 0 {
			o.send(encoder, computeBarrier, barrierBuffers)
		}
		if w.Pipeline != last {
			o.send(encoder, computeSetPipeline, uintptr(d.pipelines[w.Pipeline-1].state))
			last = w.Pipeline
		}
		d.dispatch(encoder, w)
	}
	o.send(encoder, encoderEnd)
	o.send(commands, commandsCommit)
	runtime.KeepAlive(work)
	d.counters.CommandBuffers++
	d.inFlight = append(d.inFlight, submission{d.submitted, commands})
	return nil
}

// dispatch encodes a dispatch. It sets all bindings, since the encoder would otherwise use those of
// earlier dispatches.
func (d *Device) dispatch(encoder id, w *metal.Dispatch) {
	o, e := d.objc, &d.encoding
	if d.capturing {
		o.send(encoder, encoderPushGroup, uintptr(o.string(w.Name)))
	}
	if n := len(w.Buffers); n > 0 {
		for i, b := range w.Buffers {
			e.buffers[i], e.offsets[i] = uintptr(d.buffers[b.Buffer-1].object), uintptr(b.Offset)
		}
		// The last two words are an NSRange.
		o.send(encoder, computeSetBuffers, uintptr(unsafe.Pointer(&e.buffers)), uintptr(unsafe.Pointer(&e.offsets)), 0, uintptr(n))
	}
	if len(w.Args) > 0 {
		o.send(encoder, computeSetBytes, uintptr(unsafe.Pointer(&w.Args[0])), uintptr(len(w.Args)), uintptr(len(w.Buffers)))
	}
	if w.ThreadgroupMemory > 0 {
		o.send(encoder, computeSetThreadgroupMemory, uintptr(w.ThreadgroupMemory), 0)
	}
	for i := range e.groups {
		e.groups[i], e.threads[i] = uintptr(w.Groups[i]), uintptr(w.Threads[i])
	}
	// Structs of three words are passed by address on arm64.
	o.send(encoder, computeDispatch, uintptr(unsafe.Pointer(&e.groups)), uintptr(unsafe.Pointer(&e.threads)))
	if d.capturing {
		o.send(encoder, encoderPopGroup)
	}
}

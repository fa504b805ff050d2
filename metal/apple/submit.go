package apple

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"github.com/ingot-run/ingot/metal"
)

const (
	// mostInFlight is how many submissions can be under way at once.
	mostInFlight = 32
	// mostParts is how many command buffers may be under way for a submission to become several: with one for each of the others,
	// there are less than the 64 of a queue, at which Metal would block.
	mostParts = 28
	// leastPart is the dispatches of a command buffer that is part of a submission: enough that the time between two does not
	// count.
	leastPart = 24
)

var errNoEncoder = errors.New("the queue makes no command buffer")

// submission is a command buffer that is committed and not waited for. Those of one ticket stand one after another.
type submission struct {
	ticket   metal.Ticket
	commands id
}

// size is MTLSize.
type size [3]uintptr

// encoding is what Submit and Wait pass to the device's thread and back, and the arrays that messages point to: all of it
// is here so that nothing is allocated.
type encoding struct {
	run, wait func()

	work   []metal.Dispatch // of Submit
	ticket metal.Ticket     // of Wait
	timing metal.Timing     // of Wait
	err    error            // of both

	buffers, offsets [mostBuffers]uintptr
	groups, threads  size
}

// Submit implements metal.Device.
func (d *Device) Submit(work []metal.Dispatch) (metal.Ticket, error) {
	if d.closed {
		return 0, fmt.Errorf("submit %d dispatches: %w", len(work), ErrClosed)
	}
	if n := d.underWay(); n == mostInFlight {
		return 0, fmt.Errorf("submit %d dispatches: %d submissions are under way; wait for one first", len(work), n)
	}
	// What breaks Metal's rules ends the process, or worse, so it is found before.
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

// underWay is how many submissions are.
func (d *Device) underWay() int {
	if len(d.inFlight) == 0 {
		return 0
	}
	return int(d.submitted - d.inFlight[0].ticket + 1)
}

// check finds what the GPU cannot be asked to do.
func (d *Device) check(w *metal.Dispatch) error {
	if w.Pipeline == 0 || int(w.Pipeline) > len(d.pipelines) {
		return fmt.Errorf("pipeline %d is none", w.Pipeline)
	}
	p, threads := &d.pipelines[w.Pipeline-1], w.Threads[0]*w.Threads[1]*w.Threads[2]
	bound := len(w.Buffers)
	if len(w.Args) > 0 {
		bound++
	}
	switch {
	case bound > mostBuffers:
		return fmt.Errorf("kernel %s is bound to %d buffers and %d bytes of arguments: at most %d in all", p.name, len(w.Buffers), len(w.Args), mostBuffers)
	case len(w.Args) > mostArgs:
		return fmt.Errorf("%d bytes of arguments of kernel %s: at most %d", len(w.Args), p.name, mostArgs)
	case w.ThreadgroupMemory < 0 || w.ThreadgroupMemory%16 != 0 || w.ThreadgroupMemory+p.info.ThreadgroupMemory > d.info.ThreadgroupMemory:
		return fmt.Errorf("%d bytes of threadgroup memory for kernel %s: a multiple of 16, and at most %d with its own %d",
			w.ThreadgroupMemory, p.name, d.info.ThreadgroupMemory, p.info.ThreadgroupMemory)
	case min(w.Threads[0], w.Threads[1], w.Threads[2]) < 1 || threads > p.info.MaxThreads || threads%p.info.SimdWidth != 0:
		return fmt.Errorf("threadgroups of %v threads for kernel %s: a multiple of %d in all, at most %d", w.Threads, p.name, p.info.SimdWidth, p.info.MaxThreads)
	case min(w.Groups[0], w.Groups[1], w.Groups[2]) < 1:
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

// encode is Submit on the device's thread.
func (d *Device) encode() { d.encoding.err = d.commit(d.encoding.work) }

// commit encodes work into a command buffer, or several where it may be cut.
func (d *Device) commit(work []metal.Dispatch) error {
	if err := d.recover(); err != nil {
		return err
	}
	d.residency.commit(d)
	d.submitted++
	from := 0
	for i := range work {
		if work[i].SplitBefore && i-from >= leastPart && len(d.inFlight) < mostParts {
			if err := d.commitPart(work[from:i]); err != nil {
				return err
			}
			from = i
		}
	}
	return d.commitPart(work[from:])
}

// commitPart encodes work into a command buffer of its own, as part of the last submission. What command buffers before it
// write, it sees: Metal looks after that for all buffers.
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

// dispatch binds and encodes a dispatch. Bindings stay with an encoder, so all that a kernel has are set anew.
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

package cuda

import (
	"fmt"
	"math"
	"time"
	"unsafe"

	"github.com/ingot-run/ingot/metal"
)

const (
	// maxInFlight is the maximum number of submissions in flight.
	maxInFlight = 32
	// maxParameters is the maximum number of bytes of a kernel's parameters.
	maxParameters = 4 << 10
	// maxGroups is the maximum number of threadgroups in the second and in the third dimension of a
	// launch.
	maxGroups = 65535
)

// queue holds the submissions in flight, and the arguments and results that Submit and Wait
// exchange with the thread that has the context. The arguments and results are fields, so that
// Submit and Wait allocate nothing.
type queue struct {
	run, wait func() error

	work   []metal.Dispatch // argument of Submit
	ticket metal.Ticket     // argument of Wait
	timing metal.Timing     // result of Wait

	submitted, waited metal.Ticket // the last submitted ticket, and the last one that was waited for
	begun, ended      [maxInFlight]uintptr
	started           time.Time

	launches launches // launches of the current submission
	graphs   graphs
	extra    extra
	elapsed  float32 // result of cuEventElapsedTime in ms
}

// openQueue makes the events of the queue. The parameter graphLaunches is the maximum number of
// launches in all graphs.
func (d *Device) openQueue(graphLaunches int) error {
	q := &d.queue
	q.graphs = newGraphs(graphLaunches)
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

// Submit implements metal.Device. If the barriers of the list of dispatches are those of an earlier
// one, dispatches without a barrier run concurrently with the dispatches before them; see graph.go
// and patterns.go. Otherwise, the dispatches run one after another.
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

func (d *Device) check(w *metal.Dispatch) error {
	if w.Pipeline == 0 || int(w.Pipeline) > len(d.pipelines) {
		return fmt.Errorf("pipeline %d does not exist", w.Pipeline)
	}
	p, threads := &d.pipelines[w.Pipeline-1], w.Threads[0]*w.Threads[1]*w.Threads[2]
	switch {
	case 8*len(w.Buffers)+len(w.Args)+4 > maxParameters:
		return fmt.Errorf("kernel %s has %d buffers and %d bytes of arguments: together they exceed the maximum of %d bytes of parameters", p.name, len(w.Buffers), len(w.Args), maxParameters)
	case w.ThreadgroupMemory < 0 || w.ThreadgroupMemory%16 != 0 || w.ThreadgroupMemory+p.info.ThreadgroupMemory > d.info.ThreadgroupMemory:
		return fmt.Errorf("the threadgroup memory of kernel %s is %d bytes: it must be a multiple of 16, and at most %d together with the %d bytes that the kernel declares",
			p.name, w.ThreadgroupMemory, d.info.ThreadgroupMemory, p.info.ThreadgroupMemory)
	case w.Threads[1] != 1 || w.Threads[2] != 1 || threads < 32 || threads > p.info.MaxThreads || threads%32 != 0:
		return fmt.Errorf("the threadgroups of kernel %s have %v threads: the first number must be a multiple of 32 and at most %d, the others 1", p.name, w.Threads, p.info.MaxThreads)
	case min(w.Groups[0], w.Groups[1], w.Groups[2]) < 1 || w.Groups[0] > math.MaxInt32 || w.Groups[2] > maxGroups || p.isCUDA && w.Groups[1] > maxGroups:
		return fmt.Errorf("the grid of kernel %s is %v threadgroups: each dimension must be at least 1, x at most %d, z at most %d and, for native kernels, y at most %d", p.name, w.Groups, math.MaxInt32, maxGroups, maxGroups)
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

// launchAll is the part of Submit that runs on the thread with the device's context.
func (d *Device) launchAll() error {
	q := &d.queue
	q.launches = q.launches[:0]
	for i := range q.work {
		q.launches = q.launches.add(d, &q.work[i], i)
	}
	var exec uintptr
	if !d.debug {
		var err error
		if exec, err = q.graphs.find(d, q.launches, len(q.work)); err != nil {
			return fmt.Errorf("make a graph of %d launches: %w", len(q.work), err)
		}
	}
	slot := q.submitted % maxInFlight
	if err := d.driver.call(cuEventRecord, q.begun[slot], d.stream); err != nil {
		return err
	}
	var err error
	if exec != 0 {
		err = d.driver.call(cuGraphLaunch, exec, d.stream)
	} else {
		err = d.launch(q.launches, q.work)
	}
	if err != nil {
		return err
	}
	return d.driver.call(cuEventRecord, q.ended[slot], d.stream)
}

// Wait implements metal.Device.
func (d *Device) Wait(t metal.Ticket) (metal.Timing, error) {
	q := &d.queue
	if t <= q.waited || t > q.submitted {
		return metal.Timing{}, fmt.Errorf("wait for submission %d: the submission is not in flight", t)
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

// await is the part of Wait that runs on the thread with the device's context.
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

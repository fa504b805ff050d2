package apple

import (
	"errors"
	"fmt"
	"time"

	"github.com/ingot-run/ingot/metal"
)

// Wait implements metal.Device. A submission can be waited for once, and not after a later
// submission was waited for.
func (d *Device) Wait(t metal.Ticket) (metal.Timing, error) {
	if d.closed {
		return metal.Timing{}, fmt.Errorf("wait for submission %d: %w", t, ErrClosed)
	}
	e := &d.encoding
	e.ticket, e.timing, e.err = t, metal.Timing{}, nil
	d.thread.do(e.wait)
	if e.err != nil {
		return metal.Timing{}, fmt.Errorf("wait for submission %d: %w", e.ticket, e.err)
	}
	return e.timing, nil
}

// await is the part of Wait that runs on the device's thread. The command buffers of a queue end in
// order, so await waits only for the last one. If a command buffer has failed, await sets
// encoding.ticket to the ticket of its submission.
func (d *Device) await() {
	o, e := d.objc, &d.encoding
	n := 0
	for n < len(d.inFlight) && d.inFlight[n].ticket <= e.ticket {
		n++
	}
	if n == 0 || d.inFlight[n-1].ticket != e.ticket {
		e.err = errors.New("the submission is not in flight")
		return
	}
	first, last := n-1, d.inFlight[n-1].commands
	for first > 0 && d.inFlight[first-1].ticket == e.ticket {
		first--
	}
	o.send(last, commandsWait)
	d.counters.Waits++
	for i := range d.inFlight[:n] {
		s := &d.inFlight[i]
		if err := d.outcome(s.commands); err != nil && e.err == nil {
			e.ticket, e.err = s.ticket, err
		}
	}
	if e.err == nil {
		e.timing.Start = seconds(o.sendDouble(d.inFlight[first].commands, commandsStart))
		e.timing.End = seconds(o.sendDouble(last, commandsEnd))
	}
	for i := range d.inFlight[:n] {
		o.release(&d.inFlight[i].commands)
	}
	d.inFlight = append(d.inFlight[:0], d.inFlight[n:]...)
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// outcome returns the error of a command buffer, or nil. The caller must have waited for this
// command buffer or a later one. Metal does not document that a wait for a later command buffer
// sets the status of this one, so outcome waits for this one if its status is not final.
// waitUntilCompleted also returns after a fault. The error's text is copied, since the NSError
// belongs to the autorelease pool.
func (d *Device) outcome(commands id) error {
	o := d.objc
	status := o.send(commands, commandsStatus)
	if status < statusCompleted {
		o.send(commands, commandsWait)
		status = o.send(commands, commandsStatus)
	}
	if status == statusCompleted {
		return nil
	}
	d.faulted = true
	o.failure = id(o.send(commands, commandsError))
	code := int(o.send(o.failure, errorCode))
	if code == errorMemory {
		return fmt.Errorf("%w (Metal: %s, code %d): lower --memory or --context, or use --kv q8_0", metal.ErrMemory, o.failureText(), code)
	}
	return fmt.Errorf("the GPU failed: %s (status %d, code %d)", o.failureText(), status, code)
}

// recover makes a new queue after a fault, since Metal may ignore further work of the old queue. To
// preserve the order of work, it first waits for the old queue's work in flight.
func (d *Device) recover() error {
	if !d.faulted {
		return nil
	}
	for _, s := range d.inFlight {
		d.objc.send(s.commands, commandsWait)
	}
	if d.residency.set != 0 {
		d.objc.send(d.queue, queueRemoveResidencySet, uintptr(d.residency.set))
	}
	if err := d.newQueue(); err != nil {
		return fmt.Errorf("recover after the GPU failed: %w", err)
	}
	d.faulted = false
	return nil
}

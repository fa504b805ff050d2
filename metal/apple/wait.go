package apple

import (
	"errors"
	"fmt"
	"time"

	"github.com/ingot-run/ingot/metal"
)

// Wait implements metal.Device. A submission is waited for once, by itself or with one after it.
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

// await is Wait on the device's thread. Command buffers of a queue end in their order, so the last one is waited for. Where
// one has failed, the encoding's ticket becomes that one's.
func (d *Device) await() {
	o, e := d.objc, &d.encoding
	n := 0
	for n < len(d.inFlight) && d.inFlight[n].ticket <= e.ticket {
		n++
	}
	if n == 0 || d.inFlight[n-1].ticket != e.ticket {
		e.err = errors.New("it is none that is under way")
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

// outcome is how a command buffer that was waited for has ended: waitUntilCompleted returns after a fault as well.
// The reason of a failure belongs to the autorelease pool, so it is copied.
func (d *Device) outcome(commands id) error {
	o := d.objc
	status := o.send(commands, commandsStatus)
	if status == statusCompleted {
		return nil
	}
	d.faulted = true
	o.failure = id(o.send(commands, commandsError))
	code := int(o.send(o.failure, errorCode))
	err := fmt.Errorf("the GPU has given up: %s (status %d, code %d)", o.failureText(), status, code)
	if code == errorMemory {
		return fmt.Errorf("%w: %w", metal.ErrMemory, err)
	}
	return err
}

// recover makes a new queue after a fault: Metal may ignore all that comes after on the old one. What is still under way
// there is let to end first, so that work keeps its order.
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
		return fmt.Errorf("go on after the GPU has given up: %w", err)
	}
	d.faulted = false
	return nil
}

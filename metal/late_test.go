package metal_test

import (
	"bytes"
	"slices"

	"github.com/ingot-run/ingot/metal"
)

// late is a device that runs submissions and uploads as late as it may: when a submission is waited
// for. So results that are read without a wait are those of earlier work, and inputs that change
// before a wait change the results.
type late struct {
	metal.Device
	pending    []func() error // the work in flight, in order; that of a submission makes one function
	tickets    []metal.Ticket // for each element of pending the ticket of the submission, or of the one before
	newest     metal.Ticket
	overlapped int // number of waits after which later submissions were in flight
}

func (l *late) add(t metal.Ticket, do func() error) {
	l.pending, l.tickets = append(l.pending, do), append(l.tickets, t)
}

func (l *late) Submit(work []metal.Dispatch) (metal.Ticket, error) {
	retained := slices.Clone(work)
	for i := range retained {
		w := &retained[i]
		w.Buffers, w.Args = slices.Clone(w.Buffers), bytes.Clone(w.Args)
	}
	l.newest++
	l.add(l.newest, func() error {
		ticket, err := l.Device.Submit(retained)
		if err == nil {
			_, err = l.Device.Wait(ticket)
		}
		return err
	})
	return l.newest, nil
}

func (l *late) Upload(b metal.Buffer, offset int, src []byte) error {
	if len(l.pending) == 0 {
		return l.Device.Upload(b, offset, src)
	}
	src = bytes.Clone(src)
	l.add(l.newest, func() error { return l.Device.Upload(b, offset, src) })
	return nil
}

func (l *late) Wait(t metal.Ticket) (timing metal.Timing, err error) {
	for len(l.pending) > 0 && l.tickets[0] <= t {
		if failed := l.pending[0](); err == nil {
			err = failed
		}
		l.pending, l.tickets = l.pending[1:], l.tickets[1:]
	}
	if t < l.newest {
		l.overlapped++
	}
	return timing, err
}

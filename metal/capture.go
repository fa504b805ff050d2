package metal

import (
	"errors"
	"sync/atomic"
)

// Capture is a device that records some of its submissions to a file, for a debugger: those that follow Begin. A capture of
// more than a few is too large to open, and what comes before the first request is loading.
//
// A capture that cannot be started changes nothing about the work: Close tells why.
type Capture struct {
	Device
	path  string
	begun atomic.Bool

	left    int    // submissions that are still to be recorded
	last    Ticket // of those that are recorded
	running bool
	err     error
}

// NewCapture makes a device record so many submissions to a file of a name that ends in .gputrace.
func NewCapture(dev Device, path string, submissions int) *Capture {
	return &Capture{Device: dev, path: path, left: submissions}
}

// Begin makes the next submission the first that is recorded. Any goroutine may call it.
func (c *Capture) Begin() { c.begun.Store(true) }

// Submit implements Device.
func (c *Capture) Submit(work []Dispatch) (Ticket, error) {
	if c.begun.Load() && c.left > 0 && !c.running && c.err == nil {
		c.err = c.StartCapture(c.path)
		c.running = c.err == nil
	}
	ticket, err := c.Device.Submit(work)
	if err == nil && c.running && c.left > 0 {
		c.left--
		c.last = ticket
	}
	return ticket, err
}

// Wait implements Device.
func (c *Capture) Wait(t Ticket) (Timing, error) {
	timing, err := c.Device.Wait(t)
	if c.running && c.left == 0 && t >= c.last {
		c.stop()
	}
	return timing, err
}

func (c *Capture) stop() {
	c.running = false
	c.err = errors.Join(c.err, c.StopCapture())
}

// Close implements Device. It ends a capture of fewer submissions than were to be recorded.
func (c *Capture) Close() error {
	if c.running {
		c.stop()
	}
	return errors.Join(c.err, c.Device.Close())
}

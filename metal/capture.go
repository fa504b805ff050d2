package metal

import (
	"errors"
	"sync/atomic"
)

// Capture is a device that records some submissions to a file for a GPU debugger, beginning with
// the first one after Begin. A debugger can open only captures of a few submissions, so the
// submissions before Begin, which load the model, are not recorded.
//
// If the capture cannot be started, the work continues without it, and Close returns the error.
type Capture struct {
	Device
	path  string
	begun atomic.Bool

	left    int    // number of submissions that remain to be recorded
	last    Ticket // the last recorded submission
	running bool
	err     error
}

// NewCapture returns a device that records the given number of submissions. The path has to end in
// .gputrace.
func NewCapture(dev Device, path string, submissions int) *Capture {
	return &Capture{Device: dev, path: path, left: submissions}
}

// Begin starts the recording with the next submission. Any goroutine may call it.
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

// Close implements Device. It ends a capture that has recorded fewer submissions than requested.
func (c *Capture) Close() error {
	if c.running {
		c.stop()
	}
	return errors.Join(c.err, c.Device.Close())
}

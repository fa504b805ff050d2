package schedule

import "time"

// maxWait is the maximum time that the first interactive request after a pause waits for the
// running step of batch requests. A step that is expected to last longer is interrupted before its
// next layer, and its rows are computed again.
const maxWait = 250 * time.Millisecond

// interrupter interrupts a step of batch requests when an interactive request arrives. This works
// only on a backend that runs each operation when it is called, such as the CPU.
type interrupter struct {
	inbox       *inbox
	ask         func() bool // the method due as a function value, stored so that a step does not allocate it
	end         time.Time   // when the present step is expected to end
	interrupted bool        // the present step was interrupted
}

func newInterrupter(b *inbox) *interrupter {
	i := &interrupter{inbox: b}
	i.ask = i.due
	return i
}

// interrupt returns the function that reports, between the layers of a step, whether to interrupt
// the step. It returns nil for a step that must not be interrupted. end is when the step is
// expected to end. expected reports whether an interactive request runs or may arrive soon. If it
// is true, the step must not be interrupted, because steps are short anyway. Several steps in
// flight must not be interrupted either.
func (i *interrupter) interrupt(expected bool, inFlight int, end time.Time) func() bool {
	i.end, i.interrupted = end, false
	if expected || inFlight > 1 || time.Until(end) < maxWait {
		return nil
	}
	return i.ask
}

func (i *interrupter) due() bool {
	i.interrupted = i.interrupted || i.inbox.interactive.Load() && time.Until(i.end) > maxWait
	return i.interrupted
}

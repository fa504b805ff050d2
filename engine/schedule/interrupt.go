package schedule

import "time"

// maxWait is the maximum time for which the first interactive request after a pause waits for the end of a step of a batch. A step that is
// expected to last longer is interrupted before its next layer, and its rows are computed again.
const maxWait = 250 * time.Millisecond

// hurry interrupts a step of a batch when an interactive request arrives. This works only on a backend that computes layers as they are
// called.
type hurry struct {
	inbox       *inbox
	ask         func() bool // due, which is stored so that a step does not allocate it
	end         time.Time   // when the present step is expected to end
	interrupted bool        // the present step was interrupted
}

func newHurry(b *inbox) *hurry {
	h := &hurry{inbox: b}
	h.ask = h.due
	return h
}

// interrupt returns the function that decides between the layers of a step whether it is interrupted; nil if it never is. end is when the
// step is expected to end. Steps are short while an interactive request runs or is expected, and if several are in flight.
func (h *hurry) interrupt(expected bool, inFlight int, end time.Time) func() bool {
	h.end, h.interrupted = end, false
	if expected || inFlight > 1 || time.Until(end) < maxWait {
		return nil
	}
	return h.ask
}

func (h *hurry) due() bool {
	h.interrupted = h.interrupted || h.inbox.urgent.Load() && time.Until(h.end) > maxWait
	return h.interrupted
}

func duration(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

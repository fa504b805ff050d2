package queue

import (
	"sync"
	"time"
)

// Speed measures tokens per second between two calls of Measure.
type Speed struct {
	mu     sync.Mutex
	tokens uint64
	at     time.Time
	last   float64
}

// Measure returns the speed, in tokens per second, since the last measurement; 0 in the first call.
// tokens is the total number of tokens generated so far. If less than a second has passed since the
// last measurement, Measure returns the result of that measurement.
func (s *Speed) Measure(tokens uint64, now time.Time) float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at.IsZero() {
		s.tokens, s.at = tokens, now
		return 0
	}
	if span := now.Sub(s.at); span >= time.Second {
		s.last = float64(tokens-s.tokens) / span.Seconds()
		s.tokens, s.at = tokens, now
	}
	return s.last
}

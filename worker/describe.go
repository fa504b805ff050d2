package worker

import (
	"sync"
	"time"

	"github.com/ingot-run/ingot/job"
)

// describe returns the worker's record for the list of workers.
func (w *Worker) describe() job.Worker {
	o := w.origin
	record := job.Worker{
		Name: o.Worker, Model: o.Model, Version: o.Version, Backend: o.Backend, Device: o.Device, Context: w.context,
		TokensPerSecond: w.speed.measure(w.snapshot().GeneratedTokens, time.Now()),
	}
	if hash := w.hash.Load(); hash != nil {
		record.ModelSHA256 = *hash
	}
	return record
}

// speed measures tokens per second between two calls of measure.
type speed struct {
	mu     sync.Mutex
	tokens uint64
	at     time.Time
	last   float64
}

// measure returns the speed since the last call. If hardly any time has passed, it returns the same result as the last call.
func (s *speed) measure(tokens uint64, now time.Time) float64 {
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

package serve

import (
	"context"
	"sync"
	"time"
)

// The history of the console's chart.
const (
	historySpan    = time.Hour
	historyStep    = 5 * time.Second // between samples
	historyPerBar  = 12              // samples
	historyBarSpan = historyPerBar * historyStep
)

// history holds the speed at which tokens were generated in the last hour.
type history struct {
	mu      sync.Mutex
	samples [historySpan / historyStep]float64 // tokens per second; next is the oldest
	next    int
}

func (h *history) add(tokensPerSecond float64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.samples[h.next] = tokensPerSecond
	h.next = (h.next + 1) % len(h.samples)
}

// bars returns the mean speed of each minute, the latest last.
func (h *history) bars() []float64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	bars := make([]float64, len(h.samples)/historyPerBar)
	for i := range h.samples {
		bars[i/historyPerBar] += h.samples[(h.next+i)%len(h.samples)] / historyPerBar
	}
	return bars
}

// record adds a sample at intervals until ctx is done. A sample is 0 if the workers cannot be asked.
func (s *Server) record(ctx context.Context) {
	tick := time.NewTicker(historyStep)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		var sum float64
		workers, err := s.answerer.Workers(ctx)
		if err != nil {
			s.log.Debug("ask workers for their speed", "error", err)
		}
		for _, w := range workers {
			if w.Live() {
				sum += w.TokensPerSecond
			}
		}
		s.history.add(sum)
	}
}

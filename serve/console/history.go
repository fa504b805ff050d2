package console

import (
	"context"
	"sync"
	"time"

	"github.com/ingot-run/ingot/queue"
)

// The console's chart has one bar per minute of the last hour.
const (
	historySpan    = time.Hour
	historyStep    = 5 * time.Second // time between samples
	historyPerBar  = 12              // samples per bar
	historyBarSpan = historyPerBar * historyStep
)

type history struct {
	mu      sync.Mutex
	samples [historySpan / historyStep]float64 // a ring of speeds in tokens per second; samples[next] is the oldest
	next    int
}

func (h *history) add(tokensPerSecond float64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.samples[h.next] = tokensPerSecond
	h.next = (h.next + 1) % len(h.samples)
}

// bars returns the mean speed of each minute in tokens per second, from the oldest to the latest.
func (h *history) bars() []float64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	bars := make([]float64, len(h.samples)/historyPerBar)
	for i := range h.samples {
		bars[i/historyPerBar] += h.samples[(h.next+i)%len(h.samples)] / historyPerBar
	}
	return bars
}

// Record adds the total speed of the live workers to the overview's chart at intervals, until ctx
// is done. It adds 0 if the list of workers cannot be read.
func (c *Console) Record(ctx context.Context) {
	tick := time.NewTicker(historyStep)
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		workers, err := c.Workers(ctx)
		if err != nil {
			c.Log.Debug("could not read the speeds of workers", "error", err)
		}
		c.history.add(speedOf(workers))
	}
}

// speedOf returns the total speed of the live workers in tokens per second.
func speedOf(workers []queue.Worker) (sum float64) {
	for _, w := range workers {
		if w.Live() {
			sum += w.TokensPerSecond
		}
	}
	return sum
}

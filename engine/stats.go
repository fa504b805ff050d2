package engine

import (
	"sync"
	"time"

	"github.com/ingot-run/ingot/generation"
)

// Snapshot is the engine's state and its counts since it was opened.
type Snapshot struct {
	Running int // sequences in the engine's steps
	Waiting int // sequences that wait for a place

	Steps           uint64
	PromptTokens    uint64 // computed
	GeneratedTokens uint64
	StepTime        time.Duration // of all steps together
	LastStep        time.Duration

	PagesUsed, PagesTotal int    // of the KV cache
	PutBacks              uint64 // sequences whose pages were taken for older ones, and computed again

	DraftTokens, AcceptedTokens uint64
}

// meter keeps the snapshot that the loop writes and anyone reads.
type meter struct {
	mu  sync.Mutex
	now Snapshot
}

func (m *meter) update(f func(s *Snapshot)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f(&m.now)
}

func (m *meter) read() Snapshot {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

// figures is what the loop notes of a call.
type figures struct {
	admitted    time.Time // of its first sequence
	first, last time.Time // of its generated tokens
	lastStep    uint64    // the number of the last step that it took part in
	steps       int
	company     int // sequences in these steps, summed
	cached      int // prompt tokens that the first choice found in the cache
	drafted     int
	accepted    int
}

// step notes that the call took part in step number n, with so many sequences in all.
func (f *figures) step(n uint64, sequences int) {
	if f.lastStep == n {
		return
	}
	f.lastStep = n
	f.steps++
	f.company += sequences
}

// token notes that a token was generated.
func (f *figures) token(now time.Time) {
	if f.first.IsZero() {
		f.first = now
	}
	f.last = now
}

// stats is the figures of a call that is done.
func (c *call) stats() generation.Stats {
	f := &c.figures
	s := generation.Stats{PromptTokens: len(c.prompt), Total: time.Since(c.start), Steps: f.steps}
	s.CachedTokens = f.cached
	s.DraftTokens, s.AcceptedTokens = f.drafted, f.accepted
	for _, seq := range c.seqs {
		s.CompletionTokens += len(seq.answer())
	}
	if !f.first.IsZero() {
		s.TTFT = f.first.Sub(c.start)
		s.Prefill = f.first.Sub(f.admitted)
		s.Decode = f.last.Sub(f.first)
	}
	if f.steps > 0 {
		s.BatchMean = float64(f.company) / float64(f.steps)
	}
	return s
}

package schedule

import (
	"sync"
	"time"
)

// Snapshot has the scheduler's present state and its counts since New.
type Snapshot struct {
	Running int // sequences in the engine's steps
	Waiting int // sequences that wait to be admitted

	Steps           uint64
	PromptTokens    uint64 // computed by steps; tokens found in the cache are not counted
	GeneratedTokens uint64
	StepTime        time.Duration // sum over all steps, with sampling and drafting
	LastStep        time.Duration

	PagesUsed, PagesTotal int    // pages of the KV cache
	Preemptions           uint64 // number of times that a running sequence lost its pages to others

	DraftTokens, AcceptedTokens uint64
}

// meter holds the snapshot, which the loop writes and any goroutine reads.
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

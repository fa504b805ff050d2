package worker

import (
	"fmt"
	"sync"
	"time"

	"github.com/ingot-run/ingot/engine"
)

// stuckAfter is the maximum time that an engine with work may take without finishing a step.
const stuckAfter = 2 * time.Minute

// watchdog detects an engine that makes no progress. It compares snapshots of the engine's statistics.
type watchdog struct {
	mu    sync.Mutex
	steps uint64
	since time.Time // time of the first snapshot with this number of steps; zero if the engine had no work
}

// check takes a snapshot and returns an error if the engine has had work for too long without finishing a step.
func (w *watchdog) check(s engine.Snapshot, now time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s.Running+s.Waiting == 0 {
		w.since = time.Time{}
		return nil
	}
	if w.since.IsZero() || s.Steps != w.steps {
		w.steps, w.since = s.Steps, now
		return nil
	}
	if still := now.Sub(w.since); still > stuckAfter {
		return fmt.Errorf("the engine has %d sequences and has finished no step for %v", s.Running+s.Waiting, still.Round(time.Second))
	}
	return nil
}

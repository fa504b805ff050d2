package worker

import (
	"fmt"
	"sync"
	"time"

	"github.com/ingot-run/ingot/engine"
)

// stuckAfter is how long an engine may have work and end no step.
const stuckAfter = 2 * time.Minute

// pulse tells whether the engine moves, from the figures it shows when somebody looks.
type pulse struct {
	mu    sync.Mutex
	steps uint64
	since time.Time // when steps was first seen with work to do; zero where there was none
}

// check notes the engine's figures and returns an error where they have stood still for too long with work to do.
func (p *pulse) check(s engine.Snapshot, now time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.Running+s.Waiting == 0 {
		p.since = time.Time{}
		return nil
	}
	if p.since.IsZero() || s.Steps != p.steps {
		p.steps, p.since = s.Steps, now
		return nil
	}
	if still := now.Sub(p.since); still > stuckAfter {
		return fmt.Errorf("the engine has %d sequences and has ended no step for %v", s.Running+s.Waiting, still.Round(time.Second))
	}
	return nil
}

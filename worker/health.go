package worker

import (
	"fmt"
	"sync"
	"time"

	"github.com/ingot-run/ingot/engine"
)

// pulse records whether the worker can take rows from the queue and record results. Redis's PING
// cannot show this, since a server without free memory still answers it.
type pulse struct {
	slots int // maximum number of rows that the worker runs at once; with this many rows, it requests no more

	mu       sync.Mutex
	rows     int       // rows that the worker has taken and not finished
	free     time.Time // time when the number of rows last fell below slots
	refused  error     // error of the last attempt to record a result; nil if that succeeded
	refusing time.Time // time of the first error since the last success
}

func newPulse(slots int, now time.Time) *pulse { return &pulse{slots: slots, free: now} }

func (p *pulse) occupy() (free func()) {
	p.begin()
	return func() { p.end(time.Now()) }
}

// begin and end count the rows that the worker has taken and not finished.
func (p *pulse) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rows++
}

func (p *pulse) end(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rows == p.slots {
		p.free = now
	}
	p.rows--
}

func (p *pulse) recorded(now time.Time, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refused == nil && err != nil {
		p.refusing = now
	}
	p.refused = err
}

// check returns an error if the worker could not take rows, or could not record results, for longer
// than limit. fetched is the time when the queue last answered a request for a row.
func (p *pulse) check(now, fetched time.Time, limit time.Duration) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if since := now.Sub(p.refusing); p.refused != nil && since >= limit {
		return fmt.Errorf("for the last %v, no result could be recorded: %w", since.Round(time.Second), p.refused)
	}
	if fetched.Before(p.free) {
		fetched = p.free
	}
	if since := now.Sub(fetched); p.rows < p.slots && since >= limit {
		return fmt.Errorf("for the last %v, no row could be taken from the queue", since.Round(time.Second))
	}
	return nil
}

// stuckAfter is the maximum time that an engine with work may take without finishing a step.
const stuckAfter = 2 * time.Minute

// watchdog detects an engine that makes no progress. It compares snapshots of the engine's
// statistics.
type watchdog struct {
	mu    sync.Mutex
	steps uint64
	since time.Time // time of the first snapshot with this number of steps; zero if the engine had no work
}

// check takes a snapshot and returns an error if the engine has had work for too long without
// finishing a step.
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

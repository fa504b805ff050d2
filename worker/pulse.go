package worker

import (
	"fmt"
	"sync"
	"time"
)

// pulse records whether the worker can take rows from the queue and record results. A PING shows neither: a server without free
// memory answers it, too.
type pulse struct {
	slots int // rows that the worker may hold

	mu       sync.Mutex
	rows     int       // rows that the worker holds
	free     time.Time // time when a slot became free after all were taken
	refused  error     // error of the last attempt to record a result; nil if it succeeded
	refusing time.Time // when such errors began
}

func newPulse(slots int, now time.Time) *pulse { return &pulse{slots: slots, free: now} }

// begin and end record that the worker begins and ceases to hold a row. While all slots are taken, it does not ask for rows.
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

// recorded records the outcome of an attempt to record a result.
func (p *pulse) recorded(now time.Time, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refused == nil && err != nil {
		p.refusing = now
	}
	p.refused = err
}

// check returns an error if the worker could not take rows, or could not record results, for longer than patience. fetched is the
// time when the queue last answered a request for a row.
func (p *pulse) check(now, fetched time.Time, patience time.Duration) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if since := now.Sub(p.refusing); p.refused != nil && since >= patience {
		return fmt.Errorf("no result could be recorded for %v: %w", since.Round(time.Second), p.refused)
	}
	if fetched.Before(p.free) {
		fetched = p.free
	}
	if since := now.Sub(fetched); p.rows < p.slots && since >= patience {
		return fmt.Errorf("no row could be taken from the queue for %v", since.Round(time.Second))
	}
	return nil
}

package main

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// journal prints events with the time since the start, and collects faults. Its methods are safe
// for concurrent use.
type journal struct {
	out   io.Writer
	start time.Time

	mu    sync.Mutex
	found []error
}

func newJournal(out ...io.Writer) *journal {
	return &journal{out: io.MultiWriter(out...), start: time.Now()}
}

func (j *journal) note(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	fmt.Fprintf(j.out, "%7.2f s  %s\n", time.Since(j.start).Seconds(), fmt.Sprintf(format, args...)) //nolint:errcheck // nothing can be done about an output that fails
}

// fault records a fault of the program under test. The run continues, but fails at its end.
func (j *journal) fault(format string, args ...any) {
	err := fmt.Errorf(format, args...)
	j.note("FAULT: %v", err)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.found = append(j.found, err)
}

func (j *journal) faults() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.found) == 0 {
		return nil
	}
	return fmt.Errorf("%d faults:\n%w", len(j.found), errors.Join(j.found...))
}

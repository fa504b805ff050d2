package local

import (
	"encoding/json"
	"fmt"
	"sync"

	"github.com/ingot-run/ingot/openai"
	"github.com/ingot-run/ingot/queue"
)

// FailFastError means that a run was stopped since the rows at the start of the file all failed
// with one code. The output has their errors, and all answers that were finished.
type FailFastError struct {
	Rows  int
	First openai.Error // error of the row that failed first
}

func (e *FailFastError) Error() string {
	return fmt.Sprintf("stopped, since the first %d rows all failed with the code %s (such as %s)", e.Rows, e.First.Code, e.First.Message)
}

// failFast watches the first rows of a file.
type failFast struct {
	mu     sync.Mutex
	limit  int          // number of rows to watch; 0 for none, and once a row has succeeded or failed with another code
	rows   int          // number of rows that were queued
	lines  map[int]bool // lines of the first limit rows that have not ended
	failed int
	first  openai.Error
}

func (f *failFast) fed(line int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.rows >= f.limit {
		return
	}
	if f.lines == nil {
		f.lines = map[int]bool{}
	}
	f.rows++
	f.lines[line] = true
}

// ended returns a *FailFastError if all of the first rows have failed with one code.
func (f *failFast) ended(results []queue.Recording) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range results {
		if f.limit == 0 || !f.lines[r.Line] {
			continue
		}
		delete(f.lines, r.Line)
		var l struct {
			Error *openai.Error `json:"error"`
		}
		if !r.Failed || json.Unmarshal(r.Text, &l) != nil || l.Error == nil || f.failed > 0 && l.Error.Code != f.first.Code {
			f.limit, f.lines = 0, nil
			return nil
		}
		if f.failed == 0 {
			f.first = *l.Error
		}
		if f.failed++; f.failed == f.limit {
			return &FailFastError{Rows: f.failed, First: f.first}
		}
	}
	return nil
}

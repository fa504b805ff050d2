package queue

import (
	"fmt"
	"regexp"
	"strconv"
)

// Priority is the priority of a batch among the batches of the same model.
type Priority string

// The priorities of batches. A worker takes jobs from the three queues of its model in the ratio 6
// to 3 to 1.
const (
	Critical Priority = "critical"
	Default  Priority = "default"
	Bulk     Priority = "bulk"
)

// Interactive is the priority of requests whose clients wait for the answer. A worker has separate
// handlers for such jobs (see ServeOptions.Interactive), so these jobs do not compete with the jobs
// of batches. A batch cannot have this priority.
const Interactive Priority = "interactive"

// AllPriorities returns the priorities of all queues of a model.
func AllPriorities() []Priority { return []Priority{Interactive, Critical, Default, Bulk} }

// Priorities maps each priority of batches to its weight.
func Priorities() map[Priority]int {
	return map[Priority]int{Critical: 6, Default: 3, Bulk: 1}
}

// ParsePriority checks a priority's name.
func ParsePriority(s string) (Priority, error) {
	if p := Priority(s); Priorities()[p] > 0 {
		return p, nil
	}
	return "", fmt.Errorf("%q is not a priority: use critical, default or bulk", s)
}

// DefaultAlias is the model alias of producers and workers that set none.
const DefaultAlias = "default"

var (
	aliasForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/@+-]{0,127}$`)
	batchForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)
)

// CheckAlias returns an error if a model alias cannot be part of a queue's name.
func CheckAlias(s string) error {
	if aliasForm.MatchString(s) {
		return nil
	}
	return fmt.Errorf("%q is not a valid model name: use 1 to 128 letters, digits and . _ / @ + -, beginning with a letter or digit", s)
}

// CheckBatch returns an error if a batch id cannot be part of Redis keys and result ids.
func CheckBatch(s string) error {
	if batchForm.MatchString(s) {
		return nil
	}
	return fmt.Errorf("%q is not a valid batch id: use 1 to 128 letters, digits and . _ -, beginning with a letter or digit", s)
}

// TaskID returns an id that identifies a row among the rows of all batches, so that a row cannot be
// queued twice.
func TaskID(batch string, line int) string { return batch + ":" + strconv.Itoa(line) }

// Package job is what travels between producers and workers: jobs, results and their figures, the rows of files that
// they are read from and written to, and the Redis keys and scripts that both sides use.
package job

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"time"
)

// Endpoint is the OpenAI operation that a row asks for, named by its path.
type Endpoint string

// The endpoints that rows may name.
const (
	Chat        Endpoint = "/v1/chat/completions"
	Completions Endpoint = "/v1/completions"
)

// Priority is how soon a batch is served in comparison with others of the same model.
type Priority string

// The priorities. A worker takes jobs from the three queues of its model in the ratio 6 to 3 to 1, or, where it is told
// to be strict, from the first that is not empty.
const (
	Critical Priority = "critical"
	Default  Priority = "default"
	Bulk     Priority = "bulk"
)

// Priorities are all priorities with their weights.
func Priorities() map[Priority]int {
	return map[Priority]int{Critical: 6, Default: 3, Bulk: 1}
}

// ParsePriority checks a priority's name.
func ParsePriority(s string) (Priority, error) {
	if p := Priority(s); Priorities()[p] > 0 {
		return p, nil
	}
	return "", fmt.Errorf("priority %q is unknown: use critical, default or bulk", s)
}

// DefaultAlias names the model of producers and workers that name none.
const DefaultAlias = "default"

var (
	aliasForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/@+-]{0,127}$`)
	batchForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)
)

// CheckAlias says whether a model alias can name a queue.
func CheckAlias(s string) error {
	if aliasForm.MatchString(s) {
		return nil
	}
	return fmt.Errorf("model name %q: use 1 to 128 letters, digits and . _ / @ + -, beginning with a letter or digit", s)
}

// CheckBatch says whether a batch id can be used in keys and result ids.
func CheckBatch(s string) error {
	if batchForm.MatchString(s) {
		return nil
	}
	return fmt.Errorf("batch id %q: use 1 to 128 letters, digits and . _ -, beginning with a letter or digit", s)
}

// Queue is the name of the asynq queue of a model alias and a priority.
func Queue(alias string, p Priority) string { return alias + ":" + string(p) }

// TaskType is the type of the asynq tasks that carry jobs.
const TaskType = "ingot:job"

// TaskID is the asynq id of a row's task, so that a row cannot be queued twice.
func TaskID(batch string, line int) string { return batch + ":" + strconv.Itoa(line) }

// Job is one row on the queue: the payload of its task. It holds the row's body as it stood in the file. asynq's
// heartbeat writes the payloads of all running tasks again every 5 s, so nothing is added here that can be found elsewhere.
type Job struct {
	Batch       string          `json:"batch"`
	Line        int             `json:"line"` // of its file, from 1; a batch's rows are known by it
	Sum         string          `json:"sum"`  // see Row.Sum
	CustomID    string          `json:"custom_id"`
	Endpoint    Endpoint        `json:"url"`
	Body        json.RawMessage `json:"body"`
	EnqueuedMS  int64           `json:"enqueued_ms"` // Unix time
	TimeoutMS   int64           `json:"timeout_ms"`  // of one attempt
	MaxAttempts int             `json:"max_attempts"`
}

// Timeout is the time that one attempt may take.
func (j *Job) Timeout() time.Duration { return time.Duration(j.TimeoutMS) * time.Millisecond }

// Encode is the task's payload.
func (j *Job) Encode() ([]byte, error) { return marshal(j) }

// Decode reads a payload.
func Decode(payload []byte) (*Job, error) {
	j := new(Job)
	if err := json.Unmarshal(payload, j); err != nil {
		return nil, fmt.Errorf("read a job's payload: %w", err)
	}
	if CheckBatch(j.Batch) != nil || j.Line < 1 || j.MaxAttempts < 1 {
		return nil, fmt.Errorf("read a job's payload: batch %q, line %d and %d attempts are not a job's", j.Batch, j.Line, j.MaxAttempts)
	}
	return j, nil
}

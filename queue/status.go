package queue

import (
	"cmp"
	"slices"
	"time"
)

// State is a batch's state.
type State string

// The states of a batch. Its last state is Completed or Cancelled.
const (
	Enqueueing State = "enqueueing" // rows are being queued, or the producer was interrupted
	InProgress State = "in_progress"
	Completed  State = "completed" // every row is recorded
	Cancelled  State = "cancelled" // cancelled before every row was recorded
)

// Status is the progress of a batch.
type Status struct {
	Batch    string   `json:"batch"`
	Alias    string   `json:"model_name"` // model alias of the rows that name no model
	Models   []Model  `json:"models"`     // model aliases to which rows of the batch go; only Alias before rows are queued
	Priority Priority `json:"priority"`
	State    State    `json:"state"`
	FileSHA  string   `json:"file_sha256"`
	Weight   int      `json:"weight"`           // share among the batches of the same priority, see Batch
	Damage   string   `json:"damage,omitempty"` // why the batch cannot be read (only Batch is set then); empty if it can be read

	Created   time.Time  `json:"created_at"`
	Started   *time.Time `json:"started_at"`  // when a worker took the first row
	Finished  *time.Time `json:"finished_at"` // when the last row was recorded
	Cancelled *time.Time `json:"cancelled_at"`
	Expires   *time.Time `json:"expires_at"`  // when the results will be deleted
	Deadline  *time.Time `json:"deadline_at"` // time after which rows expire

	Total   int `json:"total"`   // rows; 0 until all are queued
	Done    int `json:"done"`    // answered
	Failed  int `json:"failed"`  // rows that are recorded as errors
	Running int `json:"running"` // rows that were taken by a worker and are not recorded, including rows that will be retried

	PromptTokens     int     `json:"prompt_tokens"`
	CachedTokens     int     `json:"cached_tokens"`
	CompletionTokens int     `json:"completion_tokens"`
	DraftTokens      int     `json:"draft_tokens"`
	AcceptedTokens   int     `json:"accepted_tokens"`
	RowsPerSecond    float64 `json:"rows_per_s"` // from the start to the last row recorded
	TokensPerSecond  float64 `json:"tokens_per_s"`

	last *time.Time // when a row was last recorded
}

// Model is a model alias to which rows of a batch go.
type Model struct {
	Alias string `json:"model_name"`
	Pin   string `json:"answered_by,omitempty"` // Pin of the model that gave the first answer under this alias; empty if there is none
}

// SetState sets State from the times of the batch. sealed reports whether all its rows are queued.
func (s *Status) SetState(sealed bool) {
	switch {
	case s.Finished != nil:
		s.State = Completed
	case s.Cancelled != nil:
		s.State = Cancelled
	case sealed:
		s.State = InProgress
	default:
		s.State = Enqueueing
	}
}

// Aliases returns the model aliases to which rows of the batch go.
func (s Status) Aliases() []string {
	names := make([]string, len(s.Models))
	for i, m := range s.Models {
		names[i] = m.Alias
	}
	return names
}

// SetModels sets Models, sorted by alias. aliases are those under which rows were queued. pins maps
// an alias to its Pin.
func (s *Status) SetModels(aliases []string, pins map[string]string) {
	if len(aliases) == 0 {
		aliases = []string{s.Alias}
	}
	slices.Sort(aliases)
	s.Models = nil
	for _, alias := range aliases {
		s.Models = append(s.Models, Model{alias, pins[alias]})
	}
}

// Waiting returns the number of queued rows that no worker has taken.
func (s Status) Waiting() int { return max(0, s.Total-s.Done-s.Failed-s.Running) }

// Ended reports whether the batch is completed or cancelled, so that it accepts no more results.
func (s Status) Ended() bool { return s.State == Completed || s.State == Cancelled }

// Overdue reports whether the deadline has passed and the batch has not ended.
func (s Status) Overdue() bool {
	return s.Deadline != nil && time.Now().After(*s.Deadline) && !s.Ended()
}

// SetRates sets the time when the last row was recorded, and the rates from the start of the batch
// to that time.
func (s *Status) SetRates(last time.Time) {
	s.last = &last
	s.RowsPerSecond = rate(s.Done+s.Failed, s.Took())
	s.TokensPerSecond = rate(s.CompletionTokens, s.Took())
}

// Count adds a recorded row.
func (s *Status) Count(r Result) {
	if r.Failed {
		s.Failed++
	} else {
		s.Done++
	}
	s.PromptTokens += r.Stats.PromptTokens
	s.CachedTokens += r.Stats.CachedTokens
	s.CompletionTokens += r.Stats.CompletionTokens
	s.DraftTokens += r.Stats.DraftTokens
	s.AcceptedTokens += r.Stats.AcceptedTokens
}

// Took returns the time from the start of the batch to the recording of the last row. It is 0 if
// either is missing.
func (s Status) Took() time.Duration {
	if s.Started == nil || s.last == nil {
		return 0
	}
	return max(0, s.last.Sub(*s.Started))
}

// SortStatuses sorts batches, the newest first.
func SortStatuses(all []Status) {
	slices.SortFunc(all, func(a, b Status) int { return cmp.Or(b.Created.Compare(a.Created), cmp.Compare(a.Batch, b.Batch)) })
}

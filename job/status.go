package job

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// State is a batch's state.
type State string

// The states, in their order.
const (
	Enqueueing State = "enqueueing" // rows are being queued, or the producer was interrupted
	InProgress State = "in_progress"
	Completed  State = "completed" // every row is recorded
	Cancelled  State = "cancelled" // before every row was recorded
)

// Status is the progress of a batch.
type Status struct {
	Batch    string   `json:"batch"`
	Alias    string   `json:"model_name"`
	Priority Priority `json:"priority"`
	State    State    `json:"state"`
	FileSHA  string   `json:"file_sha256"`

	Created   time.Time  `json:"created_at"`
	Started   *time.Time `json:"started_at"`  // when a worker took the first row
	Finished  *time.Time `json:"finished_at"` // when the last row was recorded
	Cancelled *time.Time `json:"cancelled_at"`
	Expires   *time.Time `json:"expires_at"` // when the results will be deleted

	Total   int `json:"total"`   // rows; 0 until all are queued
	Done    int `json:"done"`    // answered
	Failed  int `json:"failed"`  // recorded as errors
	Running int `json:"running"` // taken by a worker and not recorded, including those that will be retried

	PromptTokens     int     `json:"prompt_tokens"`
	CachedTokens     int     `json:"cached_tokens"`
	CompletionTokens int     `json:"completion_tokens"`
	DraftTokens      int     `json:"draft_tokens"`
	AcceptedTokens   int     `json:"accepted_tokens"`
	RowsPerSecond    float64 `json:"rows_per_s"` // from the start to the last row recorded
	TokensPerSecond  float64 `json:"tokens_per_s"`

	last *time.Time // when a row was last recorded
}

// Waiting is the number of rows queued so far that no worker has taken.
func (s Status) Waiting() int { return max(0, s.Total-s.Done-s.Failed-s.Running) }

// Ended reports whether the batch records no more results.
func (s Status) Ended() bool { return s.State == Completed || s.State == Cancelled }

// Took is the time from the start of the first row to the last one recorded.
func (s Status) Took() time.Duration {
	if s.Started == nil || s.last == nil {
		return 0
	}
	return max(0, s.last.Sub(*s.Started))
}

// Status reads the progress of a batch.
func (s *Store) Status(ctx context.Context, batch string) (Status, error) {
	pipe := s.rdb.Pipeline()
	meta := pipe.HGetAll(ctx, key(batch, "meta"))
	running := pipe.HLen(ctx, key(batch, "attempts"))
	life := pipe.PTTL(ctx, key(batch, "meta"))
	if _, err := pipe.Exec(ctx); err != nil {
		return Status{}, fmt.Errorf("read batch %s: %w", batch, err)
	}
	if len(meta.Val()) == 0 {
		return Status{}, fmt.Errorf("batch %s: %w (it was never queued here, or its retention is over; list all batches with ingot status)",
			batch, ErrNoBatch)
	}
	return newStatus(batch, meta, int(running.Val()), life.Val()), nil
}

// Batches reads the progress of all batches, the newest first.
func (s *Store) Batches(ctx context.Context) ([]Status, error) {
	var all []Status
	before, after, _ := strings.Cut(key("*", "meta"), "*")
	found := s.rdb.Scan(ctx, 0, key("*", "meta"), 1000).Iterator()
	for seen := map[string]bool{}; found.Next(ctx); { // SCAN may return a key twice
		batch := strings.TrimSuffix(strings.TrimPrefix(found.Val(), before), after)
		if seen[batch] {
			continue
		}
		seen[batch] = true
		st, err := s.Status(ctx, batch)
		if errors.Is(err, ErrNoBatch) { // its retention has just ended
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, st)
	}
	if err := found.Err(); err != nil {
		return nil, fmt.Errorf("list batches: %w", err)
	}
	slices.SortFunc(all, func(a, b Status) int { return cmp.Or(b.Created.Compare(a.Created), cmp.Compare(a.Batch, b.Batch)) })
	return all, nil
}

func newStatus(batch string, meta *redis.MapStringStringCmd, running int, life time.Duration) Status {
	m := meta.Val()
	number := func(name string) int {
		n, _ := strconv.Atoi(m[name]) // 0 if the field is not set yet
		return n
	}
	moment := func(name string) *time.Time {
		if m[name] == "" {
			return nil
		}
		t := time.UnixMilli(int64(number(name))).UTC()
		return &t
	}
	s := Status{
		Batch:            batch,
		Alias:            m["model"],
		Priority:         Priority(m["priority"]),
		State:            Enqueueing,
		FileSHA:          m["file_sha256"],
		Started:          moment("started_ms"),
		Finished:         moment("finished_ms"),
		Cancelled:        moment("cancelled_ms"),
		Total:            number("total"),
		Done:             number("done"),
		Failed:           number("failed"),
		Running:          running,
		PromptTokens:     number("prompt_tokens"),
		CachedTokens:     number("cached_tokens"),
		CompletionTokens: number("completion_tokens"),
		DraftTokens:      number("draft_tokens"),
		AcceptedTokens:   number("accepted_tokens"),
	}
	if t := moment("created_ms"); t != nil {
		s.Created = *t
	}
	switch {
	case s.Finished != nil:
		s.State = Completed
	case s.Cancelled != nil:
		s.State = Cancelled
	case m["total"] != "":
		s.State = InProgress
	}
	if life > 0 {
		t := time.Now().Add(life).UTC().Truncate(time.Second)
		s.Expires = &t
	}
	s.last = moment("last_ms")
	s.RowsPerSecond = rate(s.Done+s.Failed, s.Took())
	s.TokensPerSecond = rate(s.CompletionTokens, s.Took())
	return s
}

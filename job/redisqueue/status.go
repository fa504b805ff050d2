package redisqueue

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ingot-run/ingot/job"
)

// Status implements job.Store.
func (q *Queue) Status(ctx context.Context, batch string) (job.Status, error) {
	pipe := q.rdb.Pipeline()
	meta := pipe.HGetAll(ctx, key(batch, "meta"))
	running := pipe.HLen(ctx, key(batch, "attempts"))
	life := pipe.PTTL(ctx, key(batch, "meta"))
	if _, err := pipe.Exec(ctx); err != nil {
		return job.Status{}, failure(err, "read batch %s", batch)
	}
	if len(meta.Val()) == 0 {
		return job.Status{}, fmt.Errorf("batch %s: %w (it was never queued here, or its retention is over; list all batches with ingot status)",
			batch, job.ErrNoBatch)
	}
	return newStatus(batch, meta, int(running.Val()), life.Val()), nil
}

// Batches implements job.Store.
func (q *Queue) Batches(ctx context.Context) ([]job.Status, error) {
	var all []job.Status
	before, after, _ := strings.Cut(key("*", "meta"), "*")
	found := q.rdb.Scan(ctx, 0, key("*", "meta"), 1000).Iterator()
	for seen := map[string]bool{}; found.Next(ctx); { // SCAN may return a key twice
		batch := strings.TrimSuffix(strings.TrimPrefix(found.Val(), before), after)
		if seen[batch] {
			continue
		}
		seen[batch] = true
		st, err := q.Status(ctx, batch)
		if errors.Is(err, job.ErrNoBatch) { // its retention has just ended
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, st)
	}
	if err := found.Err(); err != nil {
		return nil, failure(err, "list batches")
	}
	job.SortStatuses(all)
	return all, nil
}

func newStatus(batch string, meta *redis.MapStringStringCmd, running int, life time.Duration) job.Status {
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
	s := job.Status{
		Batch:            batch,
		Alias:            m["model"],
		Priority:         job.Priority(m["priority"]),
		State:            job.Enqueueing,
		FileSHA:          m["file_sha256"],
		Started:          moment("started_ms"),
		Finished:         moment("finished_ms"),
		Cancelled:        moment("cancelled_ms"),
		Deadline:         moment("deadline_ms"),
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
		s.State = job.Completed
	case s.Cancelled != nil:
		s.State = job.Cancelled
	case m["total"] != "":
		s.State = job.InProgress
	}
	if life > 0 {
		t := time.Now().Add(life).UTC().Truncate(time.Second)
		s.Expires = &t
	}
	if last := moment("last_ms"); last != nil {
		s.SetRates(*last)
	}
	return s
}

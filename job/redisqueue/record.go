package redisqueue

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/ingot-run/ingot/job"
)

// Recorded implements job.Store.
func (q *Queue) Recorded(ctx context.Context, batch string) (job.Lines, error) {
	bits, err := q.rdb.Get(ctx, key(batch, "done")).Bytes()
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, failure(err, "read batch %s", batch)
	}
	return bits, nil
}

// Begin implements job.Store.
func (q *Queue) Begin(ctx context.Context, batch string, line int, file string) (attempt int, err error) {
	n, err := beginScript.Run(ctx, q.rdb, keys(batch, "meta", "done", "attempts"), line, now(), file).Int()
	switch {
	case err != nil:
		return 0, failure(err, "begin line %d of batch %s", line, batch)
	case n < 0:
		return 0, scriptError(n)
	case n == 0:
		return 0, job.ErrRecorded
	}
	return n, nil
}

// Release implements job.Store.
func (q *Queue) Release(ctx context.Context, batch string, line int) error {
	if err := releaseScript.Run(ctx, q.rdb, keys(batch, "attempts"), line).Err(); err != nil {
		return failure(err, "release line %d of batch %s", line, batch)
	}
	return nil
}

// Record implements job.Store.
func (q *Queue) Record(ctx context.Context, batch string, r job.Result) (first bool, err error) {
	outcome := "done"
	if r.Failed {
		outcome = "failed"
	}
	args := []any{r.Line, r.Text, outcome, now(), r.Sum, r.File, r.Job}
	for _, c := range []struct {
		name string
		n    int
	}{
		{"prompt_tokens", r.Stats.PromptTokens},
		{"cached_tokens", r.Stats.CachedTokens},
		{"completion_tokens", r.Stats.CompletionTokens},
		{"draft_tokens", r.Stats.DraftTokens},
		{"accepted_tokens", r.Stats.AcceptedTokens},
	} {
		if c.n > 0 {
			args = append(args, c.name, c.n)
		}
	}
	n, err := recordScript.Run(ctx, q.rdb, allKeys(batch), args...).Int()
	if err == nil {
		err = scriptError(n)
	}
	if err != nil {
		return false, failure(err, "record line %d of batch %s", r.Line, batch)
	}
	return n == 1, nil
}

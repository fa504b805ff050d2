package redisqueue

import (
	"context"
	"errors"
	"time"

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
func (q *Queue) Begin(ctx context.Context, j *job.Job) (job.Start, error) {
	ks, owner := keys(j.Batch, "meta", "done", "attempts", "deliveries", "checkpoints"), ""
	if h := heldIn(ctx, j.Batch, j.Line, j.Delivery); h != nil {
		var ok bool
		if owner, ok = h.newOwner(); !ok {
			return job.Start{}, job.ErrDeliveryEnded
		}
		ks = append(ks, taskKey(h.queue, h.delivery))
	}
	reply, err := beginScript.Run(ctx, q.rdb, ks, j.Line, now(), j.File, j.Delivery, j.Pin, owner).Slice()
	if err != nil {
		return job.Start{}, failure(err, "begin line %d of batch %s", j.Line, j.Batch)
	}
	n, _ := reply[0].(int64)
	switch {
	case n < 0:
		return job.Start{}, scriptError(int(n))
	case n == 0:
		return job.Start{}, job.ErrRecorded
	}
	start := job.Start{Attempt: int(n)}
	if len(reply) > 1 {
		text, _ := reply[1].(string)
		start.Checkpoint = []byte(text)
	}
	return start, nil
}

// SaveCheckpoint implements job.Store.
func (q *Queue) SaveCheckpoint(ctx context.Context, j *job.Job, checkpoint []byte) error {
	n, err := checkpointScript.Run(ctx, q.rdb, keys(j.Batch, "meta", "done", "deliveries", "checkpoints"), j.Line, j.Delivery, checkpoint).Int()
	if err == nil {
		err = scriptError(n)
	}
	return failure(err, "store the progress of line %d of batch %s", j.Line, j.Batch)
}

// Release implements job.Store.
func (q *Queue) Release(ctx context.Context, j *job.Job) error {
	err := releaseScript.Run(ctx, q.rdb, keys(j.Batch, "attempts", "deliveries"), j.Line, j.Delivery).Err()
	return failure(err, "release line %d of batch %s", j.Line, j.Batch)
}

// Record implements job.Store.
func (q *Queue) Record(ctx context.Context, batch string, r job.Result) (first bool, err error) {
	outcome := "done"
	if r.Failed {
		outcome = "failed"
	}
	h, task, queue := heldIn(ctx, batch, r.Line, r.Delivery), "", ""
	if h != nil {
		task, queue = h.id(), h.queue
	}
	at := time.Now()
	args := []any{
		r.Line, r.Text, outcome, at.UnixMilli(), r.Sum, r.File, r.Job, r.Delivery, r.Pin,
		task, queue, at.UTC().Format(time.DateOnly), at.Add(asynqStatsTTL).Unix(),
	}
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
	if h != nil && n == 1 {
		h.recorded()
	}
	return n == 1, nil
}

package redisqueue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ingot-run/ingot/queue"
)

// Recorded implements queue.Store.
func (q *Queue) Recorded(ctx context.Context, batch string) (queue.Lines, error) {
	bits, err := q.rdb.Get(ctx, key(batch, "done")).Bytes()
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, failure(err, "read batch %s", batch)
	}
	return bits, nil
}

// Record implements queue.Store.
func (q *Queue) Record(ctx context.Context, batch string, r queue.Result) (first bool, err error) {
	return q.recordOne(ctx, toRecord{batch: batch, result: r})
}

// toRecord is a result to be recorded.
type toRecord struct {
	batch    string
	delivery int
	queue    string // queue and task of the row; empty if the row has no running task
	task     string
	result   queue.Result
}

// size returns the size of the result's texts in bytes.
func (r toRecord) size() int { return len(r.result.Text) + len(r.result.Job) }

// recordCall returns a call of record.lua without rows.
func recordCall(rows int) *call {
	at := time.Now()
	return with(recordScript, "now", at.UnixMilli(), "today", today(at), "expire", statsEnd(at)).rows(rows,
		"batch", "line", "text", "failed", "sum", "file", "job", "delivery", "alias", "pin", "queue", "id",
		"prompt_tokens", "cached_tokens", "completion_tokens", "draft_tokens", "accepted_tokens")
}

// addTo adds the result as a row of a call of record.lua.
func (r toRecord) addTo(c *call) {
	t := &r.result
	c.add(r.batch, t.Line, t.Text, t.Failed, t.Sum, t.File, t.Job, r.delivery, t.Alias, t.Pin, r.queue, r.task,
		t.Stats.PromptTokens, t.Stats.CachedTokens, t.Stats.CompletionTokens, t.Stats.DraftTokens, t.Stats.AcceptedTokens)
}

// read reads item i of the reply of record.lua, which is for this row.
func (r toRecord) read(list []any, i int, err error) (first bool, _ error) {
	reply, err := rowReply(list, i, err)
	n, ok := reply.(int64)
	switch {
	case err == nil && !ok:
		err = fmt.Errorf("the reply of redis is not a number: %v", reply)
	case err == nil && n != 0: // 0: the row is recorded already, which is no error
		err = refusalOf(n)
	}
	return err == nil && n == 1, failure(err, "record line %d of batch %s", r.result.Line, r.batch)
}

// recordOne records a single result.
func (q *Queue) recordOne(ctx context.Context, r toRecord) (first bool, err error) {
	c := recordCall(1)
	r.addTo(c)
	list, err := q.run(ctx, c).Slice()
	return r.read(list, 0, err)
}

package redisqueue

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/ingot-run/ingot/queue"
)

// Create implements queue.Store.
func (q *Queue) Create(ctx context.Context, b queue.Batch) (existing queue.Batch, created bool, err error) {
	fields := []any{
		"model", b.Alias, "priority", string(b.Priority), "file_sha256", b.FileSHA,
		"retention_ms", b.Retention.Milliseconds(), "created_ms", now(), "done", 0, "failed", 0,
	}
	if !b.Deadline.IsZero() {
		fields = append(fields, "deadline_ms", b.Deadline.UnixMilli())
	}
	if b.Lines > 0 {
		fields = append(fields, "lines", b.Lines)
	}
	if b.ByModel {
		fields = append(fields, "by_model", 1)
	}
	c := with(createScript, "batch", b.ID, "mixed", b.MixModels, "weight", b.Weight).rows(len(fields)/2, "field", "value")
	c.add(fields...)
	n, err := q.run(ctx, c).Int()
	if err != nil {
		return queue.Batch{}, false, failure(err, "create batch %s", b.ID)
	}
	if n == 1 {
		return b, true, nil
	}
	m, err := q.rdb.HGetAll(ctx, key(b.ID, "meta")).Result()
	if err != nil {
		return queue.Batch{}, false, failure(err, "read batch %s", b.ID)
	}
	existing = queue.Batch{
		ID: b.ID, Alias: m["model"], Priority: queue.Priority(m["priority"]), FileSHA: m["file_sha256"], Cancelled: m["cancelled_ms"] != "",
		ByModel: m["by_model"] == "1",
	}
	if ms, err := strconv.ParseInt(m["deadline_ms"], 10, 64); err == nil {
		existing.Deadline = time.UnixMilli(ms).UTC()
	}
	return existing, false, nil
}

// Seal implements queue.Store.
func (q *Queue) Seal(ctx context.Context, batch string, total int, fileSHA string) error {
	err := q.check(ctx, with(sealScript, "batch", batch, "total", total, "now", now(), "file_sha256", fileSHA))
	return failure(err, "seal batch %s", batch)
}

// Cancel implements queue.Store. It works even while Redis has no memory left.
func (q *Queue) Cancel(ctx context.Context, batch string) (finished bool, err error) {
	if _, err := q.Status(ctx, batch); err != nil { // before a damaged batch is changed
		return false, fmt.Errorf("cancel: %w", err)
	}
	running, err := q.rdb.HKeys(ctx, key(batch, "attempts")).Result()
	if err != nil {
		return false, failure(err, "cancel batch %s", batch)
	}
	err = q.check(ctx, with(cancelScript, "batch", batch, "now", now()))
	if errors.Is(err, queue.ErrRecorded) {
		return true, nil
	}
	if err != nil {
		return false, failure(err, "cancel batch %s", batch)
	}
	pipe := q.rdb.Pipeline()
	for _, line := range running {
		pipe.Publish(ctx, cancelChannel, batch+":"+line)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return false, failure(err, "stop the running rows of batch %s", batch)
	}
	st, err := q.Status(ctx, batch)
	if err != nil {
		return false, err
	}
	return false, q.drain(ctx, st)
}

// Purge implements queue.Store. It works even while Redis has no memory left.
func (q *Queue) Purge(ctx context.Context, batch string) error {
	st, err := q.Status(ctx, batch)
	if err != nil {
		return err
	}
	if !st.Ended() {
		return fmt.Errorf("purge batch %s: %w: cancel it first", batch, queue.ErrUnfinished)
	}
	if err := q.drain(ctx, st); err != nil {
		return err
	}
	var keys []string
	for _, name := range batchKeys {
		keys = append(keys, key(batch, name))
	}
	return failure(q.rdb.Unlink(ctx, keys...).Err(), "purge batch %s", batch)
}

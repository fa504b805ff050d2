package redisqueue

import (
	"context"
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
	mixed := 0
	if b.MixModels {
		mixed = 1
	}
	weight := ""
	if b.Weight > 0 {
		weight = strconv.Itoa(b.Weight)
	}
	n, err := createScript.Run(ctx, q.rdb, keys(b.ID, "meta"), append([]any{mixed, weight}, fields...)...).Int()
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
	n, err := sealScript.Run(ctx, q.rdb, allKeys(batch), total, now(), fileSHA).Int()
	if err == nil {
		err = scriptError(n)
	}
	if err != nil {
		return failure(err, "seal batch %s", batch)
	}
	return nil
}

// Cancel implements queue.Store. It works even while Redis has no memory left.
func (q *Queue) Cancel(ctx context.Context, batch string) (finished bool, err error) {
	running, err := q.rdb.HKeys(ctx, key(batch, "attempts")).Result()
	if err != nil {
		return false, failure(err, "cancel batch %s", batch)
	}
	n, err := cancelScript.Run(ctx, q.rdb, allKeys(batch), now()).Int()
	if err == nil {
		err = scriptError(n)
	}
	if err != nil || n == 0 {
		return err == nil, failure(err, "cancel batch %s", batch)
	}
	if err := q.stopLines(ctx, batch, running); err != nil {
		return false, err
	}
	st, err := q.Status(ctx, batch)
	if err != nil {
		return false, err
	}
	return false, q.drain(ctx, st)
}

// stopLines ends the running deliveries of lines of a batch.
func (q *Queue) stopLines(ctx context.Context, batch string, running []string) error {
	var lines []int
	for _, text := range running {
		if line, err := strconv.Atoi(text); err == nil { // other fields are not lines
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		return nil
	}
	numbers, err := q.numbers(ctx, batch, lines...)
	if err != nil {
		return err
	}
	for i, line := range lines {
		if err := q.inspector.CancelProcessing(delivery{batch, line, numbers[i]}.id()); err != nil {
			return failure(err, "stop line %d of batch %s", line, batch)
		}
	}
	return nil
}

// Cancelled implements queue.Store.
func (q *Queue) Cancelled(ctx context.Context, batch string) (bool, error) {
	cancelled, err := q.rdb.HExists(ctx, key(batch, "meta"), "cancelled_ms").Result()
	if err != nil {
		return false, failure(err, "read batch %s", batch)
	}
	return cancelled, nil
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
	if err := q.rdb.Unlink(ctx, allKeys(batch)...).Err(); err != nil {
		return failure(err, "purge batch %s", batch)
	}
	return nil
}

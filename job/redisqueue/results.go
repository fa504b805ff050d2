package redisqueue

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/ingot-run/ingot/job"
)

// Read implements job.Store.
func (q *Queue) Read(ctx context.Context, batch string, p job.Page) ([]job.Recording, error) {
	after, block := p.After, p.Wait
	if after == "" {
		after = "0"
	}
	if block <= 0 {
		block = -1 // do not wait; 0 waits for ever
	}
	streams, err := q.rdb.XRead(ctx, &redis.XReadArgs{
		Streams: []string{key(batch, "stream"), after}, Count: int64(p.Count), Block: block,
	}).Result()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	if err != nil {
		return nil, failure(err, "read results of batch %s", batch)
	}
	var rows []job.Recording
	var wanted []int // indices of rows
	args := []any{p.MaxBytes}
	for _, m := range streams[0].Messages {
		text, _ := m.Values["line"].(string)
		line, err := strconv.Atoi(text)
		if err != nil {
			return nil, fmt.Errorf("read results of batch %s: entry %s has line %q", batch, m.ID, text)
		}
		requeued, _ := m.Values["was"].(string)
		if requeued == "" && p.Want(line) {
			wanted = append(wanted, len(rows))
			args = append(args, line)
		}
		sum, _ := m.Values["sum"].(string)
		rows = append(rows, job.Recording{ID: m.ID, Line: line, Sum: sum, Failed: m.Values["outcome"] == "failed", Requeued: requeued})
	}
	if len(wanted) == 0 {
		return rows, nil
	}
	texts, err := resultsScript.Run(ctx, q.rdb, keys(batch, "results"), args...).Slice()
	if err != nil {
		return nil, failure(err, "read results of batch %s", batch)
	}
	for i, text := range texts {
		if s, ok := text.(string); ok {
			rows[wanted[i]].Text = []byte(s)
		}
	}
	if len(texts) < len(wanted) {
		rows = rows[:wanted[len(texts)]]
	}
	return rows, nil
}

// Drop implements job.Store.
func (q *Queue) Drop(ctx context.Context, batch string, rows []job.Recording) error {
	if len(rows) == 0 {
		return nil
	}
	fields := make([]string, len(rows))
	ids := make([]string, len(rows))
	for i, r := range rows {
		fields[i], ids[i] = strconv.Itoa(r.Line), r.ID
	}
	pipe := q.rdb.Pipeline()
	pipe.HDel(ctx, key(batch, "results"), fields...)
	pipe.XDel(ctx, key(batch, "stream"), ids...)
	if _, err := pipe.Exec(ctx); err != nil {
		return failure(err, "drop results of batch %s", batch)
	}
	return nil
}

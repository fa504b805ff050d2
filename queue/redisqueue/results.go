package redisqueue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/ingot-run/ingot/queue"
)

// Read implements queue.Store.
func (q *Queue) Read(ctx context.Context, batch string, p queue.Page) ([]queue.Recording, error) {
	block := p.Wait
	if block <= 0 {
		block = -1 // do not wait; 0 waits for ever
	}
	streams, err := q.rdb.XRead(ctx, &redis.XReadArgs{
		Streams: []string{key(batch, "stream"), cmp.Or(p.After, "0")}, Count: int64(p.Count), Block: block,
	}).Result()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	if err != nil {
		return nil, failure(err, "read the stream of batch %s", batch)
	}
	var rows []queue.Recording
	var wanted []int // indices of rows whose results are read
	c := with(resultsScript, "batch", batch, "max_bytes", p.MaxBytes).rows(len(streams[0].Messages), "line")
	for _, m := range streams[0].Messages {
		r := recording(m)
		if r.Damage == "" && r.Requeued == "" && p.Want(r) {
			wanted = append(wanted, len(rows))
			c.add(r.Line)
		}
		rows = append(rows, r)
	}
	if len(wanted) == 0 {
		return rows, nil
	}
	texts, err := q.run(ctx, c).Slice()
	if err != nil {
		return nil, failure(err, "read recorded lines of batch %s", batch)
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

// recording converts an entry of a stream, without the text of the result, which the entry does not
// contain.
func recording(m redis.XMessage) queue.Recording {
	text, _ := m.Values["line"].(string)
	sum, _ := m.Values["sum"].(string)
	line, err := strconv.Atoi(text)
	if err != nil {
		err = fmt.Errorf("line %.40q is not a number", text)
	}
	if err = cmp.Or(err, queue.CheckLine(line), queue.CheckSum(sum)); err != nil {
		return queue.Recording{ID: m.ID, Damage: fmt.Sprintf("entry %s of the stream: %v", m.ID, err)}
	}
	requeued, _ := m.Values["was"].(string)
	failed := m.Values["failed"] == "1" || failedEarlier(m.Values)
	return queue.Recording{ID: m.ID, Line: line, Sum: sum, Failed: failed, Requeued: requeued}
}

// Discard implements queue.Store.
func (q *Queue) Discard(ctx context.Context, batch string, rows []queue.Recording, entries bool) error {
	if len(rows) == 0 {
		return nil
	}
	lines := make([]string, len(rows))
	ids := make([]string, len(rows))
	for i, r := range rows {
		lines[i], ids[i] = strconv.Itoa(r.Line), r.ID
	}
	pipe := q.rdb.Pipeline()
	pipe.HDel(ctx, key(batch, "results"), lines...)
	if entries {
		pipe.XDel(ctx, key(batch, "stream"), ids...)
	}
	_, err := pipe.Exec(ctx)
	return failure(err, "discard results of batch %s", batch)
}

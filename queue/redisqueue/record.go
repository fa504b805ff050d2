package redisqueue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ingot-run/ingot/queue"
)

const (
	// maxGroupBytes limits the wait for other results: once the results have this total size in
	// bytes, they are recorded.
	maxGroupBytes = 512 << 10
	// maxGroupedResult is the maximum size, in bytes, of a result that is recorded together with
	// other results.
	maxGroupedResult = 64 << 10
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
	worker   string // id of the worker that took the row; empty if none did
	result   queue.Result
	reply    chan recorded // gets the reply for this result; it has room for it
}

// recorded is the reply for one result.
type recorded struct {
	first bool
	err   error
}

// size returns the size of the result's texts in bytes.
func (r toRecord) size() int { return len(r.result.Text) + len(r.result.Job) }

// counters are the figures of results that are summed for their batch, by the names of their fields
// in the batch's meta. Scripts have the names in the table counters.
var counters = []struct {
	name string
	of   func(*queue.Stats) int
	sum  func(*queue.Status) *int
}{
	{"prompt_tokens", func(s *queue.Stats) int { return s.PromptTokens }, func(s *queue.Status) *int { return &s.PromptTokens }},
	{"cached_tokens", func(s *queue.Stats) int { return s.CachedTokens }, func(s *queue.Status) *int { return &s.CachedTokens }},
	{"completion_tokens", func(s *queue.Stats) int { return s.CompletionTokens }, func(s *queue.Status) *int { return &s.CompletionTokens }},
	{"draft_tokens", func(s *queue.Stats) int { return s.DraftTokens }, func(s *queue.Status) *int { return &s.DraftTokens }},
	{"accepted_tokens", func(s *queue.Stats) int { return s.AcceptedTokens }, func(s *queue.Status) *int { return &s.AcceptedTokens }},
}

// recordCall returns a call of record.lua. Its replies go to the results' channels.
func recordCall(results []toRecord) *call {
	at := time.Now()
	columns := []string{"batch", "line", "text", "failed", "sum", "file", "job", "delivery", "alias", "pin", "queue", "id", "worker"}
	for _, counter := range counters {
		columns = append(columns, counter.name)
	}
	c := with(recordScript, "now", at.UnixMilli(), "today", today(at), "expire", statsEnd(at)).rows(len(results), columns...)
	for _, r := range results {
		t := &r.result
		c.add(r.batch, t.Line, t.Text, t.Failed, t.Sum, t.File, t.Job, r.delivery, t.Alias, t.Pin, r.queue, r.task, r.worker)
		for _, counter := range counters {
			c.add(counter.of(&t.Stats))
		}
	}
	c.read = func(list []any, err error) {
		for i, r := range results {
			first, err := r.read(list, i, err)
			r.reply <- recorded{first, err}
		}
	}
	return c
}

// read reads item i of the reply of record.lua, which is for this row.
func (r toRecord) read(list []any, i int, err error) (first bool, _ error) {
	reply, err := rowReply(list, i, err)
	n, ok := reply.(int64)
	switch {
	case err == nil && !ok:
		err = fmt.Errorf("the reply of redis is not a number: %v", reply)
	case err == nil:
		err = refusalOf(n)
	}
	if errors.Is(err, queue.ErrRecorded) {
		return false, nil
	}
	return err == nil, failure(err, "record line %d of batch %s", r.result.Line, r.batch)
}

// recordOne records a single result.
func (q *Queue) recordOne(ctx context.Context, r toRecord) (first bool, err error) {
	r.reply = make(chan recorded, 1)
	q.runAll(ctx, recordCall([]toRecord{r}))
	reply := <-r.reply
	return reply.first, reply.err
}

// record records the result of a row together with other results.
func (f *feed) record(ctx context.Context, d *delivery, row toRecord) (first bool, err error) {
	row.reply = make(chan recorded, 1)
	f.mu.Lock()
	f.results = append(f.results, row)
	f.bytes += row.size()
	if !d.ending {
		d.ending = true
		f.capacity.ending++
		f.capacity.mean += (time.Since(d.since) - f.capacity.mean) / 8
	}
	full := f.isFull()
	f.mu.Unlock()
	signal(f.wake)
	if full {
		signal(f.full)
	}
	select {
	case r := <-row.reply:
		return r.first, r.err
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// isFull reports whether the results should be recorded now, without waiting for other results. The
// caller holds the mutex.
func (f *feed) isFull() bool {
	return len(f.results) >= f.capacity.group() || f.bytes >= maxGroupBytes || f.capacity.held-f.capacity.ending == 0
}

// wait waits for more results, so that they are recorded together. It returns after a pause, or
// when f.full receives a signal.
func (f *feed) wait() {
	f.mu.Lock()
	pause := f.capacity.pause()
	if f.isFull() {
		pause = 0
	}
	f.mu.Unlock()
	if pause == 0 {
		return
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-f.full:
	}
}

// nextResults removes the results that are recorded in the next round trip. The caller holds the
// mutex.
func (f *feed) nextResults() []toRecord {
	select {
	case <-f.full:
	default:
	}
	n := min(len(f.results), maxGroup)
	results := f.results[:n]
	f.results = slices.Clone(f.results[n:])
	if len(f.results) > 0 {
		signal(f.wake)
	}
	f.bytes = 0
	for _, w := range f.results {
		f.bytes += w.size()
	}
	return results
}

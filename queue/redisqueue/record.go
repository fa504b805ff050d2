package redisqueue

import (
	"context"
	"errors"
	"fmt"
	"strings"
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

// Begin implements queue.Store.
func (q *Queue) Begin(ctx context.Context, j *queue.Job) (queue.Start, error) {
	b := q.begin(ctx, []beginning{{j, heldIn(ctx, j.Batch, j.Line, j.Delivery)}})[0]
	return b.start, b.err
}

// begin is Begin for several rows, in one round trip.
func (q *Queue) begin(ctx context.Context, rows []beginning) []begun {
	all := beginnings{rows: rows}
	return all.results(beginScript.Run(ctx, q.rdb, nil, all.args()...).Slice())
}

// beginning is a row for which Begin is called. held is nil if Begin is called outside a handler of the row.
type beginning struct {
	*queue.Job
	held *held
}

// beginnings has rows that begin with one call of begin.lua.
type beginnings struct {
	rows []beginning
	sent []int // indices of the rows in the call; a delivery that has ended is left out
}

// begun is the result of Begin for one row.
type begun struct {
	start queue.Start
	err   error
}

// args returns the arguments of begin.lua.
func (b *beginnings) args() []any {
	args := make([]any, 0, 1+8*len(b.rows))
	args = append(args, now())
	for i, r := range b.rows {
		task, owner := "", ""
		if r.held != nil {
			var ok bool
			if owner, ok = r.held.newOwner(); !ok {
				continue
			}
			task = r.held.key()
		}
		args = append(args, r.Batch, r.Line, r.File, r.Delivery, r.Alias, r.Pin, task, owner)
		b.sent = append(b.sent, i)
	}
	return args
}

// results returns the result of each row, given the reply of begin.lua.
func (b *beginnings) results(replies []any, err error) []begun {
	results := make([]begun, len(b.rows))
	for i := range results {
		results[i].err = queue.ErrDeliveryEnded // unless the row was sent
	}
	for n, i := range b.sent {
		r := &results[i]
		switch reply := replyTo(replies, n, err).(type) {
		case []any:
			r.start, r.err = startOf(reply)
		default:
			r.err = replyFailure(reply)
		}
		if r.err != nil && !isRefusal(r.err) {
			r.err = failure(r.err, "begin line %d of batch %s", b.rows[i].Line, b.rows[i].Batch)
		}
	}
	return results
}

// startOf reads the reply of begin.lua for a row.
func startOf(reply []any) (start queue.Start, err error) {
	n, _ := reply[0].(int64)
	switch {
	case n < 0:
		return start, scriptError(int(n))
	case n == 0:
		return start, queue.ErrRecorded
	}
	start.Attempt = int(n)
	if len(reply) > 1 {
		text, _ := reply[1].(string)
		start.Checkpoint = []byte(text)
	}
	return start, nil
}

// isRefusal reports whether an error means that a script refused the row, as opposed to an error of Redis.
func isRefusal(err error) bool {
	for n := -7; n < 0; n++ {
		if errors.Is(err, scriptError(n)) {
			return true
		}
	}
	return errors.Is(err, queue.ErrRecorded)
}

// replyTo returns the reply of a script to row n of several rows. err is the error of the whole script.
func replyTo(replies []any, n int, err error) any {
	switch {
	case err != nil:
		return err
	case n >= len(replies):
		return errors.New("the reply of redis has no entry for this row")
	}
	return replies[n]
}

// replyFailure returns the error that a reply contains instead of a result.
func replyFailure(reply any) error {
	switch r := reply.(type) {
	case error:
		return r
	case string:
		return replyError(r)
	}
	return fmt.Errorf("the reply of redis is neither a result nor an error: %v", reply)
}

// replyError is an error of Redis that a script has returned for one of several rows.
type replyError string

func (e replyError) Error() string { return string(e) }

// RedisError implements redis.Error.
func (replyError) RedisError() {}

// SaveCheckpoint implements queue.Store.
func (q *Queue) SaveCheckpoint(ctx context.Context, j *queue.Job, checkpoint []byte) error {
	n, err := checkpointScript.Run(ctx, q.rdb, nil, j.Batch, j.Line, j.Delivery, checkpoint).Int()
	if err == nil {
		err = scriptError(n)
	}
	return failure(err, "store the progress of line %d of batch %s", j.Line, j.Batch)
}

// Release implements queue.Store.
func (q *Queue) Release(ctx context.Context, j *queue.Job) error {
	err := releaseScript.Run(ctx, q.rdb, keys(j.Batch, "attempts", "deliveries"), j.Line, j.Delivery).Err()
	return failure(err, "release line %d of batch %s", j.Line, j.Batch)
}

// maxGroupedResult is the maximum size, in bytes, of a result that is recorded together with other results.
const maxGroupedResult = 64 << 10

// Record implements queue.Store. Inside a row's handler, results of several rows are recorded together, unless they are large.
func (q *Queue) Record(ctx context.Context, batch string, r queue.Result) (first bool, err error) {
	h := heldIn(ctx, batch, r.Line, r.Delivery)
	var reply any
	if h != nil && h.feed != nil && len(r.Text)+len(r.Job) <= maxGroupedResult {
		reply = h.feed.record(ctx, toRecord{batch: batch, result: r, held: h})
	} else {
		replies, err := recordScript.Run(ctx, q.rdb, nil, recordArgs([]toRecord{{batch: batch, result: r, held: h}})...).Slice()
		reply = replyTo(replies, 0, err)
	}
	n, ok := reply.(int64)
	if ok {
		err = scriptError(int(n))
	} else {
		err = replyFailure(reply)
	}
	if err != nil {
		return false, failure(err, "record line %d of batch %s", r.Line, batch)
	}
	if h != nil && n == 1 {
		h.recorded.Store(true)
	}
	return n == 1, nil
}

// toRecord is a result to be recorded.
type toRecord struct {
	batch  string
	result queue.Result
	held   *held    // nil if Record is called outside a handler of the row
	reply  chan any // gets the reply of the script, or an error
}

// size returns the size of the result's texts in bytes.
func (r toRecord) size() int { return len(r.result.Text) + len(r.result.Job) }

// recordArgs returns the arguments of record.lua.
func recordArgs(rows []toRecord) []any {
	at := time.Now()
	args := make([]any, 0, 3+17*len(rows))
	args = append(args, at.UnixMilli(), today(at), statsEnd(at))
	for i := range rows {
		r := &rows[i].result
		outcome, queue, task := "done", "", ""
		if r.Failed {
			outcome = "failed"
		}
		if h := rows[i].held; h != nil {
			queue, task = h.queue, h.task
		}
		args = append(args, rows[i].batch, r.Line, r.Text, outcome, r.Sum, r.File, r.Job, r.Delivery, r.Alias, r.Pin, queue, task,
			r.Stats.PromptTokens, r.Stats.CachedTokens, r.Stats.CompletionTokens, r.Stats.DraftTokens, r.Stats.AcceptedTokens)
	}
	return args
}

// today returns the day (UTC) in the form that asynq uses in the keys of its daily counts.
func today(at time.Time) string { return at.UTC().Format(time.DateOnly) }

// statsEnd returns the Unix time, in seconds, until which asynq keeps the counts of the day.
func statsEnd(at time.Time) int64 { return at.Add(asynqStatsTTL).Unix() }

// runScripts runs scripts in one round trip. A script that the server does not have yet is sent again, with its source.
func runScripts(ctx context.Context, rdb redis.UniversalClient, calls []scriptCall) []*redis.Cmd {
	if len(calls) == 1 {
		return []*redis.Cmd{calls[0].script.Run(ctx, rdb, nil, calls[0].args...)}
	}
	pipe := rdb.Pipeline()
	replies := make([]*redis.Cmd, len(calls))
	for i, c := range calls {
		replies[i] = c.script.EvalSha(ctx, pipe, nil, c.args...)
	}
	_, err := pipe.Exec(ctx)
	for i, c := range calls {
		switch {
		case replies[i].Err() != nil && strings.HasPrefix(replies[i].Err().Error(), "NOSCRIPT"):
			replies[i] = c.script.Run(ctx, rdb, nil, c.args...)
		case err != nil && replies[i].Err() == nil && replies[i].Val() == nil:
			replies[i].SetErr(err) // it was not sent
		}
	}
	return replies
}

// scriptCall is a script with its arguments.
type scriptCall struct {
	script *redis.Script
	args   []any
}

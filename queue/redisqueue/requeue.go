package redisqueue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/ingot-run/ingot/queue"
)

// requeuedAtOnce is the maximum number of rows that one call of queueAgain queues.
const requeuedAtOnce = 100

// Requeued is the result of Requeue.
type Requeued struct {
	Queued int // rows that are queued again
	Kept   int // failed rows that stay recorded because they are invalid
}

// Requeue queues failed rows of a batch again: the rows with the given error code or, if code is
// empty, all failed rows. These rows are no longer recorded, and collectors remove their error
// lines from outputs. A finished batch is in progress again. Requeue also queues the rows that an
// earlier, interrupted call has left unqueued. The error is queue.ErrCancelled for a cancelled
// batch.
func (q *Queue) Requeue(ctx context.Context, batch, code string) (done Requeued, err error) {
	s, err := q.Status(ctx, batch)
	if err != nil {
		return done, err
	}
	err = queue.Errors(ctx, q, batch, func(e queue.RowError) error {
		if code != "" && e.Code != code {
			return nil
		}
		err := q.check(ctx, with(requeueScript, "batch", batch, "line", e.Line, "entry", e.ID, "sum", e.Sum, "now", now()))
		if errors.Is(err, queue.ErrRecorded) {
			done.Kept++
			return nil
		}
		return failure(err, "queue line %d of batch %s again", e.Line, batch)
	})
	if err != nil {
		return done, err
	}
	lines, err := q.unrecorded(ctx, batch)
	if err != nil {
		return done, err
	}
	for chunk := range slices.Chunk(lines, requeuedAtOnce) {
		added, err := q.queueAgain(ctx, s, chunk)
		done.Queued += added
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

// unrecorded returns the lines whose recordings Requeue has deleted, now or in an earlier call, and
// that were not recorded again since.
func (q *Queue) unrecorded(ctx context.Context, batch string) (lines []int, err error) {
	recorded, err := q.Recorded(ctx, batch)
	if err != nil {
		return nil, err
	}
	fields, err := q.rdb.HKeys(ctx, key(batch, "jobs")).Result()
	if err != nil {
		return nil, failure(err, "read the failed rows of batch %s", batch)
	}
	for _, text := range fields {
		line, err := strconv.Atoi(text)
		if err == nil && line > 0 && !recorded.Has(line) {
			lines = append(lines, line)
		}
	}
	slices.Sort(lines)
	return lines, nil
}

// queueAgain queues the jobs of failed rows, unless they are queued already. added is the number of
// queued rows.
func (q *Queue) queueAgain(ctx context.Context, s queue.Status, lines []int) (added int, err error) {
	fields := make([]string, len(lines))
	for i, line := range lines {
		fields[i] = strconv.Itoa(line)
	}
	payloads, err := q.rdb.HMGet(ctx, key(s.Batch, "jobs"), fields...).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return 0, failure(err, "read the failed rows of batch %s", s.Batch)
	}
	jobs := map[string][]*queue.Job{} // by the alias of their queue
	for i, p := range payloads {
		text, ok := p.(string)
		if !ok {
			continue // the row has just been answered
		}
		j, err := queue.Decode([]byte(text))
		if err == nil && (j.Batch != s.Batch || j.Line != lines[i]) {
			err = errors.New("the stored job belongs to another row")
		}
		if err != nil {
			return 0, fmt.Errorf("queue line %d of batch %s again: %w", lines[i], s.Batch, err)
		}
		if j.Overdue() {
			j.DeadlineMS = 0
		}
		alias := cmp.Or(j.Alias, s.Alias)
		jobs[alias] = append(jobs[alias], j)
	}
	for alias, some := range jobs {
		queued, err := q.Add(ctx, alias, s.Priority, some)
		for _, yes := range queued {
			if yes {
				added++
			}
		}
		if err != nil {
			return added, err
		}
	}
	return added, nil
}

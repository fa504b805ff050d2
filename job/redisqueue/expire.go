package redisqueue

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"

	"github.com/hibiken/asynq"
	"golang.org/x/sync/errgroup"

	"github.com/ingot-run/ingot/job"
)

// expiredAtOnce is the number of rows that are ended at a time. Most of the time is round trips to Redis.
const expiredAtOnce = 16

// Expire implements job.Queue.
func (q *Queue) Expire(ctx context.Context, batch string) (n int, err error) {
	s, err := q.Status(ctx, batch)
	if err != nil || !s.Overdue() {
		return 0, err
	}
	queue := queueName(s.Alias, s.Priority)
	tasks, err := q.tasksOf(ctx, queue, batch)
	if err != nil {
		return 0, err
	}
	var ended atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(expiredAtOnce)
	for _, id := range tasks {
		group.Go(func() error {
			first, err := q.expireTask(ctx, queue, id, batch)
			if first {
				ended.Add(1)
			}
			return err
		})
	}
	err = group.Wait()
	return int(ended.Load()), failure(err, "end the overdue rows of batch %s", batch)
}

// tasksOf returns the ids of a batch's tasks.
func (q *Queue) tasksOf(ctx context.Context, queue, batch string) (ids []string, err error) {
	const chunk = 10_000
	prefix := asynqKey(queue, "")
	for _, name := range []string{"pending", "active", "scheduled", "retry", "archived"} {
		for start := int64(0); ; start += chunk {
			var all []string
			if name == "pending" || name == "active" {
				all, err = q.rdb.LRange(ctx, prefix+name, start, start+chunk-1).Result()
			} else {
				all, err = q.rdb.ZRange(ctx, prefix+name, start, start+chunk-1).Result()
			}
			if err != nil {
				return nil, failure(err, "list the rows of batch %s", batch)
			}
			for _, id := range all {
				if strings.HasPrefix(id, batch+":") {
					ids = append(ids, id)
				}
			}
			if len(all) < chunk {
				break
			}
		}
	}
	return ids, nil
}

// expireTask records the row of a task as expired, then deletes the task. A task that a worker is running is not deleted: the worker will
// find its row recorded.
// first reports whether the row was not recorded before.
func (q *Queue) expireTask(ctx context.Context, queue, id, batch string) (first bool, err error) {
	info, err := q.inspector.GetTaskInfo(queue, id)
	if errors.Is(err, asynq.ErrTaskNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	j, err := job.Decode(info.Payload)
	d, ok := parseDelivery(id)
	if err != nil || !ok || j.Batch != batch || !j.Overdue() {
		return false, nil //nolint:nilerr // it is no job of this batch: a worker archives or drops it
	}
	j.Delivery = d.number
	r, err := job.Expired(j)
	if err == nil {
		first, err = q.Record(ctx, batch, r)
	}
	if errors.Is(err, job.ErrSuperseded) {
		return false, nil // the row has another task by now
	}
	if err != nil {
		return false, err
	}
	err = q.inspector.DeleteTask(queue, id)
	if err == nil || errors.Is(err, asynq.ErrTaskNotFound) || info.State == asynq.TaskStateActive {
		return first, nil
	}
	info, again := q.inspector.GetTaskInfo(queue, id)
	if again == nil && info.State == asynq.TaskStateActive || errors.Is(again, asynq.ErrTaskNotFound) {
		return first, nil // a worker has just taken it
	}
	return first, err
}

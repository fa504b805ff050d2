package redisqueue

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/ingot-run/ingot/queue"
)

// expiredAtOnce is the number of rows that expire concurrently. Most of the time is spent on round
// trips to Redis.
const expiredAtOnce = 16

// Expire implements queue.Queue.
func (q *Queue) Expire(ctx context.Context, batch string) (int, error) {
	s, err := q.Status(ctx, batch)
	if err != nil || !s.Overdue() {
		return 0, err
	}
	var ended atomic.Int64
	for _, queue := range queuesOfBatch(s) {
		tasks, err := q.tasksOf(ctx, queue, batch)
		if err != nil {
			return int(ended.Load()), err
		}
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
		if err := group.Wait(); err != nil {
			return int(ended.Load()), failure(err, "end the overdue rows of batch %s", batch)
		}
	}
	return int(ended.Load()), nil
}

// tasksOf returns the ids of a batch's tasks. It reads the queue's lists in the order in which a
// task passes through them, so that it does not miss a task that moves on meanwhile.
func (q *Queue) tasksOf(ctx context.Context, queue, batch string) (ids []string, err error) {
	const chunk = 10_000
	for _, part := range []struct {
		key, prefix string // prefix is put before each element to form an id
		read        func(ctx context.Context, key string, start, stop int64) *redis.StringSliceCmd
	}{
		{waitingKey(queue, batch), batch + ":", q.rdb.LRange},
		{asynqKey(queue, "pending"), "", q.rdb.LRange},
		{asynqKey(queue, "active"), "", q.rdb.LRange},
		{asynqKey(queue, "scheduled"), "", q.rdb.ZRange},
		{asynqKey(queue, "retry"), "", q.rdb.ZRange},
		{asynqKey(queue, "archived"), "", q.rdb.ZRange},
	} {
		for start := int64(0); ; start += chunk {
			all, err := part.read(ctx, part.key, start, start+chunk-1).Result()
			if err != nil {
				return nil, failure(err, "list the rows of batch %s", batch)
			}
			for _, id := range all {
				if id = part.prefix + id; strings.HasPrefix(id, batch+":") {
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

// expireTask records the row of a task as expired, then deletes the task unless it is running. The
// worker of a running task finds out later that the row is recorded. first reports whether the row
// was not recorded before.
func (q *Queue) expireTask(ctx context.Context, name, id, batch string) (first bool, err error) {
	message, err := q.rdb.HGet(ctx, taskKey(name, id), "msg").Result()
	if isNil(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	j, err := jobOf(id, message)
	if err != nil || j.Batch != batch || !j.Overdue() {
		return false, nil //nolint:nilerr // the task is not a job of this batch: a worker archives or drops it
	}
	number, err := q.rdb.HGet(ctx, key(batch, "deliveries"), strconv.Itoa(j.Line)).Int()
	if err != nil && !isNil(err) {
		return false, err
	}
	r, err := queue.Expired(j)
	if err == nil {
		first, err = q.recordOne(ctx, toRecord{batch: batch, delivery: number, result: r})
	}
	if errors.Is(err, queue.ErrSuperseded) {
		return false, nil // the row is being delivered again
	}
	if err != nil {
		return false, err
	}
	return first, q.deleteTask(ctx, name, id)
}

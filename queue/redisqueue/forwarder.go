package redisqueue

import (
	"context"
	"log/slog"
	"math"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// forwardInterval is the time between two searches of a worker for rows whose retry is due.
	forwardInterval = 2 * time.Second
	// maxForwarded is the maximum number of rows that one search moves from each set.
	maxForwarded = 1000
	// archiveInterval is the time between two searches for archived jobs.
	archiveInterval = time.Minute
	// archivePage is the number of archived tasks that are read at a time.
	archivePage = 100
)

// forward returns rows of a model alias to their queues when their retry is due, or when they were
// passed on and no live worker of the alias has a longer context.
func (q *Queue) forward(ctx context.Context, alias string) error {
	queues := queuesOf(alias)
	longest, err := q.longest(ctx, alias, queues)
	if err != nil {
		return err
	}
	return failure(q.run(ctx, with(forwardScript, "max", maxForwarded, "longest", longest).queues(queues)).Err(), "run forward.lua")
}

// longest returns the longest context of the live workers of an alias. If no rows of the alias's
// queues were passed on, it asks no workers and returns the largest number: a row that is passed on
// before the script runs then waits for the next search.
func (q *Queue) longest(ctx context.Context, alias string, queues []string) (longest int, err error) {
	var keys []string
	for _, name := range queues {
		keys = append(keys, longerKey(name))
	}
	if n, err := q.rdb.Exists(ctx, keys...).Result(); err != nil || n == 0 {
		return math.MaxInt32, failure(err, "look for rows that were passed on")
	}
	workers, err := q.Fleet(ctx)
	for _, w := range workers {
		if w.Live() && w.Serves(alias) {
			longest = max(longest, w.Context)
		}
	}
	return longest, err
}

// longerKey returns the key of a queue's rows that were passed on: a sorted set of ids of tasks in
// the set of retries, by the context in tokens that is too short for them.
func longerKey(queue string) string { return "ingot:{" + queue + "}:longer" }

// unarchive queues archived jobs of a model alias again. This package archives no job, but an
// operator can with asynq's tools, and a batch with an archived job would never end. The worker
// drops the queued job if its row needs no answer. Tasks that are not jobs stay archived.
func (q *Queue) unarchive(ctx context.Context, alias string, log *slog.Logger) error {
	for _, queue := range queuesOf(alias) {
		archived, err := q.archivedJobs(ctx, queue)
		if err != nil {
			return failure(err, "list archived jobs of queue %s", queue)
		}
		for _, id := range archived {
			if err := q.inspector.RunTask(queue, id); err != nil {
				log.Debug("could not queue an archived job again: another worker may have done so", "task", id, "error", err)
			} else {
				log.Warn("queued an archived job again", "task", id)
			}
		}
	}
	return nil
}

// archivedJobs returns the ids of a queue's archived jobs.
func (q *Queue) archivedJobs(ctx context.Context, queue string) (ids []string, err error) {
	for first := int64(0); ; first += archivePage {
		page, err := q.rdb.ZRange(ctx, asynqKey(queue, "archived"), first, first+archivePage-1).Result()
		if err != nil || len(page) == 0 {
			return ids, err
		}
		messages := make([]*redis.StringCmd, len(page))
		_, err = q.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i, id := range page {
				messages[i] = p.HGet(ctx, taskKey(queue, id), "msg")
			}
			return nil
		})
		if err != nil && !isNil(err) {
			return ids, err
		}
		for i, id := range page {
			if _, err := jobOf(id, messages[i].Val()); err == nil {
				ids = append(ids, id)
			}
		}
	}
}

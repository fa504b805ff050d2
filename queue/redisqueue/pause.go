package redisqueue

import (
	"context"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/ingot-run/ingot/queue"
)

// pausedKey returns asynq's key that pauses a queue. While the key exists, take.lua takes no tasks
// of the queue.
func pausedKey(alias string, p queue.Priority) string {
	return asynqKey(queueName(alias, p), "paused")
}

// Pause stops workers from taking rows of a model alias until Resume is called. Running rows are
// finished. changed reports whether any of the alias's queues was not paused before.
func (q *Queue) Pause(ctx context.Context, alias string) (changed bool, err error) {
	n, err := q.run(ctx, with(pauseScript, "now_s", now()/1000).queues(queuesOf(alias))).Int()
	return n > 0, failure(err, "pause model name %s", alias)
}

// Resume ends a pause. changed reports whether any of the alias's queues was paused.
func (q *Queue) Resume(ctx context.Context, alias string) (changed bool, err error) {
	var keys []string
	for _, p := range queue.AllPriorities() {
		keys = append(keys, pausedKey(alias, p))
	}
	n, err := q.rdb.Del(ctx, keys...).Result()
	return n > 0, failure(err, "resume model name %s", alias)
}

// Aliases returns the model aliases for which rows were ever queued or that a live worker serves,
// and whether they are paused.
func (q *Queue) Aliases(ctx context.Context) (paused map[string]bool, err error) {
	queues, err := q.rdb.SMembers(ctx, asynqQueues).Result()
	if err != nil {
		return nil, failure(err, "list model names")
	}
	workers, err := q.Fleet(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, w := range workers {
		if w.Live() {
			names = append(names, w.Aliases...)
		}
	}
	for _, queue := range queues {
		if i := strings.LastIndexByte(queue, ':'); i > 0 {
			names = append(names, queue[:i])
		}
	}
	names = slices.DeleteFunc(names, func(name string) bool { return queue.CheckAlias(name) != nil }) // not written by ingot
	slices.Sort(names)
	paused = map[string]bool{}
	pipe := q.rdb.Pipeline()
	exist := map[string][]*redis.IntCmd{}
	for _, name := range slices.Compact(names) {
		for _, p := range queue.AllPriorities() {
			exist[name] = append(exist[name], pipe.Exists(ctx, pausedKey(name, p)))
		}
	}
	if len(exist) > 0 {
		if _, err := pipe.Exec(ctx); err != nil {
			return nil, failure(err, "read which model names are paused")
		}
	}
	for name, keys := range exist {
		paused[name] = slices.ContainsFunc(keys, func(c *redis.IntCmd) bool { return c.Val() > 0 })
	}
	return paused, nil
}

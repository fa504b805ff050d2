package redisqueue

import (
	"context"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/ingot-run/ingot/queue"
)

// Pause stops workers from taking rows of a model alias until Resume is called. Running rows are
// finished. changed reports whether any of the alias's queues was not paused before.
func (q *Queue) Pause(ctx context.Context, alias string) (changed bool, err error) {
	n, err := q.run(ctx, with(pauseScript, "now_s", now()/1000).queues(queuesOf(alias))).Int()
	return n > 0, failure(err, "pause model name %s", alias)
}

// Resume ends a pause. changed reports whether any of the alias's queues was paused.
func (q *Queue) Resume(ctx context.Context, alias string) (changed bool, err error) {
	n, err := q.rdb.Del(ctx, pausedKeys(alias)...).Result()
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
	pipe := q.rdb.Pipeline()
	found := map[string]*redis.IntCmd{}
	for _, name := range names {
		if found[name] == nil && queue.CheckAlias(name) == nil { // others were not written by ingot
			found[name] = pipe.Exists(ctx, pausedKeys(name)...)
		}
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, failure(err, "read which model names are paused")
	}
	paused = map[string]bool{}
	for name, keys := range found {
		paused[name] = keys.Val() > 0
	}
	return paused, nil
}

// pausedKeys returns asynq's keys that pause the queues of a model alias. While such a key exists,
// take.lua takes no tasks of its queue.
func pausedKeys(alias string) []string { return asynqKeys(alias, "paused") }

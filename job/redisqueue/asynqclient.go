package redisqueue

import (
	"cmp"
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// asynqClient is the Redis client of one asynq server. It replaces some of asynq's scripts, so that a row takes three round trips
// instead of six:
//
//   - asynq asks one queue for a task. take.lua asks all queues of the server at once, and refills the queue that had a task.
//   - asynq removes a task when its handler has returned. This script is not sent if Record has already removed the task. It counts as
//     successful if the task is gone for another reason, for example because another worker has it; asynq would otherwise repeat the
//     script until the lease ends.
//   - asynq returns a failed task to the queue. The task is then deleted if its batch is cancelled or no longer exists.
type asynqClient struct {
	redis.UniversalClient
	server *server
	queues map[string]int // weights, as in asynq's settings
	strict bool
	// empty is the number of asynq's next requests that are answered with "no task" without asking Redis. asynq asks its queues one
	// after another, on one goroutine. If all are empty, the first request has shown it for the others.
	empty int
}

// EvalSha implements redis.UniversalClient.
func (c *asynqClient) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	if isFetch(keys) {
		queue, _ := strings.CutSuffix(strings.TrimPrefix(keys[0], "asynq:{"), "}:pending")
		return c.take(ctx, queue, args[0])
	}
	return c.step(ctx, keys, func() *redis.Cmd { return c.UniversalClient.EvalSha(ctx, sha, keys, args...) })
}

// Eval implements redis.UniversalClient.
func (c *asynqClient) Eval(ctx context.Context, script string, keys []string, args ...any) *redis.Cmd {
	return c.step(ctx, keys, func() *redis.Cmd { return c.UniversalClient.Eval(ctx, script, keys, args...) })
}

// isFetch recognises asynq's request for a task by its first keys: the pending tasks of a queue and its pause.
func isFetch(keys []string) bool {
	return len(keys) > 1 && strings.HasSuffix(keys[0], "}:pending") && strings.HasSuffix(keys[1], "}:paused")
}

// take takes a task of the queue that asynq asks for or, if it has none, of another queue of the server.
func (c *asynqClient) take(ctx context.Context, asked string, leaseEnd any) *redis.Cmd {
	if c.empty > 0 {
		c.empty--
		none := redis.NewCmd(ctx)
		none.SetErr(redis.Nil)
		return none
	}
	args := []any{leaseEnd}
	for _, queue := range c.order(asked) {
		args = append(args, queue)
	}
	reply := takeScript.Run(ctx, c.UniversalClient, nil, args...)
	err := reply.Err()
	if isNil(err) {
		c.empty = len(c.queues) - 1
	}
	if err == nil || isNil(err) {
		c.server.queue.answers.fetch.now()
	}
	return reply
}

// order returns the queues in the order in which they are asked: first the one that asynq asks for, then the others, drawn by their
// weights, or by decreasing weight if the server is strict.
func (c *asynqClient) order(asked string) []string {
	turns := map[string]float64{}
	for queue, weight := range c.queues {
		turns[queue] = 1 / float64(weight)
		if !c.strict {
			turns[queue] *= rand.ExpFloat64()
		}
	}
	turns[asked] = -1
	return slices.SortedFunc(maps.Keys(turns), func(a, b string) int { return cmp.Compare(turns[a], turns[b]) })
}

// step sends a script of asynq, unless it is the last one for a task that Record has removed.
func (c *asynqClient) step(ctx context.Context, keys []string, send func() *redis.Cmd) *redis.Cmd {
	succeeded := func() *redis.Cmd {
		cmd := redis.NewCmd(ctx)
		cmd.SetVal("OK")
		return cmd
	}
	ends, again := false, false // the task stops running; it returns to the queue
	for _, key := range keys {
		if _, ok := c.server.recorded.LoadAndDelete(key); ok {
			return succeeded()
		}
		ends = ends || strings.HasSuffix(key, "}:active")
		again = again || strings.HasSuffix(key, "}:retry") || strings.HasSuffix(key, "}:pending")
	}
	reply := send()
	err := reply.Err()
	if !ends {
		return reply
	}
	if err != nil && strings.HasPrefix(err.Error(), "NOT FOUND") {
		return succeeded()
	}
	if err == nil && again {
		c.deleteUnwanted(ctx, keys)
	}
	return reply
}

// deleteUnwanted deletes a task that asynq has returned to its queue if the task's batch is cancelled or no longer exists.
func (c *asynqClient) deleteUnwanted(ctx context.Context, keys []string) {
	for _, key := range keys {
		queue, id, ok := strings.Cut(strings.TrimPrefix(key, "asynq:{"), "}:t:")
		if !ok {
			continue
		}
		if err := c.server.queue.deleteTask(ctx, queue, id, unwanted); err != nil {
			c.server.log.Debug("could not remove a task that may be of a cancelled batch", "task", id, "error", err)
		}
	}
}

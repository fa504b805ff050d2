package redisqueue

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// answers records when the server last answered. The field any is for all commands. The field fetch
// is only for requests for tasks, even if there were no tasks. answers is a hook of the Redis
// client, which sets any. The feeds set fetch.
//
// The times keep the readings of the monotonic clock: their ages are correct even if the clock was
// set since. They are zero for never.
type answers struct {
	any, fetch atomic.Pointer[time.Time]
}

func newAnswers() *answers {
	a := new(answers)
	a.any.Store(new(time.Time))
	a.fetch.Store(new(time.Time))
	return a
}

// DialHook implements redis.Hook.
func (*answers) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

// ProcessHook implements redis.Hook.
func (a *answers) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if err == nil || errors.Is(err, redis.Nil) {
			a.any.Store(new(time.Now()))
		}
		return err
	}
}

// ProcessPipelineHook implements redis.Hook.
func (a *answers) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		if err == nil {
			a.any.Store(new(time.Now()))
		}
		return err
	}
}

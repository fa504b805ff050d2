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
type answers struct {
	any, fetch moment
}

// moment is a time that several goroutines can set and read. It keeps the reading of the monotonic
// clock: its age is correct even if the clock was set since.
type moment struct{ at atomic.Pointer[time.Time] } // nil for never

func (m *moment) now() {
	t := time.Now()
	m.at.Store(&t)
}

// time returns the time; zero for never.
func (m *moment) time() time.Time {
	if t := m.at.Load(); t != nil {
		return *t
	}
	return time.Time{}
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
			a.any.now()
		}
		return err
	}
}

// ProcessPipelineHook implements redis.Hook.
func (a *answers) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		if err == nil {
			a.any.now()
		}
		return err
	}
}

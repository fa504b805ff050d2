package redisqueue

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// fetches is a hook of the client that records when a server last answered asynq's request for a task, whether there was a task or
// not. asynq itself only logs that such requests fail.
type fetches struct {
	last atomic.Int64 // Unix time in ns; 0 for never
}

// time returns the time of the last fetch from the queue; zero for never.
func (f *fetches) time() time.Time {
	ns := f.last.Load()
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns)
}

// DialHook implements redis.Hook.
func (*fetches) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

// ProcessHook implements redis.Hook.
func (f *fetches) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if (err == nil || errors.Is(err, redis.Nil)) && isFetch(cmd.Args()) {
			f.last.Store(time.Now().UnixNano())
		}
		return err
	}
}

// ProcessPipelineHook implements redis.Hook.
func (*fetches) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// isFetch recognises asynq's script by its first keys: the pending tasks of a queue and its pause.
func isFetch(args []any) bool {
	if len(args) < 5 || args[0] != "evalsha" && args[0] != "eval" {
		return false
	}
	pending, _ := args[3].(string)
	paused, _ := args[4].(string)
	return strings.HasSuffix(pending, ":pending") && strings.HasSuffix(paused, ":paused")
}

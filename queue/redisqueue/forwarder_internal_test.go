package redisqueue

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/queue"
)

// after calls a function after the first command with a name.
type after struct {
	command string
	call    func()
}

func (*after) DialHook(next redis.DialHook) redis.DialHook { return next }

func (*after) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (a *after) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if call := a.call; call != nil && cmd.Name() == a.command {
			a.call = nil
			call()
		}
		return err
	}
}

// A row that is passed on while a worker looks for due rows stays passed on until the search after
// that, which knows the contexts of the live workers.
func TestForwardLeavesARowThatIsPassedOnMeanwhile(t *testing.T) {
	f := newFleet(t, 1)
	ctx := t.Context()
	name := queueName("m", queue.Default)
	ids, err := f.redis.Client.LRange(ctx, asynqKey(name, "pending"), 0, -1).Result()
	require.NoError(t, err)
	require.Len(t, ids, 1)
	due := float64(time.Now().Add(time.Hour).Unix())
	f.queue.rdb.AddHook(&after{"exists", func() {
		require.NoError(t, f.redis.Client.LRem(ctx, asynqKey(name, "pending"), 0, ids[0]).Err())
		require.NoError(t, f.redis.Client.ZAdd(ctx, asynqKey(name, "retry"), redis.Z{Score: due, Member: ids[0]}).Err())
		require.NoError(t, f.redis.Client.ZAdd(ctx, longerKey(name), redis.Z{Score: 64, Member: ids[0]}).Err())
	}})
	require.NoError(t, f.queue.forward(ctx, "m"))
	score, err := f.redis.Client.ZScore(ctx, asynqKey(name, "retry"), ids[0]).Result()
	require.NoError(t, err)
	require.InDelta(t, due, score, 0)

	require.NoError(t, f.queue.forward(ctx, "m")) // no worker lives
	n, err := f.redis.Client.LLen(ctx, asynqKey(name, "pending")).Result()
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
}

// A worker with a long context takes rows that were passed on before others, and no more than it
// asked for.
func TestRowsThatArePassedOnAreTakenFirstAndOneByOne(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	ctx := t.Context()
	name := queueName("m", queue.Default)
	for _, id := range []string{"b:2", "b:3"} {
		require.NoError(t, f.queue.rdb.LRem(ctx, asynqKey(name, "pending"), 0, id).Err())
		require.NoError(t, f.queue.rdb.ZAdd(ctx, asynqKey(name, "retry"), redis.Z{Score: 1, Member: id}).Err())
		require.NoError(t, f.queue.rdb.ZAdd(ctx, longerKey(name), redis.Z{Score: 64, Member: id}).Err())
	}
	take := func(context, n int) (ids []string) {
		c := with(takeScript, "queues", name, "context", context).rows(n, "order")
		for range n {
			c.add("1")
		}
		list, err := f.queue.run(ctx, c).Slice()
		require.NoError(t, err)
		for _, item := range list {
			ids = append(ids, item.([]any)[1].(string))
		}
		return ids
	}
	require.Equal(t, []string{"b:2"}, take(65, 1))
	require.Equal(t, []string{"b:1"}, take(64, 3), "the context is as short as that of the worker before")
	require.Equal(t, []string{"b:3"}, take(65, 3))
	require.Equal(t, []string{"b:3", "b:1", "b:2"}, f.queue.rdb.LRange(ctx, asynqKey(name, "active"), 0, -1).Val())
	require.Zero(t, f.queue.rdb.Exists(ctx, longerKey(name), asynqKey(name, "retry")).Val())
}

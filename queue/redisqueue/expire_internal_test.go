package redisqueue

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/openai"
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/redistest"
)

// Overdue rows expire in every state: waiting, held by a worker that may be dead, taken from a
// worker, or waiting for a retry.
func TestOverdueRowsExpireInEveryState(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	q := New(redistest.Start(t).Client)
	deadline := time.Now().Add(-time.Minute)
	_, _, err := q.Create(ctx, queue.Batch{ID: "b", Alias: "m", Priority: queue.Default, Retention: time.Hour, Deadline: deadline})
	require.NoError(t, err)
	for line := 1; line <= 6; line++ {
		j := &queue.Job{
			Batch: "b", Line: line, Sum: "0badcafe", CustomID: "x", Endpoint: openai.Completions, Body: []byte(`{}`),
			TimeoutMS: 60_000, MaxAttempts: 3, DeadlineMS: deadline.UnixMilli(),
		}
		_, err := q.Add(ctx, "m", queue.Default, []*queue.Job{j})
		require.NoError(t, err)
	}
	require.NoError(t, q.Seal(ctx, "b", 6, ""))
	pending, active := asynqKey("m:default", "pending"), asynqKey("m:default", "active")
	f := &fleet{t: t, queue: q}
	f.take(1, 0, "v")
	f.take(2, 0, "w")
	for line := 3; line <= 4; line++ {
		h := f.take(line, 0, "v")
		h.feed.server.finish(h, ending{place: retry, at: time.Now().Add(time.Hour), err: errors.New("broken")})
	}
	require.EqualValues(t, 2, q.rdb.ZCard(ctx, asynqKey("m:default", retry)).Val())
	require.NoError(t, q.rdb.ZRem(ctx, asynqKey("m:default", retry), "b:4").Err()) // asynq's tools can schedule it
	require.NoError(t, q.rdb.ZAdd(ctx, asynqKey("m:default", "scheduled"), redis.Z{Member: "b:4"}).Err())
	require.NoError(t, q.rdb.HSet(ctx, taskKey("m:default", "b:4"), "state", "scheduled").Err())
	require.NoError(t, f.member("v").join(ctx))
	for line, owner := range map[int]string{1: "v", 2: "w"} {
		require.NoError(t, q.rdb.HSet(ctx, taskKey("m:default", queue.TaskID("b", line)), "owner", owner).Err())
	}
	f.reap()
	require.Equal(t, 1, f.count("deliveries", 2))
	require.NoError(t, q.inspector.ArchiveTask("m:default", "b:5"))

	n, err := q.Expire(ctx, "b")
	require.NoError(t, err)
	require.Equal(t, 6, n)
	s, err := q.Status(ctx, "b")
	require.NoError(t, err)
	require.Equal(t, []any{queue.Completed, 6, 0}, []any{s.State, s.Failed, s.Running})
	require.Zero(t, q.rdb.LLen(ctx, pending).Val())
	for _, place := range []string{retry, "scheduled", archived} {
		require.Zero(t, q.rdb.ZCard(ctx, asynqKey("m:default", place)).Val(), place)
	}
	require.EqualValues(t, 1, q.rdb.LLen(ctx, active).Val(), "the task of a running row stays: its worker finds the row recorded")
}

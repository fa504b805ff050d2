package redisqueue

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/openai"
	"github.com/ingot-run/ingot/queue"
)

// A row that failed because its workers died starts from the beginning when it is queued again: its attempts, deaths and progress are
// cleared. Late writes of an earlier worker are refused.
func TestARequeuedRowBeginsAnew(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	ctx, q, j := t.Context(), f.queue, fleetJob("b", 1)
	require.NoError(t, q.Seal(ctx, "b", 1, ""))
	_, err := q.Begin(ctx, j)
	require.NoError(t, err)
	require.NoError(t, q.SaveCheckpoint(ctx, j, []byte("progress")))
	f.take(delivery{"b", 1, 0}, "w")
	moved, err := q.handOver(ctx, "m:default", delivery{"b", 1, 0}, "w")
	require.NoError(t, err)
	require.True(t, moved)
	late := *j
	late.Delivery = 1
	_, err = q.Begin(ctx, &late)
	require.NoError(t, err)
	r := queue.Failure(&late, openai.Error{Code: openai.CodeAbandoned, Message: "given up"}, queue.Stats{})
	r.Job, err = j.Encode()
	require.NoError(t, err)
	first, err := q.Record(ctx, "b", r)
	require.NoError(t, err)
	require.True(t, first)
	require.NoError(t, q.inspector.DeleteTask("m:default", "b:1:1"))

	done, err := q.Requeue(ctx, "b", openai.CodeAbandoned)
	require.NoError(t, err)
	require.Equal(t, Requeued{Queued: 1}, done)
	require.Equal(t, []string{"b:1"}, q.rdb.LRange(ctx, pendingKey("m:default"), 0, -1).Val())
	deaths, err := q.deaths(ctx, delivery{"b", 1, 0})
	require.NoError(t, err)
	require.Zero(t, deaths)
	_, err = q.Record(ctx, "b", r)
	require.ErrorIs(t, err, queue.ErrSuperseded)
	start, err := q.Begin(ctx, j)
	require.NoError(t, err)
	require.Equal(t, queue.Start{Attempt: 1}, start)
	first, err = q.Record(ctx, "b", queue.Answered(j, new(openai.Request), nil, time.Now(), queue.Stats{}))
	require.NoError(t, err)
	require.True(t, first)
	s, err := q.Status(ctx, "b")
	require.NoError(t, err)
	require.Equal(t, []any{queue.Completed, 1, 0}, []any{s.State, s.Done, s.Failed})
	require.Zero(t, q.rdb.Exists(ctx, key("b", "jobs")).Val(), "the job is deleted when its row is answered")
}

// Earlier versions wrote a field "outcome" into the entries of the stream. Requeue still finds the failed rows.
func TestFailuresOfAnEarlierVersionAreQueuedAgain(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 0)
	ctx, q, j := t.Context(), f.queue, fleetJob("b", 1)
	r := queue.Failure(j, openai.Error{Code: openai.CodeTimeout, Message: "not finished"}, queue.Stats{})
	var err error
	r.Job, err = j.Encode()
	require.NoError(t, err)
	_, err = q.Record(ctx, "b", r)
	require.NoError(t, err)
	require.NoError(t, q.rdb.Del(ctx, key("b", "stream")).Err())
	require.NoError(t, q.rdb.XAdd(ctx, &redis.XAddArgs{
		Stream: key("b", "stream"), Values: []string{"line", "1", "sum", "0badcafe", "outcome", "failed"},
	}).Err())
	done, err := q.Requeue(ctx, "b", openai.CodeTimeout)
	require.NoError(t, err)
	require.Equal(t, Requeued{Queued: 1}, done)
}

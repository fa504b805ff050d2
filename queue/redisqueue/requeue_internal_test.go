package redisqueue

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/openai"
	"github.com/ingot-run/ingot/queue"
)

// A row that failed because its workers died starts from the beginning when it is queued again: its
// attempts, deaths and progress are cleared. Late writes of an earlier worker are refused.
func TestARequeuedRowBeginsAnew(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	ctx, q, j := t.Context(), f.queue, fleetJob("b", 1)
	require.NoError(t, q.Seal(ctx, "b", 1, ""))
	h := f.take(1, 0, "w")
	_, err := f.begin(h)
	require.NoError(t, err)
	require.NoError(t, h.value.Save(ctx, []byte("progress")))
	f.reap()
	late := f.take(1, 1, "w")
	_, err = f.begin(late)
	require.NoError(t, err)
	require.Equal(t, "progress", string(late.value.Checkpoint))
	r := queue.Failure(j, openai.Error{Code: openai.CodeAbandoned, Message: "given up"}, queue.Stats{})
	r.Job, err = j.Encode()
	require.NoError(t, err)
	first, err := q.recordOne(ctx, late.toRecord(r))
	require.NoError(t, err)
	require.True(t, first)

	done, err := q.Requeue(ctx, "b", openai.CodeAbandoned)
	require.NoError(t, err)
	require.Equal(t, Requeued{Queued: 1}, done)
	require.Equal(t, []string{"b:1"}, q.rdb.LRange(ctx, asynqKey("m:default", "pending"), 0, -1).Val())
	require.Zero(t, f.count("deaths", 1))
	_, err = q.recordOne(ctx, late.toRecord(r))
	require.ErrorIs(t, err, queue.ErrSuperseded)
	h = f.take(1, 0, "w")
	attempt, err := f.begin(h)
	require.NoError(t, err)
	require.Equal(t, 1, attempt)
	require.Nil(t, h.value.Checkpoint)
	first, err = q.Record(ctx, "b", queue.Answered(j, new(openai.Request), nil, time.Now(), queue.Stats{}))
	require.NoError(t, err)
	require.True(t, first)
	s, err := q.Status(ctx, "b")
	require.NoError(t, err)
	require.Equal(t, []any{queue.Completed, 1, 0}, []any{s.State, s.Done, s.Failed})
	require.Zero(t, q.rdb.Exists(ctx, key("b", "jobs")).Val(), "the job is deleted when its row is answered")
}

// Earlier versions wrote a field "outcome" into the entries of the stream. Requeue still finds the
// failed rows.
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

// Only the failures with the given code are queued again, and rows that cannot be tried again stay.
func TestOtherFailuresAreNotQueuedAgain(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 0)
	ctx, q := t.Context(), f.queue
	for line, code := range []string{openai.CodeTimeout, openai.CodeAbandoned, openai.CodeTimeout} {
		j := fleetJob("b", line+1)
		r := queue.Failure(j, openai.Error{Code: code, Message: "not finished"}, queue.Stats{})
		if line < 2 {
			var err error
			r.Job, err = j.Encode()
			require.NoError(t, err)
		}
		_, err := q.Record(ctx, "b", r)
		require.NoError(t, err)
	}
	done, err := q.Requeue(ctx, "b", openai.CodeTimeout)
	require.NoError(t, err)
	require.Equal(t, Requeued{Queued: 1, Kept: 1}, done)
	require.Equal(t, []string{"b:1"}, q.rdb.LRange(ctx, asynqKey("m:default", "pending"), 0, -1).Val())
	done, err = q.Requeue(ctx, "b", "")
	require.NoError(t, err)
	require.Equal(t, Requeued{Queued: 1, Kept: 1}, done)
}

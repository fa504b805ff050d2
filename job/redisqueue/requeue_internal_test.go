package redisqueue

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/job"
	"github.com/ingot-run/ingot/job/redistest"
	"github.com/ingot-run/ingot/openai"
)

// If a row failed because its workers died and is queued again, it starts from the beginning: without its earlier attempts, deaths
// and progress. Late writes of an earlier worker are refused.
func TestARequeuedRowBeginsAnew(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	q := New(redistest.Start(t).Client)
	_, _, err := q.Create(ctx, job.Batch{ID: "b", Alias: "m", Priority: job.Default, Retention: time.Hour})
	require.NoError(t, err)
	j := &job.Job{
		Batch: "b", Line: 1, Sum: "0badcafe", CustomID: "x", Endpoint: openai.Completions, Body: []byte(`{}`), TimeoutMS: 60_000, MaxAttempts: 3,
	}
	add := func() {
		t.Helper()
		added, err := q.Add(ctx, "m", job.Default, []*job.Job{j})
		require.NoError(t, err)
		require.Equal(t, []bool{true}, added)
	}
	add()
	require.NoError(t, q.Seal(ctx, "b", 1, ""))
	_, err = q.Begin(ctx, j)
	require.NoError(t, err)
	require.NoError(t, q.SaveCheckpoint(ctx, j, []byte("progress")))
	require.Equal(t, "b:1", q.rdb.RPopLPush(ctx, pendingKey("m:default"), asynqKey("m:default", "active")).Val())
	require.NoError(t, q.rdb.HSet(ctx, taskKey("m:default", delivery{"b", 1, 0}), "state", "active", "owner", "w").Err())
	moved, err := q.handOver(ctx, "m:default", delivery{"b", 1, 0}, "w")
	require.NoError(t, err)
	require.True(t, moved)
	late := *j
	late.Delivery = 1
	_, err = q.Begin(ctx, &late)
	require.NoError(t, err)
	r := job.Failure(&late, openai.Error{Code: openai.CodeAbandoned, Message: "given up"}, job.Stats{})
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
	require.ErrorIs(t, err, job.ErrSuperseded)
	start, err := q.Begin(ctx, j)
	require.NoError(t, err)
	require.Equal(t, job.Start{Attempt: 1}, start)
	first, err = q.Record(ctx, "b", job.Answered(j, new(openai.Request), nil, time.Now(), job.Stats{}))
	require.NoError(t, err)
	require.True(t, first)
	s, err := q.Status(ctx, "b")
	require.NoError(t, err)
	require.Equal(t, []any{job.Completed, 1, 0}, []any{s.State, s.Done, s.Failed})
	require.Zero(t, q.rdb.Exists(ctx, key("b", "jobs")).Val(), "the job is not needed any more")
}

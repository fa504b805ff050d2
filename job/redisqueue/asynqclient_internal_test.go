package redisqueue

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/job"
)

// Record removes the row's task in the same step, and asynq's tools count the task as done.
func TestARecordedRowHasNoTask(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	recorded, goOn := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(goOn) })
	w := f.serve(1, func(ctx context.Context, q *Queue, j *job.Job) error {
		err := answer(ctx, q, j, "answered")
		recorded <- struct{}{}
		<-goOn
		return err
	})
	t.Cleanup(release)
	<-recorded
	f.requireNoTask()
	release()
	w.stop()
	info, err := f.queue.inspector.GetQueueInfo("m:default")
	require.NoError(t, err)
	require.Equal(t, []int{0, 1, 1}, []int{info.Size, info.Processed, info.ProcessedTotal})
	ttl := f.queue.rdb.TTL(t.Context(), asynqKey("m:default", "processed:"+time.Now().UTC().Format(time.DateOnly))).Val()
	require.InDelta(t, asynqStatsTTL, ttl, float64(25*time.Hour))
}

// asynq does not repeat its last step if the task is gone.
func TestAsynqAcceptsThatATaskIsGone(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	client := redis.NewClient(f.redis.Client.Options())
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	q := New(client)
	q.Leases = shortLeases
	var log bytes.Buffer
	ctx, stop := context.WithCancel(t.Context())
	handled := make(chan struct{})
	var serving sync.WaitGroup
	serving.Go(func() {
		err := q.Serve(ctx, job.ServeOptions{
			Alias: "m", Concurrency: 1, ShutdownTimeout: time.Minute, PollInterval: 5 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		}, func(ctx context.Context, j *job.Job) error {
			defer close(handled)
			return f.queue.deleteTask(ctx, "m:default", "b:1", anyTask)
		})
		if err != nil {
			t.Error(err)
		}
	})
	<-handled
	stop()
	serving.Wait()
	f.requireNoTask()
	require.NotContains(t, log.String(), "level=WARN")
}

// An id in the list of pending tasks without a task is skipped and removed.
func TestATaskThatIsGoneIsNotTaken(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	require.NoError(t, f.queue.rdb.Del(t.Context(), taskKey("m:default", delivery{"b", 1, 0}), taskKey("m:default", delivery{"b", 2, 0})).Err())
	f.take(delivery{"b", 3, 0}, "")
	require.Equal(t, []string{"b:3"}, f.queue.rdb.LRange(t.Context(), asynqKey("m:default", "active"), 0, -1).Val())
	require.Equal(t, []string{taskKey("m:default", delivery{"b", 3, 0})}, f.redis.Client.Keys(t.Context(), "asynq:*:t:*").Val())
}

// A worker also owns a row that waits in it and has not begun. No other worker takes the row.
func TestARowThatWaitsInItsWorkerIsNotTaken(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	waiting, goOn := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(goOn) })
	f.serve(1, func(ctx context.Context, q *Queue, j *job.Job) error {
		require.Zero(t, j.Delivery)
		waiting <- struct{}{}
		<-goOn
		return answer(ctx, q, j, "answered")
	})
	t.Cleanup(release)
	<-waiting
	f.eventually("the row has an owner", func() bool {
		running, err := f.queue.owners(t.Context(), "m:default")
		require.NoError(t, err)
		require.Len(t, running, 1)
		return running[0].owner != ""
	})
	release()
	f.eventually("the row is answered", func() bool { return f.recorded("b")[1] == "answered" })
}

// One request looks at all queues, first at the one that asynq asks for. The order of the others is drawn by weight, or is that of the
// weights if the server is strict.
func TestTheOrderOfQueues(t *testing.T) {
	t.Parallel()
	c := asynqClient{queues: map[string]int{"a": 6, "b": 3, "c": 1}}
	const n = 10_000
	second := map[string]int{}
	for range n {
		order := c.order("a")
		require.Len(t, order, 3)
		require.Equal(t, "a", order[0])
		second[order[1]]++
	}
	require.InDelta(t, n*3/4, second["b"], 300) // the standard deviation is 43
	c.strict = true
	require.Equal(t, []string{"c", "a", "b"}, c.order("c"))
}

// While all queues are empty, asynq's requests for its three queues cause one request to Redis. A paused queue is not asked.
func TestEmptyQueuesAreAskedOnce(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	queues := map[string]int{"m:critical": 6, "m:default": 3, "m:bulk": 1}
	c := &asynqClient{UniversalClient: f.queue.rdb, server: &server{queue: f.queue}, queues: queues}
	ask := func(queue string) error {
		keys := []string{pendingKey(queue), asynqKey(queue, "paused"), asynqKey(queue, "active"), asynqKey(queue, "lease")}
		return c.EvalSha(t.Context(), "", keys, time.Now().Unix(), taskPrefix(queue)).Err()
	}
	require.NoError(t, f.queue.inspector.PauseQueue("m:default"))
	require.ErrorIs(t, ask("m:bulk"), redis.Nil)
	require.NoError(t, f.queue.inspector.UnpauseQueue("m:default"))
	require.ErrorIs(t, ask("m:default"), redis.Nil)
	require.ErrorIs(t, ask("m:critical"), redis.Nil)
	require.NoError(t, ask("m:bulk"), "another queue has a task")
	info, err := f.queue.inspector.GetTaskInfo("m:default", "b:1")
	require.NoError(t, err)
	require.Equal(t, asynq.TaskStateActive, info.State)
}

package redisqueue_test

import (
	"context"
	"log/slog"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/job"
	"github.com/ingot-run/ingot/job/redisqueue"
	"github.com/ingot-run/ingot/job/redistest"
	"github.com/ingot-run/ingot/openai"
)

func addJobs(t testing.TB, q *redisqueue.Queue, lines ...int) []bool {
	t.Helper()
	var jobs []*job.Job
	for _, line := range lines {
		jobs = append(jobs, &job.Job{
			Batch: "b", Line: line, Sum: "0badcafe", CustomID: "x", Endpoint: openai.Completions, Body: []byte("{}"), TimeoutMS: 600_000, MaxAttempts: 3,
		})
	}
	added, err := q.Add(t.Context(), "m", job.Default, jobs)
	require.NoError(t, err)
	return added
}

// asynq must never end or archive a job by itself.
func TestAsynqHasLooserLimits(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	addJobs(t, redisqueue.New(r.Client), 2)
	info, err := asynq.NewInspectorFromRedisClient(r.Client).GetTaskInfo("m:default", "b:2")
	require.NoError(t, err)
	require.Equal(t, math.MaxInt32, info.MaxRetry)
	require.Greater(t, info.Timeout, 10*time.Minute, "the worker's limit comes first")
	require.Zero(t, info.Retention)
}

// A job that an operator's tool archived is queued again by the producer.
func TestArchivedJobsAreAddedAgain(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	q := redisqueue.New(r.Client)
	addJobs(t, q, 1, 2, 3)
	inspector := asynq.NewInspectorFromRedisClient(r.Client)
	require.NoError(t, inspector.ArchiveTask("m:default", "b:1"))
	require.NoError(t, inspector.DeleteTask("m:default", "b:2"))
	require.Equal(t, []bool{true, true, false}, addJobs(t, q, 1, 2, 3))
	info, err := inspector.GetQueueInfo("m:default")
	require.NoError(t, err)
	require.Equal(t, []int{3, 0}, []int{info.Pending, info.Archived})
}

// Serve queues archived jobs again, more than fit on a page of them, and leaves tasks that are not jobs.
func TestArchivedJobsAreServed(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	q := redisqueue.New(r.Client)
	const n = 35
	for line := range n {
		addJobs(t, q, line+1)
	}
	foreign, err := asynq.NewClientFromRedisClient(r.Client).EnqueueContext(t.Context(), asynq.NewTask("other", []byte("x")), asynq.Queue("m:default"))
	require.NoError(t, err)
	inspector := asynq.NewInspectorFromRedisClient(r.Client)
	archived, err := inspector.ArchiveAllPendingTasks("m:default")
	require.NoError(t, err)
	require.Equal(t, n+1, archived)

	served := make(chan int, n)
	ctx, cancel := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	serving.Go(func() {
		err = q.Serve(ctx, job.ServeOptions{
			Alias: "m", Concurrency: 2, ShutdownTimeout: time.Minute, PollInterval: 5 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
		}, func(_ context.Context, j *job.Job) error { served <- j.Line; return nil })
	})
	lines := map[int]bool{}
	for range n {
		lines[<-served] = true
	}
	require.Len(t, lines, n)
	cancel()
	serving.Wait()
	require.NoError(t, err)
	left, err := inspector.ListArchivedTasks("m:default")
	require.NoError(t, err)
	require.Len(t, left, 1)
	require.Equal(t, foreign.ID, left[0].ID)
}

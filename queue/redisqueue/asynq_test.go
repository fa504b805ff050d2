package redisqueue_test

import (
	"bytes"
	"context"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/openai"
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/redisqueue"
)

func addJobs(t testing.TB, q *redisqueue.Queue, lines ...int) []bool {
	t.Helper()
	create(t, q)
	var jobs []*queue.Job
	for _, line := range lines {
		jobs = append(jobs, &queue.Job{
			Batch: "b", Line: line, Sum: "0badcafe", CustomID: "x", Endpoint: openai.Completions, Body: []byte("{}"), TimeoutMS: 600_000, MaxAttempts: 3,
		})
	}
	added, err := q.Add(t.Context(), "m", queue.Default, jobs)
	require.NoError(t, err)
	return added
}

// Add writes the same bytes as asynq's client. The timeout and the number of retries are larger
// than the worker's, since asynq itself must never end or archive a job.
func TestAddWritesWhatAsynqWrites(t *testing.T) {
	t.Parallel()
	r, q := open(t)
	keys := func() map[string]any {
		all := map[string]any{}
		require.LessOrEqual(t, r.Client.Del(t.Context(), "ingot:{b}:meta").Val(), int64(1))
		for _, key := range r.Client.Keys(t.Context(), "*").Val() {
			switch kind := r.Client.Type(t.Context(), key).Val(); kind {
			case "hash":
				fields := r.Client.HGetAll(t.Context(), key).Val()
				since, err := strconv.ParseInt(fields["pending_since"], 10, 64)
				require.NoError(t, err)
				require.WithinDuration(t, time.Now(), time.Unix(0, since), time.Minute)
				delete(fields, "pending_since")
				all[key] = fields
			case "list":
				all[key] = r.Client.LRange(t.Context(), key, 0, -1).Val()
			case "set":
				all[key] = r.Client.SMembers(t.Context(), key).Val()
			default:
				all[key] = kind
			}
		}
		return all
	}
	j := &queue.Job{
		Batch: "b", Line: 2, Sum: "0badcafe", CustomID: "x", Endpoint: openai.Completions, Body: []byte(`{"prompt":"é<>"}`),
		TimeoutMS: 600_500, MaxAttempts: 3,
	}
	create(t, q)
	for line := 2; line <= 3; line++ {
		j.Line = line
		_, err := q.Add(t.Context(), "m", queue.Default, []*queue.Job{j})
		require.NoError(t, err)
	}
	got := keys()
	info, err := asynq.NewInspectorFromRedisClient(r.Client).GetTaskInfo("m:default", "b:2")
	require.NoError(t, err)
	require.Greater(t, info.Timeout, 10*time.Minute)
	require.NoError(t, r.Client.FlushAll(t.Context()).Err())

	for line := 2; line <= 3; line++ {
		j.Line = line
		payload, err := j.Encode()
		require.NoError(t, err)
		_, err = asynq.NewClientFromRedisClient(r.Client).EnqueueContext(t.Context(), asynq.NewTask("ingot:job", payload),
			asynq.Queue("m:default"), asynq.TaskID(queue.TaskID("b", line)), asynq.MaxRetry(math.MaxInt32), asynq.Timeout(15*time.Minute))
		require.NoError(t, err)
	}
	require.Equal(t, keys(), got)
}

// A job that an operator's tool archived is queued again by the producer.
func TestArchivedJobsAreAddedAgain(t *testing.T) {
	t.Parallel()
	r, q := open(t)
	addJobs(t, q, 1, 2, 3)
	inspector := asynq.NewInspectorFromRedisClient(r.Client)
	require.NoError(t, inspector.ArchiveTask("m:default", "b:1"))
	require.NoError(t, inspector.DeleteTask("m:default", "b:2"))
	require.Equal(t, []bool{true, true, false}, addJobs(t, q, 1, 2, 3))
	info, err := inspector.GetQueueInfo("m:default")
	require.NoError(t, err)
	require.Equal(t, []int{3, 0}, []int{info.Pending, info.Archived})
}

// Serve queues all archived jobs again. It leaves tasks that are not jobs.
func TestArchivedJobsAreServed(t *testing.T) {
	t.Parallel()
	r, q := open(t)
	const n = 35
	create(t, q)
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
	var log bytes.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	serving.Go(func() {
		err = q.Serve(ctx, queue.ServeOptions{
			Alias: "m", Concurrency: 2, ShutdownTimeout: time.Minute, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		}, func(_ context.Context, d *queue.Delivery) queue.Outcome { served <- d.Line; return queue.Done() })
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
	require.Equal(t, n, strings.Count(log.String(), "queued an archived job again"))
}

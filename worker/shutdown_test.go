package worker

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	dto "github.com/prometheus/client_model/go"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/enqueue"
	"github.com/ingot-run/ingot/generation"
	"github.com/ingot-run/ingot/job/redistest"
)

// count is the number of deliveries with an outcome.
func (b *bench) count(t testing.TB, outcome string) int {
	t.Helper()
	var m dto.Metric
	require.NoError(t, b.worker.metrics.jobs.WithLabelValues(outcome).Write(&m))
	return int(m.GetCounter().GetValue())
}

func TestShutdownReturnsJobsToTheQueue(t *testing.T) {
	redistest.Both(t, func(t *testing.T, r *redistest.Server) {
		taken := make(chan struct{}, 10)
		b := setUp(t, r, func(ctx context.Context, _ generation.Request) (generation.Completion, error) {
			taken <- struct{}{}
			<-ctx.Done()
			return generation.Completion{}, ctx.Err()
		}, Config{Concurrency: 2, ShutdownTimeout: 10 * time.Millisecond})
		b.enqueue(t, prompts(5), enqueue.Options{MaxAttempts: 1})
		stop := b.start(t)
		<-taken
		<-taken
		stop()
		require.Equal(t, 2, b.count(t, "handed_back"))
		info, err := asynq.NewInspectorFromRedisClient(r.Client).GetQueueInfo("default:default")
		require.NoError(t, err)
		require.Equal(t, 5, info.Pending, "all are there for the next worker, at once")
		st, err := enqueue.Status(t.Context(), r.Client, "b")
		require.NoError(t, err)
		require.Zero(t, st.Running)

		next := setUp(t, r, (&faults{}).generate, Config{})
		next.start(t)
		for _, row := range next.results(t) {
			require.Nil(t, row.Error)
			require.Equal(t, 1, row.Stats.Attempts, "a job that was returned to the queue was no attempt")
		}
	})
}

// If the engine ends itself, the worker returns its jobs to the queue and ends in order, with the reason.
func TestAFailedEngineEndsTheWorker(t *testing.T) {
	redistest.Both(t, func(t *testing.T, r *redistest.Server) {
		b := setUp(t, r, func(context.Context, generation.Request) (generation.Completion, error) {
			return generation.Completion{}, fmt.Errorf("%w: oops", generation.ErrEngineFailed)
		}, Config{Concurrency: 2})
		b.enqueue(t, prompts(5), enqueue.Options{MaxAttempts: 1})
		require.ErrorIs(t, b.worker.Run(t.Context()), generation.ErrEngineFailed)
		require.NotZero(t, b.count(t, "handed_back"))
		info, err := asynq.NewInspectorFromRedisClient(r.Client).GetQueueInfo("default:default")
		require.NoError(t, err)
		require.Equal(t, 5, info.Pending+info.Retry, "all are there for the next worker")

		next := setUp(t, r, (&faults{}).generate, Config{})
		next.start(t)
		for _, row := range next.results(t) {
			require.Nil(t, row.Error)
			require.Equal(t, 1, row.Stats.Attempts, "a job that was returned to the queue was no attempt")
		}
	})
}

func TestShutdownLetsJobsFinish(t *testing.T) {
	t.Parallel()
	r := redistest.StartMini(t)
	taken, finish := make(chan struct{}), make(chan struct{})
	b := setUp(t, r, func(context.Context, generation.Request) (generation.Completion, error) {
		close(taken)
		<-finish
		return generation.Completion{Choices: []generation.Choice{{Text: "ok"}}}, nil
	}, Config{Concurrency: 1, ShutdownTimeout: time.Minute})
	b.enqueue(t, prompts(1), enqueue.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- b.worker.Run(ctx) }()
	<-taken
	cancel()
	select {
	case err := <-ended:
		t.Fatalf("the worker ended before its job: %v", err)
	case finish <- struct{}{}:
	}
	require.NoError(t, <-ended)
	require.Equal(t, "ok", b.results(t)["row-1"].Response.Body.Choices[0].Text)
	b.requireEmptyQueue(t)
}

func TestAWorkerNeedsRedis(t *testing.T) {
	t.Parallel()
	r := redistest.StartMini(t)
	b := setUp(t, r, nil, Config{})
	stopped, stop := context.WithCancel(t.Context())
	stop()
	require.NoError(t, b.worker.Run(stopped), "stopped before it began")

	closed := redis.NewClient(r.Client.Options())
	require.NoError(t, closed.Close())
	w, err := New(microLlama(t), closed, Config{Concurrency: 1})
	require.NoError(t, err)
	require.ErrorContains(t, w.Run(t.Context()), "reach redis")
	_, err = New(microLlama(t), r.Client, Config{})
	require.ErrorContains(t, err, "concurrency")
	_, err = New(microLlama(t), r.Client, Config{Concurrency: 1, Alias: "a:b"})
	require.ErrorContains(t, err, "model name")
}

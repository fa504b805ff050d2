package worker

import (
	"context"
	"fmt"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/enqueue"
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/memqueue"
	"github.com/ingot-run/ingot/queue/queuetest"
	"github.com/ingot-run/ingot/queue/redisqueue"
	"github.com/ingot-run/ingot/queue/redistest"
)

// count returns the number of deliveries with an outcome.
func (b *bench) count(t testing.TB, outcome string) int {
	t.Helper()
	var m dto.Metric
	require.NoError(t, b.worker.metrics.jobs.WithLabelValues(outcome).Write(&m))
	return int(m.GetCounter().GetValue())
}

func TestShutdownReturnsJobsToTheQueue(t *testing.T) {
	queuetest.OnEach(t, func(t *testing.T, q queue.Queue) {
		taken := make(chan struct{}, 10)
		b := setUp(t, q, func(ctx context.Context, _ generation.Request) (generation.Completion, error) {
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
		st, err := q.Status(t.Context(), "b")
		require.NoError(t, err)
		require.Zero(t, st.Running)

		requireFirstAttempts(t, q, 5)
	})
}

// requireFirstAttempts starts a worker, and requires that it answers n rows in their first
// attempts: returning a job to the queue does not count as an attempt.
func requireFirstAttempts(t *testing.T, q queue.Queue, n int) {
	t.Helper()
	next := setUp(t, q, (&faults{}).generate, Config{})
	next.start(t)
	answered := next.results(t)
	require.Len(t, answered, n)
	for _, row := range answered {
		require.Nil(t, row.Error)
		require.Equal(t, 1, row.Stats.Attempts)
	}
}

// If the engine fails and stops, the worker returns its jobs to the queue and shuts down. Run
// returns the engine's error.
func TestAFailedEngineEndsTheWorker(t *testing.T) {
	queuetest.OnEach(t, func(t *testing.T, q queue.Queue) {
		b := setUp(t, q, func(context.Context, generation.Request) (generation.Completion, error) {
			return generation.Completion{}, fmt.Errorf("%w: oops", generation.ErrEngineFailed)
		}, Config{Concurrency: 2})
		b.enqueue(t, prompts(5), enqueue.Options{MaxAttempts: 1})
		require.ErrorIs(t, b.worker.Run(t.Context()), generation.ErrEngineFailed)
		require.NotZero(t, b.count(t, "handed_back"))

		requireFirstAttempts(t, q, 5)
	})
}

func TestShutdownLetsJobsFinish(t *testing.T) {
	t.Parallel()
	q := memqueue.New()
	taken, finish := make(chan struct{}), make(chan struct{})
	b := setUp(t, q, func(context.Context, generation.Request) (generation.Completion, error) {
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

func TestAWorkerNeedsItsQueue(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	b := setUp(t, redisqueue.New(r.Client), nil, Config{})
	stopped, stop := context.WithCancel(t.Context())
	stop()
	require.NoError(t, b.worker.Run(stopped), "a worker that is stopped before it begins")

	closed := redis.NewClient(r.Client.Options())
	require.NoError(t, closed.Close())
	w, err := New(microLlama(t), redisqueue.New(closed), Config{Concurrency: 1})
	require.NoError(t, err)
	require.ErrorContains(t, w.Run(t.Context()), "start worker: reach redis")
	_, err = New(microLlama(t), memqueue.New(), Config{Concurrency: -1})
	require.ErrorContains(t, err, "concurrency")
	_, err = New(microLlama(t), memqueue.New(), Config{Concurrency: 1, Alias: "a:b"})
	require.ErrorContains(t, err, "model name")
}

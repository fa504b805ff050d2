package chores_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ingot-run/ingot/queue/chores"
	"github.com/ingot-run/ingot/queue/redistest"
)

const queue = "ingot:chores"

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// setup returns a Redis server, an inspector of its queues, and a function that starts a member.
func setup(t *testing.T) (rdb *redis.Client, inspector *asynq.Inspector, start func(chores.Options) (stop func())) {
	t.Helper()
	rdb = redistest.Start(t).Client
	return rdb, asynq.NewInspectorFromRedisClient(rdb), func(o chores.Options) func() {
		t.Helper()
		o.Queue, o.Interval, o.Concurrency = queue, 10*time.Millisecond, 4
		if o.Logger == nil {
			o.Logger = slog.New(slog.DiscardHandler)
		}
		if o.Periodic == nil {
			o.Periodic = func() []chores.Periodic { return nil }
		}
		c, err := chores.New(rdb, o)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.Run(ctx) }()
		stop := sync.OnceFunc(func() {
			cancel()
			require.NoError(t, <-ended)
		})
		t.Cleanup(stop)
		return stop
	}
}

func until(t *testing.T, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, time.Minute, 5*time.Millisecond)
}

// TestUnique queues a task twice before a member runs, and once after it has been done.
func TestUnique(t *testing.T) {
	t.Parallel()
	rdb, inspector, start := setup(t)
	task := chores.Task{Kind: "sweep", Payload: "b", Unique: true}
	for range 2 {
		require.NoError(t, chores.Enqueue(t.Context(), rdb, queue, task))
	}
	waiting, err := inspector.ListPendingTasks(queue)
	require.NoError(t, err)
	require.Len(t, waiting, 1)
	done := make(chan string, 9)
	start(chores.Options{Handlers: map[string]chores.Handler{"sweep": {Do: func(_ context.Context, payload string, _ int) error {
		done <- payload
		return nil
	}}}})
	require.Equal(t, "b", <-done)
	until(t, func() bool { info, err := inspector.GetQueueInfo(queue); return err == nil && info.Size == 0 })
	require.NoError(t, chores.Enqueue(t.Context(), rdb, queue, task))
	require.Equal(t, "b", <-done)
	require.Empty(t, done)
}

// TestAttempts lets a handler fail, panic, and give its task back. Only the first two count. After
// the last attempt, operators see the task in the archive.
func TestAttempts(t *testing.T) {
	t.Parallel()
	rdb, inspector, start := setup(t)
	var log strings.Builder
	var attempts, waits []int
	stop := start(chores.Options{
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Handlers: map[string]chores.Handler{"call": {
			Do: func(_ context.Context, _ string, attempt int) error {
				attempts = append(attempts, attempt)
				switch len(attempts) {
				case 1:
					return chores.Later(0)
				case 3:
					panic("no such thing")
				}
				return errors.New("the server is away")
			},
			Wait: func(attempt int) time.Duration { waits = append(waits, attempt); return 0 },
		}},
	})
	require.NoError(t, chores.Enqueue(t.Context(), rdb, queue, chores.Task{Kind: "call", Attempts: 3, Timeout: time.Minute}))
	var archived []*asynq.TaskInfo
	until(t, func() (found bool) {
		archived, _ = inspector.ListArchivedTasks(queue)
		return len(archived) == 1
	})
	stop()
	require.Equal(t, []int{1, 1, 2, 3}, attempts)
	require.Equal(t, []int{1, 2}, waits)
	require.Equal(t, "the server is away", archived[0].LastErr)
	require.Equal(t, time.Minute, archived[0].Timeout)
	require.Contains(t, log.String(), `level=ERROR msg="a chore failed" kind=call`)
	require.Contains(t, log.String(), "no such thing")
}

// TestStop stops a member during a task. Another member continues the task, and the interrupted
// attempt does not count.
func TestStop(t *testing.T) {
	t.Parallel()
	rdb, _, start := setup(t)
	begun, attempts := make(chan bool), make(chan int)
	stop := start(chores.Options{Handlers: map[string]chores.Handler{"run": {Do: func(ctx context.Context, _ string, _ int) error {
		close(begun)
		<-ctx.Done()
		return fmt.Errorf("stopped: %w", ctx.Err())
	}}}})
	require.NoError(t, chores.Enqueue(t.Context(), rdb, queue, chores.Task{Kind: "run"}))
	<-begun
	stop()
	start(chores.Options{}) // a member without the kind leaves the task to others
	start(chores.Options{Handlers: map[string]chores.Handler{"run": {Do: func(_ context.Context, _ string, attempt int) error {
		attempts <- attempt
		return nil
	}}}})
	require.Equal(t, 1, <-attempts)
}

// TestPeriodic changes the periodic tasks of a member while it runs.
func TestPeriodic(t *testing.T) {
	t.Parallel()
	_, inspector, start := setup(t)
	var mu sync.Mutex
	cron := "0 4 * * *"
	start(chores.Options{Periodic: func() []chores.Periodic {
		mu.Lock()
		defer mu.Unlock()
		return []chores.Periodic{{Cron: cron, Task: chores.Task{Kind: "sweep", Payload: "all"}}}
	}})
	spec := func() string {
		entries, err := inspector.SchedulerEntries()
		if err != nil || len(entries) != 1 {
			return ""
		}
		return entries[0].Spec + " " + entries[0].Task.Type() + " " + string(entries[0].Task.Payload())
	}
	until(t, func() bool { return spec() == "0 4 * * * sweep all" })
	mu.Lock()
	cron = "CRON_TZ=Europe/Berlin 0 5 * * *"
	mu.Unlock()
	until(t, func() bool { return spec() == "CRON_TZ=Europe/Berlin 0 5 * * * sweep all" })
}

// TestOneServer refuses a cluster.
func TestOneServer(t *testing.T) {
	t.Parallel()
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}})
	defer cluster.Close()
	_, err := chores.New(cluster, chores.Options{})
	require.ErrorContains(t, err, "they need one Redis server")
}

// TestChoresThatCannotBeQueued: errors of Redis are returned.
func TestChoresThatCannotBeQueued(t *testing.T) {
	t.Parallel()
	rdb, _, _ := setup(t)
	stopped, stop := context.WithCancel(t.Context())
	stop()
	err := chores.Enqueue(stopped, rdb, queue, chores.Task{Kind: "call"})
	require.ErrorContains(t, err, "queue a chore: ")
	require.ErrorContains(t, err, context.Canceled.Error()) // asynq does not wrap errors
}

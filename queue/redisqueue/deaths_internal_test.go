package redisqueue

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/queue"
)

// A worker that was only suspended subtracts the deaths that were counted for it, and continues under another id.
func TestASleepIsNoDeath(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	begun, ended := make(chan struct{}, 1), make(chan struct{}, 1)
	a := f.serve(1, func(ctx context.Context, q *Queue, j *queue.Job) error {
		if j.Delivery > 0 {
			return answer(ctx, q, j, "after its sleep")
		}
		if _, err := q.Begin(ctx, j); err != nil {
			return err
		}
		begun <- struct{}{}
		<-ctx.Done()
		ended <- struct{}{}
		return queue.ErrDeliveryEnded
	})
	<-begun
	id := func() string {
		all, err := f.queue.Fleet(t.Context())
		require.NoError(t, err)
		for _, w := range all {
			if w.Live() && w.Rows > 0 {
				return w.ID
			}
		}
		return ""
	}
	f.eventually("the worker's record has the row", func() bool { return id() != "" })
	before := id()
	a.sleep()
	r := newReaper(f.queue, new(member), "m", slog.New(slog.DiscardHandler))
	r.watch.Leases = shortLeases
	r.queue.Leases = shortLeases
	f.eventually("the row is taken from the worker", func() bool {
		require.NoError(t, r.look(t.Context()))
		n, err := f.queue.deaths(t.Context(), delivery{"b", 1, 0})
		require.NoError(t, err)
		return n == 1
	})
	a.wake()
	<-ended
	f.eventually("the worker answers the row", func() bool { return f.recorded("b")[1] == "after its sleep" })
	all, err := f.queue.Fleet(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 2)
	for _, w := range all {
		require.Equal(t, w.ID == before, !w.Live(), "the worker is lost only under its old id")
		require.Equal(t, []string{"m"}, w.Aliases)
		require.False(t, w.Beat.IsZero())
	}
	n, err := f.queue.Workers(t.Context(), "m")
	require.NoError(t, err)
	require.Equal(t, 1, n)
	a.stop()
	f.requireEmptyQueue()
	all, err = f.queue.Fleet(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 1, "a worker that shuts down leaves no record")
}

// If a worker takes a task and dies before it owns the task, the task returns to the queue, and no death is counted.
func TestAnOrphanGoesBackToTheQueue(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2)
	f.take(delivery{"b", 1, 0}, "")
	f.take(delivery{"b", 2, 0}, "")
	var mu sync.Mutex
	deliveries := map[int]string{}
	f.serve(1, func(ctx context.Context, q *Queue, j *queue.Job) error {
		mu.Lock()
		defer mu.Unlock()
		deliveries[j.Line] = fmt.Sprint(j.Delivery, " ", j.Deaths)
		return answer(ctx, q, j, "found")
	})
	f.eventually("both rows are answered", func() bool { return len(f.recorded("b")) == 2 })
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, map[int]string{1: "1 0", 2: "1 0"}, deliveries)
}

// Deaths and attempts are counted separately. A row that is queued again keeps its delivery number.
func TestDeathsAreNotAttempts(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	ctx, q := t.Context(), f.queue
	j := &queue.Job{Batch: "b", Line: 1}
	take := func() { f.take(delivery{"b", 1, j.Delivery}, "w") }
	handOver := func() bool {
		moved, err := q.handOver(ctx, "m:default", delivery{"b", 1, j.Delivery}, "w")
		require.NoError(t, err)
		return moved
	}
	deaths := func() int {
		n, err := q.deaths(ctx, delivery{"b", 1, j.Delivery})
		require.NoError(t, err)
		return n
	}
	take()
	require.True(t, handOver(), "a row that was taken but not begun is handed over")
	require.Zero(t, deaths())
	for i := range 3 {
		j.Delivery++
		take()
		start, err := q.Begin(ctx, j)
		require.NoError(t, err)
		require.Equal(t, 1, start.Attempt)
		require.Equal(t, i, deaths())
		require.True(t, handOver())
		require.False(t, handOver(), "a row is handed over only once")
		require.Equal(t, i+1, deaths())
		_, err = q.Begin(ctx, j)
		require.ErrorIs(t, err, queue.ErrSuperseded)
	}
	again := fleetJob("b", 1)
	added, err := q.Add(ctx, "m", queue.Default, []*queue.Job{again})
	require.NoError(t, err)
	require.Equal(t, []bool{false}, added, "the row is already queued")
	_, err = q.inspector.DeleteAllPendingTasks("m:default")
	require.NoError(t, err)
	added, err = q.Add(ctx, "m", queue.Default, []*queue.Job{again})
	require.NoError(t, err)
	require.Equal(t, []bool{true}, added, "a lost row can be queued again")
	info, err := q.inspector.GetTaskInfo("m:default", "b:1:4")
	require.NoError(t, err)
	require.Equal(t, asynq.TaskStatePending, info.State)
	j.Delivery = 4
	_, err = q.Begin(ctx, j)
	require.NoError(t, err)
}

// If a delivery ends after asynq's lease, asynq leaves the task in the list of running tasks. The row then returns to the queue. No
// death is counted, since the worker is alive.
func TestADeliveryWithoutAnOwnerIsNoDeath(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	ctx, q := t.Context(), f.queue
	d := delivery{"b", 1, 0}
	f.take(d, "w")
	_, err := q.Begin(ctx, &queue.Job{Batch: "b", Line: 1})
	require.NoError(t, err)
	moved, err := q.handOver(ctx, "m:default", d, "")
	require.NoError(t, err)
	require.False(t, moved, "a row with an owner is not handed over")
	require.NoError(t, q.disown(ctx, "m:default", d, "another"))
	require.NoError(t, q.disown(ctx, "m:default", d, "w"))
	moved, err = q.handOver(ctx, "m:default", d, "")
	require.NoError(t, err)
	require.True(t, moved)
	n, err := q.deaths(ctx, d)
	require.NoError(t, err)
	require.Zero(t, n)
	start, err := q.Begin(ctx, &queue.Job{Batch: "b", Line: 1, Delivery: 1})
	require.NoError(t, err)
	require.Equal(t, 2, start.Attempt, "a lost lease counts as an attempt")
}

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

// A worker that was only suspended subtracts the deaths that were counted for it, and continues
// under another id.
func TestASleepIsNoDeath(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	begun, ended := make(chan struct{}, 1), make(chan struct{}, 1)
	a := f.serve(1, func(ctx context.Context, d *queue.Delivery) queue.Outcome {
		if numberOf(d) > 0 {
			return answer(ctx, d, "after its sleep")
		}
		begun <- struct{}{}
		<-ctx.Done()
		ended <- struct{}{}
		return queue.Interrupted(context.Cause(ctx))
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
	f.queue.Leases = shortLeases
	r := newReaper(f.queue, f.member(""), "m", slog.New(slog.DiscardHandler))
	f.eventually("the row is taken from the worker", func() bool {
		require.NoError(t, r.look(t.Context()))
		return f.count("deaths", 1) == 1
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

// If a worker takes a task and dies before it owns the task, the task returns to the queue, and no
// death is counted.
func TestAnOrphanGoesBackToTheQueue(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2)
	f.take(1, 0, "")
	f.take(2, 0, "")
	var mu sync.Mutex
	deliveries := map[int]string{}
	f.serve(1, func(ctx context.Context, d *queue.Delivery) queue.Outcome {
		mu.Lock()
		defer mu.Unlock()
		deliveries[d.Line] = fmt.Sprint(numberOf(d), " ", d.Deaths)
		return answer(ctx, d, "found")
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
	f.take(1, 0, "w")
	require.NoError(t, q.rdb.HSet(ctx, taskKey("m:default", "b:1"), "owner", "w").Err())
	f.reap()
	require.Zero(t, f.count("deaths", 1), "a row that was taken but not begun is handed over")
	for i := range 3 {
		h := f.take(1, i+1, "w")
		require.Equal(t, i, h.value.Deaths)
		attempt, err := f.begin(h)
		require.NoError(t, err)
		require.Equal(t, 1, attempt)
		f.reap()
		require.Equal(t, i+1, f.count("deaths", 1))
		f.reap()
		require.Equal(t, i+2, f.count("deliveries", 1), "a row is handed over only once")
		_, err = f.begin(h)
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
	info, err := q.inspector.GetTaskInfo("m:default", "b:1")
	require.NoError(t, err)
	require.Equal(t, asynq.TaskStatePending, info.State)
	_, err = f.begin(f.take(1, 4, "w"))
	require.NoError(t, err)
}

// A row that runs without an owner returns to the queue. No death is counted, since its worker is
// alive.
func TestADeliveryWithoutAnOwnerIsNoDeath(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	ctx, q := t.Context(), f.queue
	h := f.take(1, 0, "w")
	require.NoError(t, h.feed.server.member.join(ctx))
	_, err := f.begin(h)
	require.NoError(t, err)
	f.reap()
	require.Zero(t, f.count("deliveries", 1), "a row with a live owner is not handed over")
	require.NoError(t, q.rdb.HDel(ctx, taskKey("m:default", "b:1"), "owner").Err())
	f.reap()
	require.Zero(t, f.count("deliveries", 1), "it is not handed over at once")
	q.Leases.Silence = 0
	f.reap()
	require.Equal(t, 1, f.count("deliveries", 1))
	require.Zero(t, f.count("deaths", 1))
	attempt, err := f.begin(f.take(1, 1, "w"))
	require.NoError(t, err)
	require.Equal(t, 2, attempt, "a lost delivery counts as an attempt")
}

func numberOf(d *queue.Delivery) int { return d.Recorder.(*delivery).number }

// Counts that are not whole numbers, which another program has written, count as 0: the row is
// fenced, counted and answered as others are.
func TestDamagedCounts(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"x", "", "-3", "1.5", "1e3", "99999999999999999999", "7x"} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, 1)
			for _, name := range []string{"deliveries", "deaths", "attempts"} {
				require.NoError(t, f.queue.rdb.HSet(t.Context(), key("b", name), "1", text).Err())
			}
			h := f.take(1, 0, "w")
			attempt, err := f.begin(h)
			require.NoError(t, err)
			require.Equal(t, 1, attempt)
			f.reap()
			require.Equal(t, []int{1, 1, 0}, []int{f.count("deliveries", 1), f.count("deaths", 1), f.count("attempts", 1)})
			_, err = f.begin(h)
			require.ErrorIs(t, err, queue.ErrSuperseded)
			f.serve(1, func(ctx context.Context, d *queue.Delivery) queue.Outcome {
				return answer(ctx, d, fmt.Sprint(numberOf(d), d.Deaths, d.Attempt))
			})
			f.eventually("the row is answered", func() bool { return f.recorded("b")[1] == "1 1 1" })
			f.requireEmptyQueue()
		})
	}
}

package redisqueue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/queue"
)

// The rows of a silent worker go to another worker, in their order and before rows that were queued later. When the silent worker wakes, it
// cannot change these rows: its results have no effect, and neither have the scripts that asynq runs when its handlers return.
func TestASleepingWorkerLosesItsRows(t *testing.T) {
	t.Parallel()
	for _, outcome := range []string{"record", "fail", "hand back"} {
		t.Run(outcome, func(t *testing.T) {
			t.Parallel()
			const rows = 4
			f := newFleet(t, rows)
			begun, goOn := make(chan int, rows), make(chan struct{})
			late := make(chan error, rows)
			a := f.serve(rows, func(ctx context.Context, q *Queue, j *queue.Job) error {
				start, err := q.Begin(ctx, j)
				if err != nil {
					return err
				}
				begun <- start.Attempt
				<-goOn
				switch outcome {
				case "record":
					_, err = q.Record(context.WithoutCancel(ctx), "b", queue.Result{Sum: "0badcafe", Line: j.Line, Delivery: j.Delivery, Text: []byte("late")})
					late <- errors.Join(err, q.SaveCheckpoint(context.WithoutCancel(ctx), j, []byte("late")))
					return err
				case "fail":
					late <- queue.ErrSuperseded
					return errors.New("broken")
				}
				late <- queue.ErrSuperseded
				return errors.Join(queue.ErrHandedBack, q.Release(context.WithoutCancel(ctx), j))
			})
			for range rows {
				require.Equal(t, 1, <-begun)
			}
			a.sleep()
			f.enqueue("later", 1, 2)

			var mu sync.Mutex
			var order []string
			held := make(chan struct{})
			b := f.serve(1, func(ctx context.Context, q *Queue, j *queue.Job) error {
				mu.Lock()
				order = append(order, fmt.Sprint(j.Batch, " ", j.Line, " ", j.Delivery, " ", j.Deaths))
				mu.Unlock()
				if j.Batch == "later" && j.Line == 1 && len(order) == 1 {
					<-held // wait until the rows of the sleeping worker are back in the queue
				}
				return answer(ctx, q, j, "by the other")
			})
			f.eventually("the rows are in the queue again", func() bool {
				n, err := f.queue.rdb.HLen(t.Context(), key("b", "deliveries")).Result()
				require.NoError(t, err)
				return n == rows
			})
			close(held)
			f.eventually("all rows are recorded", func() bool { return len(f.recorded("b")) == rows && len(f.recorded("later")) == 2 })
			mu.Lock()
			require.Contains(t, [][]string{
				{"later 1 0 0", "b 1 1 1", "b 2 1 1", "b 3 1 1", "b 4 1 1", "later 2 0 0"},
				{"later 1 0 0", "later 2 0 0", "b 1 1 1", "b 2 1 1", "b 3 1 1", "b 4 1 1"}, // this worker took two rows before the others were back
			}, order)
			mu.Unlock()

			a.wake()
			close(goOn)
			for range rows {
				if err := <-late; outcome == "record" {
					require.NoError(t, err, "a late result of a recorded row is ignored")
				}
			}
			a.stop()
			b.stop()
			f.requireEmptyQueue()
			for _, text := range f.recorded("b") {
				require.Equal(t, "by the other", text)
			}
			for _, name := range []string{"attempts", "deliveries", "deaths", "checkpoints"} {
				n, err := f.queue.rdb.Exists(t.Context(), key("b", name)).Result()
				require.NoError(t, err)
				require.Zero(t, n, "%s still holds recorded rows", name)
			}
		})
	}
}

// A row goes from a sleeping worker to a second one. When the first worker wakes, its writes do not change the row, and the row's task
// stays in the queue in case the second worker dies too.
func TestALateWriteDoesNotEndTheNewDelivery(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	begun, goOn := make(chan struct{}, 1), make(chan struct{})
	late := make(chan error, 3)
	a := f.serve(1, func(ctx context.Context, q *Queue, j *queue.Job) error {
		_, err := q.Begin(ctx, j)
		if err != nil {
			return err
		}
		begun <- struct{}{}
		<-goOn
		_, err = q.Record(context.WithoutCancel(ctx), "b", queue.Result{Sum: "0badcafe", Line: j.Line, Delivery: j.Delivery, Text: []byte("late")})
		late <- err
		late <- q.SaveCheckpoint(context.WithoutCancel(ctx), j, []byte("late"))
		late <- q.Release(context.WithoutCancel(ctx), j)
		return nil // as after a success, so that asynq removes the task
	})
	<-begun
	a.sleep()
	running, finish := make(chan struct{}, 1), make(chan struct{})
	b := f.serve(1, func(ctx context.Context, q *Queue, j *queue.Job) error {
		if _, err := q.Begin(ctx, j); err != nil {
			return err
		}
		running <- struct{}{}
		<-finish
		_, err := q.Record(ctx, "b", queue.Result{Sum: "0badcafe", Line: 1, Delivery: j.Delivery, Text: []byte("by the other")})
		return err
	})
	<-running
	a.wake()
	close(goOn)
	require.ErrorIs(t, <-late, queue.ErrSuperseded)
	require.ErrorIs(t, <-late, queue.ErrSuperseded)
	require.NoError(t, <-late)
	a.stop()
	info, err := f.queue.inspector.GetTaskInfo("m:default", "b:1:1")
	require.NoError(t, err)
	require.Equal(t, asynq.TaskStateActive, info.State)
	require.Empty(t, f.recorded("b"))
	st, err := f.queue.Status(t.Context(), "b")
	require.NoError(t, err)
	require.Equal(t, 1, st.Running)
	n, err := f.queue.numbers(t.Context(), "b", 1)
	require.NoError(t, err)
	require.Equal(t, []int{1}, n)
	close(finish)
	f.eventually("the row is recorded", func() bool { return f.recorded("b")[1] == "by the other" })
	b.stop()
	f.requireEmptyQueue()
}

// A worker wakes between the two scripts of a hand-over, and asynq queues its old task again. The row is still delivered.
func TestAWorkerThatComesBackInAHandOver(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	var once sync.Once
	numbers := make(chan int, 9)
	f.serve(1, func(ctx context.Context, q *Queue, j *queue.Job) error {
		numbers <- j.Delivery
		first := false
		once.Do(func() { first = true })
		if !first {
			return answer(ctx, q, j, "answered")
		}
		if _, err := q.Begin(ctx, j); err != nil {
			return err
		}
		n, err := revokeScript.Run(ctx, q.rdb, keys("b", "meta", "done", "attempts", "deliveries", "deaths"), 1, 0, 1).Int()
		require.NoError(t, err)
		require.Equal(t, 1, n)
		return queue.ErrDeliveryEnded
	})
	f.eventually("the row is answered", func() bool { return f.recorded("b")[1] == "answered" })
	require.Equal(t, []int{0, 0, 1}, []int{<-numbers, <-numbers, <-numbers})
	f.requireEmptyQueue()
}

// A worker that could not give up a row because Redis was unreachable does so with its next heartbeat. Otherwise it would stay the row's owner.
func TestARowIsGivenUpWhenRedisIsBack(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	client := redis.NewClient(f.redis.Client.Options())
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	s := &sleeper{queue: New(client)}
	client.AddHook(s)
	s.queue.Leases = shortLeases
	m, err := s.queue.join(t.Context(), queue.ServeOptions{Alias: "m", Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	d := delivery{"b", 1, 0}
	owner := func() string {
		id, err := f.queue.rdb.HGet(t.Context(), taskKey("m:default", d), "owner").Result()
		require.True(t, err == nil || isNil(err), "%v", err)
		return id
	}
	require.NoError(t, f.queue.rdb.HSet(t.Context(), taskKey("m:default", d), "state", "active").Err())
	h := m.hold(t.Context(), "m:default", d.id(), time.Now().Add(time.Hour))
	h.taken = h.taken.Add(time.Minute)
	m.ownWaiting(t.Context())
	require.Empty(t, owner(), "the row was taken since the last heartbeat")
	h.taken = h.taken.Add(-2 * time.Minute)
	m.ownWaiting(t.Context())
	require.Equal(t, m.worker(), owner(), "the worker owns a row that waits in it")
	s.setCut(true)
	m.release(t.Context(), h, queue.ErrDeliveryEnded)
	require.Equal(t, m.worker(), owner())
	m.settle(t.Context())
	require.Equal(t, m.worker(), owner())
	s.setCut(false)
	m.settle(t.Context())
	require.Empty(t, owner())
	require.Empty(t, m.debts)
}

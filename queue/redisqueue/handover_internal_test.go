package redisqueue

import (
	"bytes"
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

// A program that waits for answers finds a dead worker although no other worker runs, and returns
// its rows to the queue.
func TestWatchWorkersFindsTheLastOne(t *testing.T) {
	t.Parallel()
	const rows = 3
	f := newFleet(t, rows)
	begun := make(chan struct{}, rows)
	a := f.serve(rows, func(ctx context.Context, _ *queue.Delivery) queue.Outcome {
		begun <- struct{}{}
		<-ctx.Done()
		return queue.Interrupted(ctx.Err())
	})
	for range rows {
		<-begun
	}
	ctx, stop := context.WithCancel(t.Context())
	watcher := New(f.redis.Client)
	watcher.Leases = shortLeases
	var watching sync.WaitGroup
	watching.Go(func() { watcher.WatchWorkers(ctx, slog.New(slog.DiscardHandler)) })
	defer watching.Wait()
	defer stop()
	lost := func() bool {
		all, err := f.queue.Fleet(t.Context())
		require.NoError(t, err)
		require.Len(t, all, 1)
		return !all[0].Live()
	}
	require.False(t, lost())
	a.sleep()
	defer a.wake()
	f.eventually("the worker is declared lost", lost)
	f.eventually("its rows are in the queue again", func() bool {
		waiting, err := f.queue.inspector.GetQueueInfo("m:default")
		require.NoError(t, err)
		return waiting.Active == 0 && f.count("deaths", rows) == 1
	})
}

// The rows of a silent worker go to another worker, in their order and before rows that were queued
// later. When the silent worker wakes, it cannot change these rows: its results have no effect, and
// neither have the scripts that it runs when its handlers return.
func TestASleepingWorkerLosesItsRows(t *testing.T) {
	t.Parallel()
	for _, outcome := range []string{"record", "fail", "hand back"} {
		t.Run(outcome, func(t *testing.T) {
			t.Parallel()
			const rows = 4
			f := newFleet(t, rows)
			begun, goOn := make(chan int, rows), make(chan struct{})
			late := make(chan error, rows)
			a := f.serve(rows, func(ctx context.Context, d *queue.Delivery) queue.Outcome {
				begun <- d.Attempt
				until(t, goOn)
				ctx = context.WithoutCancel(ctx)
				switch outcome {
				case "record":
					_, err := d.Record(ctx, queue.Result{Sum: "0badcafe", Line: d.Line, Text: []byte("late")})
					late <- errors.Join(err, d.Save(ctx, []byte("late")))
					return queue.Interrupted(err)
				case "fail":
					late <- queue.ErrSuperseded
					return queue.Retry(0, errors.New("broken"))
				}
				late <- queue.ErrSuperseded
				return queue.HandBack()
			})
			for range rows {
				require.Equal(t, 1, receive(t, begun))
			}
			a.sleep()
			f.enqueue("later", 1, 2)

			var mu sync.Mutex
			var order []string
			held := make(chan struct{})
			b := f.serve(1, func(ctx context.Context, d *queue.Delivery) queue.Outcome {
				mu.Lock()
				order = append(order, fmt.Sprint(d.Batch, " ", d.Line, " ", numberOf(d), " ", d.Deaths))
				mu.Unlock()
				if d.Batch == "later" && d.Line == 1 && len(order) == 1 {
					until(t, held) // wait until the rows of the sleeping worker are back in the queue
				}
				return answer(ctx, d, "by the other")
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
				if err := receive(t, late); outcome == "record" {
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

// A row goes from a sleeping worker to a second one. When the first worker wakes, its writes do not
// change the row, and the row's task stays in the queue in case the second worker dies too.
func TestALateWriteDoesNotEndTheNewDelivery(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	begun, goOn := make(chan struct{}, 1), make(chan struct{})
	late := make(chan error, 3)
	a := f.serve(1, func(ctx context.Context, d *queue.Delivery) queue.Outcome {
		begun <- struct{}{}
		until(t, goOn)
		_, err := d.Record(context.WithoutCancel(ctx), queue.Result{Sum: "0badcafe", Line: d.Line, Text: []byte("late")})
		late <- err
		late <- d.Save(context.WithoutCancel(ctx), []byte("late"))
		return queue.Done() // as after a success, so that the worker removes the task
	})
	receive(t, begun)
	a.sleep()
	running, finish := make(chan struct{}, 1), make(chan struct{})
	b := f.serve(1, func(ctx context.Context, d *queue.Delivery) queue.Outcome {
		running <- struct{}{}
		until(t, finish)
		return answer(ctx, d, "by the other")
	})
	receive(t, running)
	a.wake()
	close(goOn)
	require.ErrorIs(t, receive(t, late), queue.ErrSuperseded)
	require.ErrorIs(t, receive(t, late), queue.ErrSuperseded)
	a.stop()
	info, err := f.queue.inspector.GetTaskInfo("m:default", "b:1")
	require.NoError(t, err)
	require.Equal(t, asynq.TaskStateActive, info.State)
	require.Empty(t, f.recorded("b"))
	st, err := f.queue.Status(t.Context(), "b")
	require.NoError(t, err)
	require.Equal(t, 1, st.Running)
	require.Equal(t, 1, f.count("deliveries", 1))
	close(finish)
	f.eventually("the row is recorded", func() bool { return f.recorded("b")[1] == "by the other" })
	b.stop()
	f.requireEmptyQueue()
}

// A row is handed over while its worker still runs and then ends the delivery. The row is delivered
// once more.
func TestAWorkerThatComesBackInAHandOver(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	var once sync.Once
	numbers := make(chan int, 9)
	f.serve(1, func(ctx context.Context, d *queue.Delivery) queue.Outcome {
		numbers <- numberOf(d)
		first := false
		once.Do(func() { first = true })
		if !first {
			return answer(ctx, d, "answered")
		}
		require.NoError(t, f.queue.rdb.HSet(ctx, taskKey("m:default", "b:1"), "owner", "a dead worker", "begun", "a dead worker").Err())
		f.eventually("the row is handed over", func() bool { return f.count("deliveries", 1) == 1 })
		return queue.Interrupted(nil)
	})
	f.eventually("the row is answered", func() bool { return f.recorded("b")[1] == "answered" })
	require.Equal(t, []int{0, 1}, []int{receive(t, numbers), receive(t, numbers)})
	f.requireEmptyQueue()
}

// A worker that could not give up a row because Redis was unreachable does so with its next
// heartbeat. Otherwise it would stay the row's owner.
func TestARowIsGivenUpWhenRedisIsBack(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	client := redis.NewClient(f.redis.Client.Options())
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	s := &sleeper{queue: New(client)}
	client.AddHook(s)
	s.queue.Leases = shortLeases
	task := func(field string) string {
		text, err := f.queue.rdb.HGet(t.Context(), taskKey("m:default", "b:1"), field).Result()
		require.True(t, err == nil || isNil(err), "%v", err)
		return text
	}
	h := f.take(1, 0, "w")
	m := h.feed.server.member
	m.queue = s.queue
	h.taken = time.Now().Add(time.Minute)
	require.NoError(t, m.join(t.Context()))
	require.Empty(t, task("owner"), "the row was taken since the last heartbeat")
	h.taken = time.Now().Add(-time.Minute)
	require.NoError(t, m.join(t.Context()))
	require.Equal(t, "w", task("owner"), "the worker owns a row that waits in it")
	s.setCut(true)
	var log bytes.Buffer
	m.outage = &outage{log: slog.New(slog.NewTextHandler(&log, nil))}
	server := &server{queue: s.queue, member: m, deliveries: t.Context()}
	server.finish(h, ending{place: head})
	require.Equal(t, "active", task("state"))
	require.Contains(t, log.String(), noEnd)
	m.settle(t.Context())
	require.Equal(t, "active", task("state"))
	require.NotEmpty(t, m.outage.logged)
	s.setCut(false)
	m.settle(t.Context())
	require.Equal(t, []string{"pending", ""}, []string{task("state"), task("owner")})
	require.Empty(t, m.debts)
	require.Empty(t, m.outage.logged, "a new failure is logged again")
}

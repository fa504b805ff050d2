package redisqueue

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/queue"
)

// Record removes the row's task in the same step, and asynq's tools count the task as done.
func TestARecordedRowHasNoTask(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	recorded, goOn := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(goOn) })
	w := f.serve(1, func(ctx context.Context, d *queue.Delivery) queue.Outcome {
		outcome := answer(ctx, d, "answered")
		recorded <- struct{}{}
		<-goOn
		return outcome
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

// A worker does not repeat its last step if the task is gone.
func TestAWorkerAcceptsThatATaskIsGone(t *testing.T) {
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
		err := q.Serve(ctx, queue.ServeOptions{
			Alias: "m", Concurrency: 1, ShutdownTimeout: time.Minute, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		}, func(ctx context.Context, _ *queue.Delivery) queue.Outcome {
			defer close(handled)
			require.NoError(t, f.queue.rdb.Del(ctx, taskKey("m:default", "b:1"), asynqKey("m:default", "active")).Err())
			return queue.Done()
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

// The list of pending tasks has ids of tasks that do not exist. They are skipped and removed.
func TestATaskThatIsGoneIsNotTaken(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	require.NoError(t, f.queue.rdb.Del(t.Context(), taskKey("m:default", "b:1"), taskKey("m:default", "b:2")).Err())
	f.take(3, 0, "")
	require.Equal(t, []string{"b:3"}, f.queue.rdb.LRange(t.Context(), asynqKey("m:default", "active"), 0, -1).Val())
	require.Equal(t, []string{taskKey("m:default", "b:3")}, f.redis.Client.Keys(t.Context(), "asynq:*:t:*").Val())
}

// A worker also owns a row that it has taken but not begun. No other worker takes the row.
func TestARowThatWaitsInItsWorkerIsNotTaken(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	waits, goOn := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(goOn) })
	t.Cleanup(release)
	f.queue.Leases = shortLeases
	ctx, stop := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	serving.Go(func() {
		err := f.queue.Serve(ctx, queue.ServeOptions{
			Alias: "m", Concurrency: 1, ShutdownTimeout: time.Minute, Logger: slog.New(slog.DiscardHandler),
			Admit: func(_ context.Context, _ *queue.Delivery, wait bool) (func(), bool) {
				if wait {
					waits <- struct{}{}
					<-goOn
				}
				return func() {}, wait
			},
		}, func(ctx context.Context, d *queue.Delivery) queue.Outcome {
			require.Zero(t, numberOf(d))
			return answer(ctx, d, "answered")
		})
		require.NoError(t, err)
	})
	<-waits
	f.eventually("the row has an owner", func() bool {
		return f.queue.rdb.HGet(t.Context(), taskKey("m:default", "b:1"), "owner").Val() != ""
	})
	require.Zero(t, f.queue.rdb.Exists(t.Context(), key("b", "attempts")).Val())
	release()
	f.eventually("the row is answered", func() bool { return f.recorded("b")[1] == "answered" })
	stop()
	serving.Wait()
}

// One request looks at all queues, in random order by weight.
func TestTheOrderOfQueues(t *testing.T) {
	t.Parallel()
	f := &feed{queues: map[string]int{"a": 6, "b": 3, "c": 1}}
	queues := []string{"b", "c", "a"}
	const n = 10_000
	counts := map[string]int{}
	for range n {
		order := f.order(queues)
		require.ElementsMatch(t, []byte("123"), []byte(order))
		counts[order[:1]]++
		if order[0] == '3' {
			counts[order[:2]]++
		}
	}
	require.InDelta(t, n*6/10, counts["3"], 300, "a; the standard deviation is 49")
	require.InDelta(t, n*3/10, counts["1"], 300, "b")
	require.InDelta(t, n*6/10*3/4, counts["31"], 300, "b after a")
}

// One request takes many tasks. Each task comes from the first queue in its order that has a task.
// A paused queue is skipped.
func TestTasksAreTakenTogether(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 300)
	bulk := fleetJob("b", 301)
	_, err := f.queue.Add(t.Context(), "m", queue.Bulk, []*queue.Job{bulk, fleetJob("b", 302)})
	require.NoError(t, err)
	ask := func(orders ...any) (ids []string) {
		t.Helper()
		c := with(takeScript, "queues", "m:bulk m:default", "context", 0).rows(len(orders), "order")
		c.add(orders...)
		list, err := f.queue.run(t.Context(), c).Slice()
		require.NoError(t, err)
		for _, item := range list {
			row := item.([]any)
			info, err := f.queue.inspector.GetTaskInfo(row[0].(string), row[1].(string))
			require.NoError(t, err)
			require.Equal(t, asynq.TaskStateActive, info.State)
			ids = append(ids, info.ID)
		}
		return ids
	}
	require.NoError(t, f.queue.inspector.PauseQueue("m:bulk"))
	require.Equal(t, []string{"b:1"}, ask("12"))
	require.NoError(t, f.queue.inspector.UnpauseQueue("m:bulk"))
	require.Equal(t, []string{"b:2", "b:301", "b:3", "b:302", "b:4", "b:5"}, ask("21", "12", "21", "12", "12", "21"))
	var orders []any
	var want []string
	for line := 6; line <= 300; line++ { // more than are pending at a time
		orders, want = append(orders, "21"), append(want, fmt.Sprint("b:", line))
	}
	require.Equal(t, want, ask(append(orders, "21")...))
	require.Empty(t, ask("12"))
}

// A feed takes as many rows ahead as the engine computes in prefetchTime, within limits. Results
// wait for each other until three quarters of these rows are used up. The reserve has as many rows
// as results are recorded together, and none if rows are long.
func TestRowsAhead(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name                   string
		handlers, prefetch     int
		mean                   time.Duration
		limit, group, reserved int
	}{
		{"no row has ended", 32, 16, 0, 20, 3, 0},
		{"short", 32, 16, 10 * time.Millisecond, 32, 12, 12},
		{"shortest", 32, 16, 1, 32, 12, 12},
		{"of prefetchTime", 32, 16, prefetchTime, 32, 12, 12},
		{"longer", 32, 16, 2 * prefetchTime, 24, 6, 6},
		{"much longer", 32, 16, 5 * prefetchTime, 20, 3, 2},
		{"long", 32, 16, time.Minute, 20, 3, 0},
		{"fewer ahead than allowed", 18, 2, time.Minute, 18, 1, 0},
		{"many", 1024, 512, time.Millisecond, 1024, maxGroup, maxGroup},
		{"one at a time, short", 2, 1, time.Millisecond, 2, 1, 1},
		{"one at a time, long", 2, 1, time.Minute, 1, 1, 0},
		{"none ahead", 64, 0, time.Millisecond, 64, 1, 0},
	} {
		now := capacity{running: c.handlers - c.prefetch, prefetch: c.prefetch, mean: c.mean}
		require.Equal(t, []int{c.limit, c.group, c.reserved}, []int{now.limit(), now.group(), now.reserved()}, c.name)
		require.Equal(t, c.limit+c.reserved, now.room(), c.name)
		now.held, now.ending = c.limit, 1
		require.Equal(t, []int{c.reserved + 1, 3}, []int{now.room(), now.free(2)}, c.name)
		require.LessOrEqual(t, now.pause(), maxPause, c.name)
	}
}

// Tasks of the reserve count no attempt until handlers are free for them. Then they begin in the
// round trip that takes more tasks. When the server stops, they return to the head of their queue.
func TestReserve(t *testing.T) {
	t.Parallel()
	fl := newFleet(t, 20)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	s := newServer(t.Context(), fl.queue, serveAll(), nil)
	m := s.member
	require.NoError(t, m.join(ctx))
	f := newFeed(s, map[string]int{"m:default": 1}, 4, 4)
	f.capacity.mean = time.Millisecond
	begun := func() int { return int(fl.queue.rdb.HLen(t.Context(), key("b", "attempts")).Val()) }
	f.round(ctx)
	require.Equal(t, []int{8, 3, 11, 8}, []int{len(f.tasks), len(f.reserve), f.capacity.held, begun()})
	for range 2 { // two handlers end without a result, for example because their batch was cancelled
		m.release(ctx, <-f.tasks)
		f.end(&delivery{})
	}
	f.round(ctx)
	require.Equal(t, []int{8, 3, 11, 10}, []int{len(f.tasks), len(f.reserve), f.capacity.held, begun()})
	stop()
	f.returnReserve()
	require.Equal(t, []int{8, 0, 8}, []int{len(f.tasks), len(f.reserve), f.capacity.held})
	pending := fl.queue.rdb.LRange(t.Context(), asynqKey("m:default", "pending"), 0, -1).Val()
	require.Equal(t, []string{"b:13", "b:12", "b:11"}, pending[len(pending)-3:])
}

// Rows for a feed that has stopped return to their queue, and reach no handler.
func TestRowsOfAStoppedFeed(t *testing.T) {
	t.Parallel()
	fl := newFleet(t, 5)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	s := newServer(t.Context(), fl.queue, serveAll(), nil)
	require.NoError(t, s.member.join(ctx))
	f := newFeed(s, map[string]int{"m:default": 1}, 4, 4)
	f.capacity.mean = time.Millisecond
	f.round(ctx)
	require.Len(t, f.tasks, 5)
	d := <-f.tasks
	stop()
	f.pass(ctx, []*delivery{d})
	require.Len(t, f.tasks, 4)
	require.Equal(t, 4, f.capacity.held)
	require.Equal(t, []string{d.id}, fl.queue.rdb.LRange(t.Context(), asynqKey("m:default", "pending"), 0, -1).Val())
}

// While no row ends, a server takes a quarter more rows than run at once, however many it may take
// ahead.
func TestLongRowsAreNotTakenFarAhead(t *testing.T) {
	t.Parallel()
	const runs = 8
	f := newFleet(t, 3*runs)
	taken, release := make(chan struct{}), make(chan struct{})
	ctx, stop := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	serving.Go(func() {
		err := f.queue.Serve(ctx, queue.ServeOptions{
			Alias: "m", Concurrency: runs, Prefetch: runs, ShutdownTimeout: time.Minute, Logger: slog.New(slog.DiscardHandler),
		}, func(ctx context.Context, d *queue.Delivery) queue.Outcome {
			taken <- struct{}{}
			<-release
			return answer(ctx, d, "answered")
		})
		require.NoError(t, err)
	})
	for range runs + runs/minPrefetchShare {
		<-taken
	}
	require.EqualValues(t, runs+runs/minPrefetchShare, f.queue.rdb.LLen(t.Context(), asynqKey("m:default", "active")).Val())
	close(release)
	for range 3*runs - runs - runs/minPrefetchShare {
		<-taken
	}
	stop()
	serving.Wait()
	require.Len(t, f.recorded("b"), 3*runs)
}

// serveAll returns options with which every row is admitted.
func serveAll() queue.ServeOptions {
	o := queue.ServeOptions{Alias: "m", Logger: slog.New(slog.DiscardHandler)}
	o.Defaults()
	return o
}

// Results wait for others for a moment, unless so many have come that they are recorded at once.
func TestResultsWaitForOthers(t *testing.T) {
	t.Parallel()
	long := capacity{running: 8, prefetch: 8, held: 5, mean: time.Hour}
	ended := long
	ended.ending = 5
	many := make([]toRecord, long.group())
	for name, c := range map[string]struct {
		capacity capacity
		results  []toRecord
		bytes    int
		waits    bool
	}{
		"few results":       {capacity: long, results: many[1:], bytes: maxGroupBytes - 1, waits: true},
		"a group":           {capacity: long, results: many},
		"large results":     {capacity: long, bytes: maxGroupBytes},
		"no row is running": {capacity: ended},
		"quick rows":        {capacity: capacity{running: 8, held: 5}},
	} {
		f := &feed{full: make(chan struct{}, 1), capacity: c.capacity, results: c.results, bytes: c.bytes}
		signal(f.full)
		f.wait()
		require.Equal(t, c.waits, len(f.full) == 0, "%s: whether the signal was received", name)
	}
	f := &feed{full: make(chan struct{}, 1), capacity: long}
	begun := time.Now()
	f.wait()
	require.GreaterOrEqual(t, time.Since(begun), maxPause, "without a signal, the pause ends by itself")
}

// The result that completes a group, or the last one of the running rows, ends the wait of those
// before it.
func TestTheLastResultOfAGroupEndsTheWait(t *testing.T) {
	t.Parallel()
	const group = 3 // three quarters of the rows ahead
	for _, c := range []struct {
		name          string
		held, results int
		text          int // bytes of each result
		waits         time.Duration
	}{
		{"too few results", 8, group - 1, 1, maxPause},
		{"a group", 8, group, 1, 0},
		{"all rows that run", 2, 2, 1, 0},
		{"large results", 8, 2, maxGroupBytes / 2, 0},
		{"results that are not large enough", 8, 2, maxGroupBytes/2 - 1, maxPause},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := &feed{
				wake: make(chan struct{}, 1), full: make(chan struct{}, 1),
				capacity: capacity{running: 16, prefetch: 4, held: c.held, mean: time.Hour},
			}
			require.Equal(t, group, f.capacity.group())
			begun := time.Now()
			ctx, cancel := context.WithCancel(t.Context())
			var waiting sync.WaitGroup
			waiting.Go(func() {
				f.wait()
				require.Equal(t, c.waits, time.Since(begun), c.name)
				cancel() // nothing records the results
			})
			synctest.Wait()
			for range c.results {
				waiting.Go(func() {
					_, err := f.record(ctx, &delivery{since: begun}, toRecord{result: queue.Result{Text: make([]byte, c.text)}})
					require.ErrorIs(t, err, context.Canceled)
				})
			}
			waiting.Wait()
			require.Len(t, f.wake, 1)
		})
	}
}

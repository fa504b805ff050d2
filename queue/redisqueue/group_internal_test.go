package redisqueue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/redistest"
)

// A round trip records and requests a limited number of rows. What is left is recorded and
// requested in the next one, which begins at once.
func TestRoundTripsAreLimited(t *testing.T) {
	t.Parallel()
	woken := func(f *feed) bool {
		select {
		case <-f.wake:
			return true
		default:
			return false
		}
	}
	of := func(n int) (list []toRecord) {
		for line := range n {
			list = append(list, toRecord{result: queue.Result{Line: line, Text: make([]byte, line)}})
		}
		return list
	}
	s := newServer(t.Context(), New(redistest.Start(t).Client), serveAll(), nil)
	for results, left := range map[int]int{0: 0, 1: 0, maxGroup: 0, maxGroup + 1: 1, 3 * maxGroup: 2 * maxGroup} {
		f := newFeed(s, map[string]int{"m:default": 1}, 1, 0)
		f.results, f.bytes = of(results), 1<<20
		f.full <- struct{}{}
		sent := f.nextResults()
		require.Len(t, sent, results-left)
		require.Len(t, f.results, left)
		require.Empty(t, f.full)
		size := 0
		for i, w := range f.results {
			require.Equal(t, len(sent)+i, w.result.Line, "in their order")
			size += w.size()
		}
		require.Equal(t, size, f.bytes)
		require.Equal(t, left > 0, woken(f), "%d results", results)
	}
	for running, want := range map[int]int{1: 1, maxGroup: maxGroup, maxGroup + 1: maxGroup} {
		f := newFeed(s, map[string]int{"m:default": 1}, running, 0)
		f.next = time.Time{}
		require.Equal(t, want, f.wanted(t.Context()))
		require.Equal(t, running > want, woken(f), "%d rows", running)
		f.next = time.Now().Add(time.Hour)
		require.Zero(t, f.wanted(t.Context()), "the queues were empty")
	}
}

// A large result is recorded alone, at once, and an outage begins and ends with it.
func TestALargeResultIsRecordedAlone(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2)
	client := redis.NewClient(f.redis.Client.Options())
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	p := &partly{}
	client.AddHook(p)
	result := queue.Result{Line: 1, Sum: "0badcafe", Text: []byte(strings.Repeat("x", maxGroupedResult+1))}
	h := f.take(1, 0, "w") // nothing records the results of its feed
	_, err := f.begin(h)
	require.NoError(t, err)
	s := h.feed.server
	s.queue = New(client)
	lost := func() bool {
		s.member.outage.mu.Lock()
		defer s.member.outage.mu.Unlock()
		return !s.member.outage.since.IsZero()
	}
	_, err = h.Record(t.Context(), result)
	require.ErrorIs(t, err, queue.ErrUnavailable)
	require.True(t, lost())
	require.Empty(t, f.recorded("b"))
	p.over.Store(true)
	first, err := h.Record(t.Context(), result)
	require.NoError(t, err)
	require.True(t, first)
	require.False(t, lost())
	require.Equal(t, string(result.Text), f.recorded("b")[1])
	require.Empty(t, h.feed.results)
}

// Rows that are recorded together do not affect each other: each has a separate reply, even if
// other rows fail.
func TestRowsOfAGroupAreRecordedApart(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 9)
	ctx, q := t.Context(), f.queue
	f.enqueue("other", 1, 2)
	f.enqueue("damaged", 1, 1)
	f.enqueue("cancelled", 1, 1)
	_, err := q.Cancel(ctx, "cancelled")
	require.NoError(t, err)
	require.NoError(t, q.rdb.Set(ctx, key("damaged", "results"), "x", 0).Err())
	require.NoError(t, q.rdb.HSet(ctx, key("b", "deliveries"), 4, 1).Err())
	require.NoError(t, q.rdb.HSet(ctx, key("b", "meta"), "lines", 9).Err())
	for line := range 3 {
		f.take(line+1, 0, "w")
	}
	result := func(batch string, line int, pin string) queue.Result {
		return queue.Result{Line: line, Sum: "0badcafe", Text: []byte(fmt.Sprint(batch, line)), Pin: pin, Stats: queue.Stats{PromptTokens: 3, CompletionTokens: line}}
	}
	failed := result("b", 3, "")
	failed.Failed, failed.Job = true, []byte("job")
	group := []struct {
		toRecord
		want any
	}{
		{toRecord{batch: "b", result: result("b", 1, "one"), queue: "m:default", task: "b:1"}, int64(1)},
		{toRecord{batch: "b", result: result("b", 2, "two"), queue: "m:default", task: "b:2"}, int64(-6)},
		{toRecord{batch: "none", result: result("none", 1, "")}, int64(-1)},
		{toRecord{batch: "cancelled", result: result("cancelled", 1, "")}, int64(-2)},
		{toRecord{batch: "damaged", result: result("damaged", 1, "")}, "WRONGTYPE Operation against a key holding the wrong kind of value"},
		{toRecord{batch: "b", result: result("b", 4, "")}, int64(-4)},
		{toRecord{batch: "b", result: result("b", 10, "")}, int64(-5)},
		{toRecord{batch: "b", result: failed, queue: "m:default", task: "b:3"}, int64(1)},
		{toRecord{batch: "b", result: result("b", 1, "one")}, int64(0)},
		{toRecord{batch: "other", result: result("other", 2, "two")}, int64(1)},
	}
	var results []toRecord
	var want []any
	for _, g := range group {
		g.reply = make(chan recorded, 1)
		results = append(results, g.toRecord)
		want = append(want, g.want)
	}
	replies, err := q.run(ctx, recordCall(results)).Slice()
	require.NoError(t, err)
	require.Equal(t, want, replies)
	require.Equal(t, map[int]string{1: "b1", 3: "b3"}, f.recorded("b"))
	require.Equal(t, map[int]string{2: "other2"}, f.recorded("other"))
	require.Equal(t, []string{"b:2"}, q.rdb.LRange(ctx, asynqKey("m:default", "active"), 0, -1).Val())
	require.Equal(t, map[string]string{"3": "job"}, q.rdb.HGetAll(ctx, key("b", "jobs")).Val())
	s, err := q.Status(ctx, "b")
	require.NoError(t, err)
	require.Equal(t, []int{1, 1, 6, 4}, []int{s.Done, s.Failed, s.PromptTokens, s.CompletionTokens})
	info, err := q.inspector.GetQueueInfo("m:default")
	require.NoError(t, err)
	require.Equal(t, []int{2, 2}, []int{info.Processed, info.ProcessedTotal})
	require.Zero(t, q.rdb.GetBit(ctx, key("damaged", "done"), 1).Val())
}

// Rows that are begun together do not affect each other either.
func TestRowsOfAGroupAreBegunApart(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 4)
	ctx, q := t.Context(), f.queue
	f.enqueue("damaged", 1, 1)
	require.NoError(t, q.rdb.Set(ctx, key("damaged", "attempts"), "x", 0).Err())
	require.NoError(t, q.rdb.HSet(ctx, key("b", "meta"), "pin", "one").Err())
	require.NoError(t, q.rdb.HSet(ctx, key("b", "checkpoints"), 2, "progress").Err())
	first := f.take(1, 0, "w")
	second, third := f.take(2, 0, "w"), f.take(3, 0, "w")
	damaged := f.running("damaged", 1)
	fourth, none, lost := f.running("b", 4), f.running("none", 1), f.running("b", 4)
	require.NoError(t, q.rdb.HDel(ctx, taskKey("m:default", "b:4"), "state").Err())
	s := newServer(ctx, q, serveAll(), nil)
	s.member.id = "w"
	n := 0
	s.options.Pin = func() string { n++; return map[int]string{3: "two"}[n] }
	rows := []*delivery{first, second, third, damaged, none, fourth}
	for _, d := range rows {
		s.member.hold(ctx, d)
	}
	q.runAll(ctx, s.begin(append(rows, lost)))
	require.Equal(t, []any{true, 1, []byte(nil)}, []any{first.begun, first.value.Attempt, first.value.Checkpoint})
	require.Equal(t, []any{true, 1, []byte("progress")}, []any{second.begun, second.value.Attempt, second.value.Checkpoint})
	require.ErrorIs(t, third.err, queue.ErrOtherModel)
	require.ErrorContains(t, damaged.err, "begin line 1 of batch damaged: WRONGTYPE")
	require.ErrorIs(t, none.err, queue.ErrNoBatch)
	require.ErrorIs(t, fourth.err, errNotRunning)
	require.ErrorIs(t, lost.err, queue.ErrSuperseded, "its member was declared lost and does not hold it any more")
	require.False(t, lost.begun)
	require.Equal(t, "w", q.rdb.HGet(ctx, taskKey("m:default", "b:1"), "owner").Val())
	require.Equal(t, map[string]string{"1": "1", "2": "1"}, q.rdb.HGetAll(ctx, key("b", "attempts")).Val())
}

// running makes a row's task look as if it was taken, and returns its delivery.
func (f *fleet) running(batch string, line int) *delivery {
	f.t.Helper()
	id := queue.TaskID(batch, line)
	require.NoError(f.t, f.queue.rdb.HSet(f.t.Context(), taskKey("m:default", id), "state", "active").Err())
	return &delivery{queue: "m:default", id: id, job: fleetJob(batch, line)}
}

// A call of Begin that is repeated because its reply was lost counts one attempt. After the row is
// taken again, Begin counts another.
func TestARepeatedBeginningCountsOnce(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	for i := range 3 {
		h := f.take(1, 0, "w")
		for range 3 {
			attempt, err := f.begin(h)
			require.NoError(t, err)
			require.Equal(t, i+1, attempt)
		}
		require.NoError(t, f.queue.rdb.RPopLPush(t.Context(), asynqKey("m:default", "active"), asynqKey("m:default", "pending")).Err())
	}
}

// A server begins the jobs that are admitted, and leaves the others to their handlers. Results that
// arrive at the same time are recorded together.
func TestAServerWorksInGroups(t *testing.T) {
	t.Parallel()
	const rows, handlers, ahead = 400, 20, 10
	f := newFleet(t, rows)
	scripts := func() (n int) {
		_, err := fmt.Sscanf(f.redis.Client.InfoMap(t.Context(), "commandstats").Val()["Commandstats"]["cmdstat_evalsha"], "calls=%d", &n)
		require.NoError(t, err)
		return n
	}
	var left, waited atomic.Int64
	before := scripts()
	ctx, stop := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	f.queue.Leases.Poll = time.Second
	serving.Go(func() {
		err := f.queue.Serve(ctx, queue.ServeOptions{
			Alias: "m", Concurrency: handlers - ahead, Prefetch: ahead, ShutdownTimeout: time.Minute, Logger: slog.New(slog.DiscardHandler),
			Admit: func(_ context.Context, d *queue.Delivery, wait bool) (func(), bool) {
				if wait {
					waited.Add(1)
				}
				return func() { left.Add(1) }, wait || d.Line%2 == 0
			},
		}, func(ctx context.Context, d *queue.Delivery) queue.Outcome {
			require.Equal(t, 1, d.Attempt)
			return answer(ctx, d, "x")
		})
		require.NoError(t, err)
	})
	f.eventually("all are recorded", func() bool {
		s, err := f.queue.Status(t.Context(), "b")
		require.NoError(t, err)
		return s.Done == rows
	})
	stop()
	serving.Wait()
	f.requireEmptyQueue()
	require.EqualValues(t, rows/2, waited.Load())
	require.EqualValues(t, rows, left.Load())
	require.Less(t, scripts()-before, 3*rows/2)
}

// A job that was begun but got no handler, because its server stopped, counts no attempt.
func TestAJobThatIsGivenBackWasNotBegun(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	left := 0
	o := serveAll()
	o.Admit = func(context.Context, *queue.Delivery, bool) (func(), bool) { return func() { left++ }, true }
	s := newServer(t.Context(), f.queue, o, nil)
	m := s.member
	require.NoError(t, m.join(t.Context()))
	fd := newFeed(s, map[string]int{"m:default": 1}, 2, 0)
	fd.round(t.Context())
	require.Len(t, fd.tasks, 2)
	require.Equal(t, map[string]string{"1": "1", "2": "1"}, f.queue.rdb.HGetAll(t.Context(), key("b", "attempts")).Val())
	fd.shutdown()
	require.Equal(t, 2, left)
	require.Zero(t, f.queue.rdb.Exists(t.Context(), key("b", "attempts"), asynqKey("m:default", "active"), asynqKey("m:default", "lease")).Val())
	require.ElementsMatch(t, []string{"b:1", "b:2", "b:3"}, f.queue.rdb.LRange(t.Context(), asynqKey("m:default", "pending"), 0, -1).Val())
	require.Empty(t, m.held)
}

// Rows that no handler has received when their feed stops return to the head of their queue in
// their order, and the feed does not count them any more.
func TestAStoppedFeedHoldsNoRows(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 4)
	s := newServer(t.Context(), f.queue, serveAll(), nil)
	require.NoError(t, s.member.join(t.Context()))
	fd := newFeed(s, map[string]int{"m:default": 1}, 3, 0)
	fd.round(t.Context())
	require.Len(t, fd.tasks, 3)
	fd.shutdown()
	require.Zero(t, fd.capacity.held)
	pending := f.queue.rdb.LRange(t.Context(), asynqKey("m:default", "pending"), 0, -1).Val()
	require.Equal(t, []string{"b:4", "b:3", "b:2", "b:1"}, pending, "the last is the next")
}

// An Interactive job is taken when it arrives. The worker does not wait until it polls the queue.
func TestAnInteractiveJobIsTakenAtOnce(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 0)
	taken := make(chan int)
	f.queue.Leases.Poll = time.Hour
	ctx, stop := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	serving.Go(func() {
		err := f.queue.Serve(ctx, queue.ServeOptions{
			Alias: "m", Concurrency: 1, Interactive: 1, ShutdownTimeout: time.Minute, Logger: slog.New(slog.DiscardHandler),
		}, func(_ context.Context, d *queue.Delivery) queue.Outcome {
			taken <- d.Line
			return queue.Done()
		})
		require.NoError(t, err)
	})
	f.eventually("the worker listens, and has polled", func() bool {
		return f.queue.rdb.PubSubNumSub(t.Context(), arrivalChannel("m")).Val()[arrivalChannel("m")] == 1 && !f.queue.LastFetch().IsZero()
	})
	for line := range 5 {
		_, err := f.queue.Add(t.Context(), "m", queue.Interactive, []*queue.Job{fleetJob("b", line+1)})
		require.NoError(t, err)
		require.Equal(t, line+1, <-taken)
	}
	stop()
	serving.Wait()
}

// A task that failed, and one that is not a job, look to asynq's tools as if asynq had ended them.
func TestEndedTasksAreThoseOfAsynq(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	foreign, err := asynq.NewClientFromRedisClient(f.redis.Client).EnqueueContext(t.Context(), asynq.NewTask("other", []byte("x")), asynq.Queue("m:default"))
	require.NoError(t, err)
	w := f.serve(1, func(_ context.Context, d *queue.Delivery) queue.Outcome {
		return queue.Retry(queue.RetryDelay(d.Attempt-1), errors.New("broken"))
	})
	inspector := f.queue.inspector
	f.eventually("one waits for a retry, and one is archived", func() bool {
		info, err := inspector.GetQueueInfo("m:default")
		require.NoError(t, err)
		return info.Retry == 1 && info.Archived == 1
	})
	w.stop()
	info, err := inspector.GetTaskInfo("m:default", "b:1")
	require.NoError(t, err)
	require.Equal(t, "broken", info.LastErr)
	require.GreaterOrEqual(t, info.Retried, 1)
	require.WithinDuration(t, time.Now(), info.LastFailedAt, time.Minute)
	require.WithinDuration(t, info.LastFailedAt.Add(queue.RetryDelay(info.Retried-1)), info.NextProcessAt, 2*time.Second)
	payload, err := fleetJob("b", 1).Encode()
	require.NoError(t, err)
	require.JSONEq(t, string(payload), string(info.Payload))
	archived, err := inspector.GetTaskInfo("m:default", foreign.ID)
	require.NoError(t, err)
	require.Equal(t, asynq.TaskStateArchived, archived.State)
	require.Contains(t, archived.LastErr, "not a job of ingot")
	queue, err := inspector.GetQueueInfo("m:default")
	require.NoError(t, err)
	require.Equal(t, info.Retried+1, queue.FailedTotal)
	require.Equal(t, queue.FailedTotal, queue.Processed)
}

// A batch whose keys are damaged holds up no rows of other batches.
func TestADamagedBatchHoldsUpNoOthers(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 0)
	ctx, q := t.Context(), f.queue
	for _, batch := range []string{"list", "meta", "tasks", "whole"} {
		f.enqueue(batch, 1, 200)
	}
	const queue = "m:default"
	require.NoError(t, q.rdb.Del(ctx, waitingKey(queue, "list")).Err())
	require.NoError(t, q.rdb.Set(ctx, waitingKey(queue, "list"), "x", 0).Err())
	require.NoError(t, q.rdb.Del(ctx, key("meta", "meta")).Err())
	require.NoError(t, q.rdb.Set(ctx, key("meta", "meta"), "x", 0).Err())
	for _, task := range q.rdb.Keys(ctx, taskKey(queue, "tasks:*")).Val() {
		require.NoError(t, q.rdb.Del(ctx, task).Err())
		require.NoError(t, q.rdb.Set(ctx, task, "x", 0).Err())
	}
	taken := map[string]int{}
	for {
		c := with(takeScript, "queues", queue, "context", 0).rows(50, "order")
		for range 50 {
			c.add("1")
		}
		list, err := q.run(ctx, c).Slice()
		require.NoError(t, err)
		if len(list) == 0 {
			break
		}
		for _, item := range list {
			batch, _, _ := strings.Cut(item.([]any)[1].(string), ":")
			taken[batch]++
		}
	}
	delete(taken, "list") // its rows in asynq's list of pending tasks
	require.Equal(t, map[string]int{"meta": 200, "whole": 200}, taken)
}

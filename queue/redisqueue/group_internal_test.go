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
)

// Rows that are recorded together do not affect each other: each has a separate reply, even if other rows fail.
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
		f.take(delivery{"b", line + 1, 0}, "w")
	}
	m := &member{queue: q}
	taken := func(line int) *held {
		return &held{delivery: delivery{"b", line, 0}, queue: "m:default", task: queue.TaskID("b", line), member: m}
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
		{toRecord{batch: "b", result: result("b", 1, "one"), held: taken(1)}, int64(1)},
		{toRecord{batch: "b", result: result("b", 2, "two"), held: taken(2)}, int64(-6)},
		{toRecord{batch: "none", result: result("none", 1, "")}, int64(-1)},
		{toRecord{batch: "cancelled", result: result("cancelled", 1, "")}, int64(-2)},
		{toRecord{batch: "damaged", result: result("damaged", 1, "")}, "WRONGTYPE Operation against a key holding the wrong kind of value"},
		{toRecord{batch: "b", result: result("b", 4, "")}, int64(-4)},
		{toRecord{batch: "b", result: result("b", 10, "")}, int64(-5)},
		{toRecord{batch: "b", result: failed, held: taken(3)}, int64(1)},
		{toRecord{batch: "b", result: result("b", 1, "one")}, int64(0)},
		{toRecord{batch: "other", result: result("other", 2, "two")}, int64(1)},
	}
	var rows []toRecord
	var want []any
	for _, g := range group {
		rows, want = append(rows, g.toRecord), append(want, g.want)
	}
	replies, err := recordScript.Run(ctx, q.rdb, nil, recordArgs(rows)...).Slice()
	require.NoError(t, err)
	require.Equal(t, want, replies)
	require.Equal(t, map[int]string{1: "b1", 3: "b3"}, f.recorded("b"))
	require.Equal(t, map[int]string{2: "other2"}, f.recorded("other"))
	require.Equal(t, []string{"b:2"}, q.rdb.LRange(ctx, asynqKey("m:default", "active"), 0, -1).Val())
	require.Equal(t, []string{"b:2"}, q.rdb.ZRange(ctx, asynqKey("m:default", "lease"), 0, -1).Val())
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
	f.take(delivery{"b", 1, 0}, "")
	m := &member{queue: q, id: "w"}
	job1, job2, job3, job4 := fleetJob("b", 1), fleetJob("b", 2), fleetJob("b", 3), fleetJob("b", 4)
	job3.Pin = "two"
	got := q.begin(ctx, []beginning{
		{job1, &held{delivery: delivery{"b", 1, 0}, queue: "m:default", task: "b:1", member: m}},
		{job2, nil},
		{job3, nil},
		{fleetJob("damaged", 1), nil},
		{fleetJob("none", 1), nil},
		{job4, &held{delivery: delivery{"b", 4, 0}, queue: "m:default", task: "b:4", member: m}}, // it is not running
		{job4, &held{delivery: delivery{"b", 4, 0}, member: m, lost: true}},
	})
	require.Equal(t, begun{start: queue.Start{Attempt: 1}}, got[0])
	require.Equal(t, begun{start: queue.Start{Attempt: 1, Checkpoint: []byte("progress")}}, got[1])
	require.ErrorIs(t, got[2].err, queue.ErrOtherModel)
	require.ErrorContains(t, got[3].err, "begin line 1 of batch damaged: WRONGTYPE")
	require.ErrorIs(t, got[4].err, queue.ErrNoBatch)
	require.ErrorIs(t, got[5].err, queue.ErrDeliveryEnded)
	require.ErrorIs(t, got[6].err, queue.ErrDeliveryEnded)
	require.Equal(t, "w", q.rdb.HGet(ctx, taskKey("m:default", delivery{"b", 1, 0}), "owner").Val())
	require.Equal(t, map[string]string{"1": "1", "2": "1"}, q.rdb.HGetAll(ctx, key("b", "attempts")).Val())
}

// A call of Begin that is repeated because its reply was lost counts one attempt. After the row is taken again, Begin counts another.
func TestARepeatedBeginningCountsOnce(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	ctx, q := t.Context(), f.queue
	task := taskPrefix("m:default") + queue.TaskID("b", 1)
	begin := func(owner string) any {
		rows, err := beginScript.Run(ctx, q.rdb, nil, now(), "b", 1, "", 0, "", "", task, owner).Slice()
		require.NoError(t, err)
		return rows[0]
	}
	for i := range 3 {
		f.take(delivery{"b", 1, 0}, "w")
		for range 3 {
			require.Equal(t, []any{int64(i + 1)}, begin("w"))
		}
		require.NoError(t, q.rdb.RPopLPush(ctx, asynqKey("m:default", "active"), asynqKey("m:default", "pending")).Err())
	}
}

// A server begins the jobs that are admitted, and leaves the others to their handlers. Results that arrive at the same time are recorded
// together.
func TestAServerWorksInGroups(t *testing.T) {
	t.Parallel()
	const rows, handlers, ahead = 400, 20, 10
	f := newFleet(t, rows)
	scripts := func() (n int) {
		_, err := fmt.Sscanf(f.redis.Client.InfoMap(t.Context(), "commandstats").Val()["Commandstats"]["cmdstat_evalsha"], "calls=%d", &n)
		require.NoError(t, err)
		return n
	}
	var left atomic.Int64
	begun, notBegun := atomic.Int64{}, atomic.Int64{}
	before := scripts()
	ctx, stop := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	serving.Go(func() {
		err := f.queue.Serve(ctx, queue.ServeOptions{
			Alias: "m", Concurrency: handlers, Ahead: ahead, ShutdownTimeout: time.Minute, PollInterval: time.Second, Logger: slog.New(slog.DiscardHandler),
			Admit: func(j *queue.Job) (func(), bool) {
				return func() { left.Add(1) }, j.Line%2 == 0
			},
		}, func(ctx context.Context, j *queue.Job) error {
			if j.Begun == nil {
				notBegun.Add(1)
			} else {
				begun.Add(1)
				defer j.Begun.Leave()
				require.Equal(t, 1, j.Begun.Attempt)
			}
			_, err := f.queue.Record(ctx, j.Batch, queue.Result{Sum: "0badcafe", Line: j.Line, Text: []byte("x")})
			return err
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
	require.EqualValues(t, rows/2, begun.Load())
	require.EqualValues(t, rows/2, left.Load())
	require.EqualValues(t, rows/2, notBegun.Load())
	require.Less(t, scripts()-before, 3*rows/2)
}

// A job that was begun but got no handler, because its server stopped, counts no attempt.
func TestAJobThatIsGivenBackWasNotBegun(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	m, err := f.queue.join(t.Context(), queue.ServeOptions{Alias: "m", Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	left := 0
	s := &server{queue: f.queue, member: m, deliveries: t.Context(), admit: func(*queue.Job) (func(), bool) { return func() { left++ }, true }}
	fd := s.newFeed(queue.ServeOptions{PollInterval: time.Second}, map[string]int{"m:default": 1}, 2, 0)
	fd.round(t.Context())
	require.Len(t, fd.tasks, 2)
	require.Equal(t, map[string]string{"1": "1", "2": "1"}, f.queue.rdb.HGetAll(t.Context(), key("b", "attempts")).Val())
	fd.returnTasks()
	require.Equal(t, 2, left)
	require.Zero(t, f.queue.rdb.Exists(t.Context(), key("b", "attempts"), asynqKey("m:default", "active"), asynqKey("m:default", "lease")).Val())
	require.ElementsMatch(t, []string{"b:1", "b:2", "b:3"}, f.queue.rdb.LRange(t.Context(), pendingKey("m:default"), 0, -1).Val())
	require.Empty(t, m.helds)
}

// An Interactive job is taken when it arrives. The worker does not wait until it polls the queue.
func TestAnInteractiveJobIsTakenAtOnce(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 0)
	taken := make(chan int)
	ctx, stop := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	serving.Go(func() {
		err := f.queue.Serve(ctx, queue.ServeOptions{
			Alias: "m", Concurrency: 1, Interactive: 1, ShutdownTimeout: time.Minute, PollInterval: time.Hour, Logger: slog.New(slog.DiscardHandler),
		}, func(_ context.Context, j *queue.Job) error {
			taken <- j.Line
			return nil
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
	w := f.serve(1, func(context.Context, *Queue, *queue.Job) error { return errors.New("broken") })
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

// asynq's leases are renewed together. A delivery whose lease is over ends, and its task is not changed.
func TestLeases(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2)
	ctx := t.Context()
	m, err := f.queue.join(ctx, queue.ServeOptions{Alias: "m", Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	s := &server{queue: f.queue, member: m, deliveries: ctx}
	f.take(delivery{"b", 1, 0}, "")
	f.take(delivery{"b", 2, 0}, "")
	lease := asynqKey("m:default", "lease")
	require.NoError(t, f.queue.rdb.ZAdd(ctx, lease, redis.Z{Score: 1, Member: "b:1"}, redis.Z{Score: 1, Member: "b:2"}).Err())
	lasting := m.hold(ctx, "m:default", "b:1", time.Now().Add(time.Minute))
	over := m.hold(ctx, "m:default", "b:2", time.Now().Add(-time.Second))
	m.hold(ctx, "m:default", "b:3", time.Now().Add(time.Minute)) // its task is gone
	m.renew(ctx)
	require.NoError(t, lasting.ctx.Err())
	require.InDelta(t, time.Now().Add(asynqLease).Unix(), f.queue.rdb.ZScore(ctx, lease, "b:1").Val(), 10)
	require.WithinDuration(t, time.Now().Add(asynqLease), lasting.lease, 10*time.Second)
	require.Error(t, over.ctx.Err())
	require.Equal(t, []string{"b:2", "b:1"}, f.queue.rdb.ZRange(ctx, lease, 0, -1).Val())
	s.returnToHead(over)
	require.ElementsMatch(t, []string{"b:1", "b:2"}, f.queue.rdb.LRange(ctx, asynqKey("m:default", "active"), 0, -1).Val())
	s.returnToHead(lasting)
	require.Equal(t, []string{"b:2"}, f.queue.rdb.LRange(ctx, asynqKey("m:default", "active"), 0, -1).Val())
	require.Equal(t, "b:1", f.queue.rdb.LIndex(ctx, pendingKey("m:default"), -1).Val())
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
	require.NoError(t, q.rdb.Del(ctx, waitingPrefix(queue)+"list").Err())
	require.NoError(t, q.rdb.Set(ctx, waitingPrefix(queue)+"list", "x", 0).Err())
	require.NoError(t, q.rdb.Del(ctx, key("meta", "meta")).Err())
	require.NoError(t, q.rdb.Set(ctx, key("meta", "meta"), "x", 0).Err())
	for _, task := range q.rdb.Keys(ctx, taskPrefix(queue)+"tasks:*").Val() {
		require.NoError(t, q.rdb.Del(ctx, task).Err())
		require.NoError(t, q.rdb.Set(ctx, task, "x", 0).Err())
	}
	taken := map[string]int{}
	for {
		args := []any{time.Now().Add(time.Hour).Unix(), 1, queue}
		for range 50 {
			args = append(args, "1")
		}
		list, err := takeScript.Run(ctx, q.rdb, nil, args...).StringSlice()
		require.NoError(t, err)
		if len(list) == 0 {
			break
		}
		for i := 1; i < len(list); i += 3 {
			batch, _, _ := strings.Cut(list[i], ":")
			taken[batch]++
		}
	}
	delete(taken, "list") // its rows in asynq's list of pending tasks
	require.Equal(t, map[string]int{"meta": 200, "whole": 200}, taken)
}

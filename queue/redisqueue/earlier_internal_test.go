package redisqueue

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/ingot-run/ingot/queue"
)

// Versions before deliveries were values ran asynq's server beside the workers: running tasks had
// leases in asynq's sorted set. After a hand-over, a row's task got the id BATCH:LINE:NUMBER, as a
// second id field at the end of its message. A batch that such a version has left is served in
// whatever state its rows are.
func TestABatchOfAnEarlierVersionIsServed(t *testing.T) {
	t.Parallel()
	const rows = 200 // some of them wait in their batch
	f := newFleet(t, rows)
	ctx, c := t.Context(), f.redis.Client
	require.NoError(t, f.queue.Seal(ctx, "b", rows, ""))
	e := earlier{f, t, c, context.WithoutCancel(ctx)}

	e.activate("b:1", "dead", 1)              // it was running when its worker died
	e.activate("b:2", "", 0)                  // its worker died between taking and owning it
	e.handedOver(3, 1)                        // it was handed over, and is queued
	e.activate(e.handedOver(4, 2), "dead", 1) // it was handed over twice, and its next worker died too
	e.deliveries(5, 1)                        // the hand-over was interrupted between its two scripts: the task is still running
	e.activate("b:5", "dead", 1)
	e.deliveries(6, 1) // the same, and the worker returned the task meanwhile
	require.NoError(t, c.LRem(ctx, asynqKey("m:default", "pending"), 0, "b:7").Err())
	require.NoError(t, c.HSet(ctx, taskKey("m:default", "b:7"), "state", "retry").Err()) // it waits for a retry
	require.NoError(t, c.ZAdd(ctx, asynqKey("m:default", "retry"), redis.Z{Score: float64(time.Now().Unix()), Member: "b:7"}).Err())
	require.NoError(t, c.ZAdd(ctx, "asynq:servers", redis.Z{Score: 1, Member: "asynq:servers:{host:1:x}"}).Err())

	deaths := make(chan string, rows)
	w := f.serve(8, func(ctx context.Context, d *queue.Delivery) queue.Outcome {
		if d.Deaths > 0 {
			deaths <- fmt.Sprint(d.Line, " ", d.Deaths)
		}
		return answer(ctx, d, "answered")
	})
	f.eventually("the batch is completed", func() bool {
		s, err := f.queue.Status(ctx, "b")
		require.NoError(t, err)
		return s.State == queue.Completed
	})
	w.stop()
	require.Len(t, f.recorded("b"), rows)
	f.requireEmptyQueue()
	f.requireNoTask()
	close(deaths)
	got := map[string]bool{}
	for d := range deaths {
		got[d] = true
	}
	require.Equal(t, map[string]bool{"1 1": true, "3 1": true, "4 3": true, "5 1": true}, got)
}

// earlier writes to Redis what an earlier version wrote.
type earlier struct {
	*fleet
	t   *testing.T
	c   *redis.Client
	ctx context.Context //nolint:containedctx // of the test
}

// activate makes a pending task a running one, with a lease that is over.
func (e earlier) activate(id, owner string, attempts int) {
	e.t.Helper()
	line := strings.TrimPrefix(rowID(id), "b:")
	task := taskKey("m:default", id)
	require.NoError(e.t, e.c.LRem(e.ctx, asynqKey("m:default", "pending"), 0, id).Err())
	require.NoError(e.t, e.c.LPush(e.ctx, asynqKey("m:default", "active"), id).Err())
	require.NoError(e.t, e.c.ZAdd(e.ctx, asynqKey("m:default", "lease"), redis.Z{Score: float64(time.Now().Add(-time.Minute).Unix()), Member: id}).Err())
	require.NoError(e.t, e.c.HSet(e.ctx, task, "state", "active").Err())
	if owner != "" {
		require.NoError(e.t, e.c.HSet(e.ctx, task, "owner", owner, "begun", owner).Err())
		require.NoError(e.t, e.c.HSet(e.ctx, key("b", "attempts"), line, attempts).Err())
	}
}

// deliveries sets how often a row was taken from a silent worker.
func (e earlier) deliveries(line, number int) {
	e.t.Helper()
	require.NoError(e.t, e.c.HSet(e.ctx, key("b", "deliveries"), line, number).Err())
}

// handedOver gives a pending row the task of a later delivery, and returns the id of the task.
func (e earlier) handedOver(line, number int) string {
	e.t.Helper()
	old := queue.TaskID("b", line)
	id := fmt.Sprint(old, ":", number)
	message := e.c.HGet(e.ctx, taskKey("m:default", old), "msg").Val()
	field := protowire.AppendString(protowire.AppendTag(nil, fieldID, protowire.BytesType), id)
	require.NoError(e.t, e.c.LRem(e.ctx, asynqKey("m:default", "pending"), 0, old).Err())
	require.NoError(e.t, e.c.Del(e.ctx, taskKey("m:default", old)).Err())
	require.NoError(e.t, e.c.HSet(e.ctx, taskKey("m:default", id), "msg", message+string(field), "state", "pending").Err())
	require.NoError(e.t, e.c.RPush(e.ctx, asynqKey("m:default", "pending"), id).Err())
	e.deliveries(line, number)
	require.NoError(e.t, e.c.HSet(e.ctx, key("b", "deaths"), line, number).Err())
	require.True(e.t, strings.HasPrefix(id, old))
	return id
}

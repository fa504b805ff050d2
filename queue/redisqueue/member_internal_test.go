package redisqueue

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/queue"
)

// A member that was declared lost ends its deliveries, cannot become the owner of their rows again,
// and continues under another id. The deaths that were counted for it are subtracted: those of the
// rows that it had begun.
func TestALostMemberStartsAnew(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	ctx, q := t.Context(), f.queue
	begun, waiting := f.take(1, 0, "w"), f.take(2, 0, "w")
	m := memberOf(begun)
	m.hold(ctx, waiting)
	_, err := f.begin(begun)
	require.NoError(t, err)
	for line, deaths := range map[int]int{1: 2, 2: 2, 3: 1} {
		require.NoError(t, q.rdb.HSet(ctx, key("b", "deaths"), line, deaths).Err())
	}
	m.startAnew(ctx)
	require.NotEqual(t, "w", m.worker())
	require.Empty(t, m.held, "the rows do not belong to the new id")
	all, err := q.Fleet(ctx)
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Equal(t, m.worker(), all[0].ID)
	require.Zero(t, all[0].Rows)
	for _, d := range []*delivery{begun, waiting} {
		require.ErrorIs(t, context.Cause(d.ctx), queue.ErrSuperseded)
		_, ok := m.own(d)
		require.False(t, ok)
		m.release(ctx, d)
	}
	require.Equal(t, []int{1, 2}, []int{f.count("deaths", 1), f.count("deaths", 2)})

	later := f.take(3, 0, m.worker()) // taken under the new id
	m = memberOf(later)
	_, err = f.begin(later)
	require.NoError(t, err)
	require.Len(t, m.held, 1)
	worker, ok := m.own(later)
	require.True(t, ok)
	require.Equal(t, m.worker(), worker)
	m.release(ctx, later)
	require.ErrorIs(t, later.ctx.Err(), context.Canceled)
	require.Empty(t, m.held)
	require.Equal(t, 1, f.count("deaths", 3), "a member that was not lost has no death to subtract")
}

// While Redis cannot be used, a member that starts anew stays in the outage.
func TestAMemberThatCannotStartAnew(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	client := redis.NewClient(f.redis.Client.Options())
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	s := &sleeper{queue: New(client)}
	client.AddHook(s)
	m := memberOf(f.take(1, 0, "w"))
	m.queue = s.queue
	s.setCut(true)
	m.startAnew(t.Context())
	require.Contains(t, m.outage.logged, noHeartbeat)
	require.Empty(t, m.held)
	id := m.worker()
	m.beat(t.Context())
	require.Equal(t, id, m.worker(), "a heartbeat that was not sent says nothing about the worker")
	require.Contains(t, m.outage.logged, noHeartbeat)
	s.setCut(false)
	m.startAnew(t.Context())
	require.NotContains(t, m.outage.logged, noHeartbeat)
}

func memberOf(d *delivery) *member { return d.feed.server.member }

// The last death that is subtracted leaves no count.
func TestDeathsAreSubtracted(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	survive := func() {
		require.NoError(t, f.queue.run(t.Context(), with(surviveScript, "batch", "b", "line", 1)).Err())
	}
	require.NoError(t, f.queue.rdb.HSet(t.Context(), key("b", "deaths"), 1, 2).Err())
	for _, want := range []bool{true, false, false} {
		survive()
		require.Equal(t, want, f.queue.rdb.HExists(t.Context(), key("b", "deaths"), "1").Val())
	}
}

// A heartbeat makes the member the owner of the rows that it has held for a while, once, and ends
// the deliveries whose rows others have.
func TestWhatAHeartbeatOwns(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 4)
	ctx, q := t.Context(), f.queue
	owner := func(line int) string {
		return q.rdb.HGet(ctx, taskKey("m:default", queue.TaskID("b", line)), "owner").Val()
	}
	var all []*delivery
	for line := 1; line <= 4; line++ {
		all = append(all, f.take(line, 0, "w"))
	}
	m := memberOf(all[0])
	for _, d := range all {
		m.hold(ctx, d)
		d.taken = time.Now().Add(-time.Minute)
	}
	all[1].taken = time.Now().Add(time.Hour)
	require.NoError(t, q.rdb.HSet(ctx, key("b", "deliveries"), 3, 1).Err())
	all[3].owned = true // it has begun
	task := taskKey("m:default", "b:1")
	require.NoError(t, q.rdb.HSet(ctx, task, "orphan", 5).Err()) // a reaper has seen it without an owner
	m.beat(ctx)
	require.False(t, q.rdb.HExists(ctx, task, "orphan").Val())
	require.Equal(t, []string{"w", "", "", ""}, []string{owner(1), owner(2), owner(3), owner(4)})
	for i, owned := range []bool{true, false, true, true} {
		require.Equal(t, owned, all[i].owned, "line %d", i+1)
		require.Equal(t, i == 2, errors.Is(context.Cause(all[i].ctx), queue.ErrSuperseded), "line %d", i+1)
	}
	workers, err := q.Fleet(ctx)
	require.NoError(t, err)
	require.Equal(t, 4, workers[0].Rows)
}

// A message ends the delivery of the row that it names, and no other.
func TestCancellingATask(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2)
	first, second := f.take(1, 0, "w"), f.take(2, 0, "w")
	m := memberOf(first)
	m.hold(t.Context(), second)
	m.cancel("b:3")
	require.NoError(t, first.ctx.Err())
	m.cancel("b:2")
	require.ErrorIs(t, context.Cause(second.ctx), queue.ErrCancelled)
	require.NoError(t, first.ctx.Err())
	first.id = "b:1:7" // as earlier versions named tasks
	m.cancel("b:1")
	require.ErrorIs(t, context.Cause(first.ctx), queue.ErrCancelled)
}

package redisqueue

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/queue"
)

// A delivery ends in one place, with the task's state and asynq's counts; of the attempt, it leaves
// what the ending says.
func TestWhereDeliveriesEnd(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ending            ending
		state             string // of the task; empty if it is deleted
		attempts          int
		processed, failed int
		next              int // the line of the next row
	}{
		"done":                    {ending{place: done}, "", 1, 1, 0, 2},
		"the head of the queue":   {ending{place: head, uncount: true}, "pending", 0, 0, 0, 1},
		"the head, counted":       {ending{place: head}, "pending", 1, 0, 0, 1},
		"the tail of the queue":   {ending{place: tail}, "pending", 1, 0, 0, 2},
		"a retry after a failure": {ending{place: retry, err: errors.New("x"), failed: true}, "retry", 1, 1, 1, 2},
		"a retry that is refused": {ending{place: retry, err: errors.New("x"), uncount: true}, "retry", 0, 0, 0, 2},
		"archived":                {ending{place: archived, err: errors.New("x"), failed: true}, "archived", 1, 1, 1, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, 3)
			ctx, rdb := t.Context(), f.queue.rdb
			d := f.take(1, 0, "w")
			_, err := f.begin(d)
			require.NoError(t, err)
			c.ending.at = time.Now().Add(time.Hour)
			server := d.feed.server
			for range 2 { // an ending that is repeated because its reply was lost changes nothing
				server.finish(d, c.ending)
			}
			require.Empty(t, server.member.debts)
			task := taskKey("m:default", "b:1")
			require.Equal(t, c.state, rdb.HGet(ctx, task, "state").Val())
			require.Equal(t, c.state == "", rdb.Exists(ctx, task).Val() == 0)
			require.Equal(t, c.attempts, f.count("attempts", 1))
			require.Zero(t, rdb.LLen(ctx, asynqKey("m:default", "active")).Val())
			for _, set := range []string{retry, archived} {
				require.EqualValues(t, map[bool]int{true: 1}[c.state == set], rdb.ZCard(ctx, asynqKey("m:default", set)).Val())
			}
			count := func(name string) int {
				n, err := rdb.Get(ctx, asynqKey("m:default", name)).Int()
				require.True(t, err == nil || isNil(err), "%v", err)
				return n
			}
			require.Equal(t, []int{c.processed, c.failed}, []int{count("processed"), count("failed")})
			require.Equal(t, []int{c.processed, c.failed}, []int{count("processed:" + today(time.Now())), count("failed:" + today(time.Now()))})
			require.Equal(t, c.next, f.take(c.next, 0, "w").job.Line)
		})
	}
}

// Rows of a batch that nobody wants any more leave the queue, except those that a person archived.
func TestEndingsInACancelledBatch(t *testing.T) {
	t.Parallel()
	for _, place := range []string{done, head, tail, retry, archived} {
		f := newFleet(t, 1)
		ctx := t.Context()
		d := f.take(1, 0, "w")
		_, err := f.queue.Cancel(ctx, "b")
		require.NoError(t, err)
		d.feed.server.finish(d, ending{place: place, at: time.Now(), err: queue.ErrCancelled})
		require.EqualValues(t, map[bool]int{true: 1}[place == archived], f.queue.rdb.Exists(ctx, taskKey("m:default", "b:1")).Val(), place)
	}
}

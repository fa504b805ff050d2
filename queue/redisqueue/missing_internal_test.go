package redisqueue

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/queue"
)

// No row of a batch is missing while a queue holds tasks in any state in which they will run.
func TestNothingIsMissingWhileTasksAreLeft(t *testing.T) {
	t.Parallel()
	for name, states := range map[string][2]string{
		"pending": {"pending", "pending"}, "active": {"active", "active"}, "retried": {"retry", "retry"}, "scheduled": {"scheduled", "scheduled"},
		"active and retried": {"active", "retry"}, "active and scheduled": {"active", "scheduled"}, "scheduled and retried": {"scheduled", "retry"},
		"archived": {"archived", "archived"},
	} {
		f := newFleet(t, 2)
		ctx, q := t.Context(), f.queue
		require.NoError(t, q.Seal(ctx, "b", 2, ""))
		s, err := q.Status(ctx, "b")
		require.NoError(t, err)
		require.NoError(t, q.rdb.Del(ctx, asynqKey("m:default", "pending")).Err())
		for i, state := range states {
			id := []string{"b:1", "b:2"}[i]
			if state == "pending" || state == "active" {
				require.NoError(t, q.rdb.LPush(ctx, asynqKey("m:default", state), id).Err())
			} else {
				require.NoError(t, q.rdb.ZAdd(ctx, asynqKey("m:default", state), redis.Z{Score: float64(now()), Member: id}).Err())
			}
		}
		missing, err := q.Missing(ctx, s)
		require.NoError(t, err)
		require.Equal(t, map[bool]int{true: 2}[name == "archived"], missing, name)
	}
}

// A batch that is deleted while batches are listed is not among them.
func TestABatchThatEndsWhileBatchesAreListed(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	f.enqueue("c", 1, 1)
	f.queue.rdb.AddHook(&after{"scan", func() { require.NoError(t, f.redis.Client.Del(t.Context(), key("b", "meta")).Err()) }})
	all, err := f.queue.Batches(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Equal(t, "c", all[0].Batch)
}

// A row whose task goes while the row is queued again was answered then, and is not added.
func TestARowThatIsAnsweredWhileItIsAdded(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	f.queue.rdb.AddHook(&after{"evalsha", func() {
		require.NoError(t, f.redis.Client.Del(t.Context(), taskKey("m:default", "b:1"), asynqKey("m:default", "pending")).Err())
	}})
	added, err := f.queue.Add(t.Context(), "m", queue.Default, []*queue.Job{fleetJob("b", 1)})
	require.NoError(t, err)
	require.Equal(t, []bool{false}, added)
	require.Zero(t, f.queue.rdb.LLen(t.Context(), asynqKey("m:default", "pending")).Val())
}

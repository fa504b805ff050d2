package redisqueue_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/redisqueue"
	"github.com/ingot-run/ingot/queue/redistest"
)

func open(t testing.TB) (*redistest.Server, *redisqueue.Queue) {
	t.Helper()
	r := redistest.Start(t)
	return r, redisqueue.New(r.Client)
}

// create creates batch b.
func create(t testing.TB, q *redisqueue.Queue) {
	t.Helper()
	_, _, err := q.Create(t.Context(), queue.Batch{ID: "b", Alias: "m", Priority: queue.Default, Retention: time.Hour})
	require.NoError(t, err)
}

// newBatch creates batch b with a recorded row.
func newBatch(t testing.TB, q *redisqueue.Queue) {
	t.Helper()
	create(t, q)
	_, err := q.Record(t.Context(), "b", queue.Result{Line: 1, Text: []byte("{}")})
	require.NoError(t, err)
}

// All keys of an ended batch expire. A purge deletes them at once.
func TestABatchLeavesNoKeys(t *testing.T) {
	t.Parallel()
	r, q := open(t)
	for _, end := range []func() error{
		func() error { return q.Seal(t.Context(), "b", 1, "sha") },
		func() error { _, err := q.Cancel(t.Context(), "b"); return err },
	} {
		newBatch(t, q)
		require.NoError(t, end())
		keys := r.Client.Keys(t.Context(), "*").Val()
		require.Len(t, keys, 4)
		for _, key := range keys {
			require.Greater(t, r.Client.PTTL(t.Context(), key).Val(), 50*time.Minute, key)
		}
		require.NoError(t, q.Purge(t.Context(), "b"))
		_, err := q.Record(t.Context(), "b", queue.Result{Line: 2, Text: []byte("{}")})
		require.ErrorIs(t, err, queue.ErrNoBatch)
		require.Empty(t, r.Client.Keys(t.Context(), "*").Val())
	}
}

// While Redis has no memory left, an unfinished batch can be cancelled and purged.
func TestAFullRedisCanBeEmptied(t *testing.T) {
	t.Parallel()
	r, q := open(t)
	create(t, q)
	for line := 1; line <= 300; line++ { // more rows than asynq's pending list gets at a time
		addJobs(t, q, line)
	}
	require.NoError(t, r.Client.HSet(t.Context(), "ingot:{b}:attempts", 2, 1).Err())
	require.NoError(t, r.Client.ConfigSet(t.Context(), "maxmemory", "1").Err())
	require.ErrorContains(t, r.Client.Set(t.Context(), "x", "y", 0).Err(), "OOM")
	finished, err := q.Cancel(t.Context(), "b")
	require.NoError(t, err)
	require.False(t, finished)
	s, err := q.Status(t.Context(), "b")
	require.NoError(t, err)
	require.Equal(t, queue.Cancelled, s.State)
	require.Empty(t, r.Client.Keys(t.Context(), "asynq:*:t:*").Val(), "waiting rows are removed")
	require.NoError(t, q.Purge(t.Context(), "b"))
	require.Equal(t, []string{"asynq:queues"}, r.Client.Keys(t.Context(), "*").Val())
}

func TestAFullRedisCanBePurged(t *testing.T) {
	t.Parallel()
	r, q := open(t)
	newBatch(t, q)
	require.NoError(t, q.Seal(t.Context(), "b", 1, "sha"))
	require.NoError(t, r.Client.ConfigSet(t.Context(), "maxmemory", "1").Err())
	require.ErrorContains(t, r.Client.Set(t.Context(), "x", "y", 0).Err(), "OOM")
	require.NoError(t, q.Purge(t.Context(), "b"))
	require.Empty(t, r.Client.Keys(t.Context(), "*").Val())
}

// Keys of other programs are not listed as batches, even if their names are similar.
func TestOtherKeysAreNoBatches(t *testing.T) {
	t.Parallel()
	r, q := open(t)
	newBatch(t, q)
	require.NoError(t, r.Client.Set(t.Context(), "ingot:other", "x", 0).Err())
	all, err := q.Batches(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Equal(t, "b", all[0].Batch)
}

// A batch with damaged keys is reported, and the other batches are still listed.
func TestADamagedBatchIsReported(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(c *redis.Client) error{
		"another type":      func(c *redis.Client) error { return c.Set(t.Context(), "ingot:{x}:meta", "x", 0).Err() },
		"a type of a count": func(c *redis.Client) error { return c.Set(t.Context(), "ingot:{x}:attempts", "x", 0).Err() },
		"a bad id": func(c *redis.Client) error {
			return c.HSet(t.Context(), "ingot:{\x1b[31m}:meta", meta("total", "1")...).Err()
		},
		"a bad number": func(c *redis.Client) error {
			return c.HSet(t.Context(), "ingot:{x}:meta", meta("done", "many")...).Err()
		},
		"a negative number": func(c *redis.Client) error {
			return c.HSet(t.Context(), "ingot:{x}:meta", meta("total", "-1")...).Err()
		},
		"a huge number": func(c *redis.Client) error {
			return c.HSet(t.Context(), "ingot:{x}:meta", meta("created_ms", "9e18")...).Err()
		},
		"a bad alias": func(c *redis.Client) error {
			return c.HSet(t.Context(), "ingot:{x}:meta", meta("model", "\x1b")...).Err()
		},
		"a bad priority": func(c *redis.Client) error {
			return c.HSet(t.Context(), "ingot:{x}:meta", meta("priority", "high")...).Err()
		},
		"empty": func(c *redis.Client) error { return c.HSet(t.Context(), "ingot:{x}:meta", "a", "b").Err() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, q := open(t)
			newBatch(t, q)
			require.NoError(t, r.Client.HSet(t.Context(), "ingot:{x}:meta", meta("total", "1")...).Err())
			_, err := q.Status(t.Context(), "x")
			require.NoError(t, err)
			require.NoError(t, r.Client.Del(t.Context(), "ingot:{x}:meta").Err())
			if name == "a type of a count" {
				require.NoError(t, r.Client.HSet(t.Context(), "ingot:{x}:meta", meta("total", "1")...).Err())
			}
			require.NoError(t, damage(r.Client))
			all, err := q.Batches(t.Context())
			require.NoError(t, err)
			require.Len(t, all, 2)
			require.Equal(t, "b", all[0].Batch)
			require.Empty(t, all[0].Damage)
			require.Contains(t, all[1].Damage, "it is damaged, or was not made by ingot: ")
			require.NotContains(t, all[1].Damage, "\x1b")
			_, err = q.Status(t.Context(), all[1].Batch)
			require.ErrorIs(t, err, queue.ErrDamaged)
			_, err = q.Cancel(t.Context(), all[1].Batch)
			require.ErrorIs(t, err, queue.ErrDamaged)
		})
	}
}

// meta returns the fields of a valid batch, with one field added or replaced.
func meta(name, value string) []any {
	return []any{"model", "m", "priority", "bulk", "created_ms", "1", "done", "0", "failed", "0", name, value}
}

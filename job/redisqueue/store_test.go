package redisqueue_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/job"
	"github.com/ingot-run/ingot/job/redisqueue"
	"github.com/ingot-run/ingot/job/redistest"
)

// newBatch creates batch b with a recorded row.
func newBatch(t testing.TB, q *redisqueue.Queue) {
	t.Helper()
	_, _, err := q.Create(t.Context(), job.Batch{ID: "b", Alias: "m", Priority: job.Bulk, Retention: time.Hour})
	require.NoError(t, err)
	_, err = q.Record(t.Context(), "b", job.Result{Line: 1, Text: []byte("{}")})
	require.NoError(t, err)
}

// All keys of a batch that has ended expire, and a purge leaves none.
func TestABatchLeavesNoKeys(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	q := redisqueue.New(r.Client)
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
		_, err := q.Record(t.Context(), "b", job.Result{Line: 2, Text: []byte("{}")})
		require.ErrorIs(t, err, job.ErrNoBatch)
		require.Empty(t, r.Client.Keys(t.Context(), "*").Val())
	}
}

func TestAFullRedisCanBePurged(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	q := redisqueue.New(r.Client)
	newBatch(t, q)
	require.NoError(t, q.Seal(t.Context(), "b", 1, "sha"))
	require.NoError(t, r.Client.ConfigSet(t.Context(), "maxmemory", "1").Err())
	require.ErrorContains(t, r.Client.Set(t.Context(), "x", "y", 0).Err(), "OOM")
	require.NoError(t, q.Purge(t.Context(), "b"))
	require.Empty(t, r.Client.Keys(t.Context(), "*").Val())
}

// Keys of others, of any form, are no batches.
func TestOtherKeysAreNoBatches(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	q := redisqueue.New(r.Client)
	newBatch(t, q)
	require.NoError(t, r.Client.Set(t.Context(), "ingot:other", "x", 0).Err())
	all, err := q.Batches(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Equal(t, "b", all[0].Batch)
}

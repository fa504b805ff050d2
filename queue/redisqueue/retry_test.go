package redisqueue_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/redisqueue"
	"github.com/ingot-run/ingot/queue/redistest"
)

// Retry repeats a write that Redis refuses for lack of memory until Redis has memory again.
func TestRetryWaitsForMemory(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	require.NoError(t, r.Client.ConfigSet(t.Context(), "maxmemory", "1").Err())
	q := redisqueue.New(r.Client)
	calls := 0
	require.NoError(t, queue.UntilAvailable(t.Context(), time.Minute, func() error {
		calls++
		_, _, err := q.Create(t.Context(), queue.Batch{ID: "b", Alias: "m", Priority: queue.Bulk, Retention: time.Hour})
		require.NoError(t, r.Client.ConfigSet(t.Context(), "maxmemory", "0").Err())
		return err
	}))
	require.Equal(t, 2, calls)
}

// Add names the row in the error even if the write that fails is not the write of a row.
func TestAFullRedisIsReportedWithTheRow(t *testing.T) {
	t.Parallel()
	r, q := open(t)
	newBatch(t, q)
	require.NoError(t, r.Client.ConfigSet(t.Context(), "maxmemory", "1").Err())
	jobs := []*queue.Job{{Batch: "b", Line: 2}}
	_, err := q.Add(t.Context(), "m", queue.Bulk, jobs)
	require.ErrorIs(t, err, queue.ErrFull)
	require.ErrorIs(t, err, queue.ErrUnavailable)
	require.ErrorContains(t, err, "queue rows from line 2 of batch b: OOM")
	require.NoError(t, r.Client.ConfigSet(t.Context(), "maxmemory", "0").Err())
	added, err := q.Add(t.Context(), "m", queue.Bulk, jobs)
	require.NoError(t, err)
	require.Equal(t, []bool{true}, added)
}

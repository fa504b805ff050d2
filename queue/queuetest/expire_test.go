package queuetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/openai"
	"github.com/ingot-run/ingot/queue"
)

// createWithDeadline creates batch "b" and queues its n rows.
func createWithDeadline(t testing.TB, q queue.Queue, deadline time.Time, n int) {
	t.Helper()
	_, created, err := q.Create(t.Context(), queue.Batch{ID: "b", Alias: "m", Priority: queue.Bulk, Retention: time.Hour, Deadline: deadline})
	require.NoError(t, err)
	require.True(t, created)
	for _, j := range newJobs(n) {
		j.DeadlineMS = deadline.UnixMilli()
		add(t, q, queue.Bulk, j)
	}
	require.NoError(t, q.Seal(t.Context(), "b", n, fileSHA))
}

func TestABatchKeepsItsDeadline(t *testing.T) {
	t.Parallel()
	OnEach(t, func(t *testing.T, q queue.Queue) {
		deadline := time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond)
		createWithDeadline(t, q, deadline, 1)
		known, _, err := q.Create(t.Context(), queue.Batch{ID: "b", Alias: "m", Priority: queue.Bulk, Deadline: deadline.Add(time.Hour)})
		require.NoError(t, err)
		require.Equal(t, deadline, known.Deadline)
		s := status(t, q)
		require.Equal(t, deadline, *s.Deadline)
		require.False(t, s.Overdue())
		n, err := q.Expire(t.Context(), "b")
		require.NoError(t, err)
		require.Zero(t, n, "no row expires before the deadline")
		Take(t, q, "m", queue.Bulk, 1)
		_, err = q.Expire(t.Context(), "other")
		require.True(t, err == nil || errors.Is(err, queue.ErrNoBatch), "%v", err)
	})
}

// Overdue rows without a result are recorded as errors. Recorded rows and rows of other batches do
// not change.
func TestOverdueRowsExpire(t *testing.T) {
	t.Parallel()
	OnEach(t, func(t *testing.T, q queue.Queue) {
		createWithDeadline(t, q, time.Now().Add(-time.Minute), 5)
		record(t, q, result(2, false))
		other := newJob(1)
		other.Batch = "b2"
		add(t, q, queue.Bulk, other)
		require.True(t, status(t, q).Overdue())
		n, err := q.Expire(t.Context(), "b")
		require.NoError(t, err)
		require.Equal(t, 4, n)
		s := status(t, q)
		require.Equal(t, queue.Completed, s.State)
		require.Equal(t, []int{1, 4}, []int{s.Done, s.Failed})
		require.False(t, s.Overdue())
		for _, r := range page(t, q, "", 10) {
			if r.Line == 2 {
				require.Equal(t, "result 2", string(r.Text))
				continue
			}
			require.True(t, r.Failed)
			require.Contains(t, string(r.Text), `"code":"`+openai.CodeExpired+`"`)
			require.Contains(t, string(r.Text), "not answered before the deadline of its batch, 20")
		}
		n, err = q.Expire(t.Context(), "b")
		require.NoError(t, err)
		require.Zero(t, n)
		require.Equal(t, "b2", Take(t, q, "m", queue.Bulk, 1)[0].Batch)
	})
}

// A row that a worker has taken expires as well, because the worker may be dead. Later calls of
// that worker have no effect.
func TestRowsThatAreRunningExpire(t *testing.T) {
	t.Parallel()
	OnEach(t, func(t *testing.T, q queue.Queue) {
		createWithDeadline(t, q, time.Now().Add(-time.Minute), 1)
		taken, finish := make(chan struct{}), make(chan struct{})
		served := make(chan bool, 1)
		stop := serve(t, q, queue.ServeOptions{Concurrency: 1, ShutdownTimeout: maxWait}, func(_ context.Context, d *queue.Delivery) queue.Outcome {
			close(taken)
			<-finish
			first, err := d.Record(t.Context(), result(1, false))
			require.NoError(t, err)
			served <- first
			return queue.Done()
		})
		<-taken
		n, err := q.Expire(t.Context(), "b")
		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.Equal(t, queue.Completed, status(t, q).State)
		close(finish)
		require.False(t, <-served)
		stop()
		require.Equal(t, 1, status(t, q).Failed)
		Take(t, q, "m", queue.Bulk, 0)
	})
}

package queuetest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/queue"
)

// Take takes n jobs of a model alias from a queue without answering them, and checks that the queue has no more jobs. The jobs are in
// the order of delivery.
func Take(t testing.TB, q queue.Queue, alias string, p queue.Priority, n int) []*queue.Job {
	t.Helper()
	var jobs []*queue.Job
	taken, ended := make(chan struct{}), make(chan struct{})
	last := newJob(1)
	last.Batch = "last-of-the-queue"
	stop := serve(t, q, queue.ServeOptions{Alias: alias, Concurrency: 1, ShutdownTimeout: maxWait}, func(_ context.Context, j *queue.Job) error {
		if j.Batch == last.Batch {
			close(ended)
			return nil
		}
		if jobs = append(jobs, j); len(jobs) == n {
			close(taken)
		}
		return nil
	})
	if n > 0 {
		wait(t, taken, "the jobs are taken")
	}
	_, err := q.Add(t.Context(), alias, p, []*queue.Job{last})
	require.NoError(t, err)
	wait(t, ended, "the queue is empty")
	stop()
	require.Len(t, jobs, n)
	return jobs
}

func wait(t testing.TB, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(maxWait):
		require.Fail(t, "did not happen within "+maxWait.String(), what)
	}
}

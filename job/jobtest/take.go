package jobtest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/job"
)

// Take takes n jobs of a model alias from a queue, as a worker does that answers none of them, and checks that there are no
// more. They are sorted by delivery.
func Take(t testing.TB, q job.Queue, alias string, p job.Priority, n int) []*job.Job {
	t.Helper()
	last := newJob(1)
	last.Batch = "last-of-" + alias
	_, err := q.Add(t.Context(), alias, p, []*job.Job{last})
	require.NoError(t, err)
	var jobs []*job.Job
	ended := make(chan struct{})
	stop := serve(t, q, job.ServeOptions{Alias: alias, Concurrency: 1, ShutdownTimeout: maxWait}, func(_ context.Context, j *job.Job) error {
		if j.Batch == last.Batch {
			close(ended)
		} else {
			jobs = append(jobs, j)
		}
		return nil
	})
	<-ended
	stop()
	require.Len(t, jobs, n)
	return jobs
}

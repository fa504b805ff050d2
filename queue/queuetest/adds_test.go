package queuetest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/queue"
)

func TestAJobIsQueuedOnce(t *testing.T) {
	t.Parallel()
	OnEach(t, func(t *testing.T, q queue.Queue) {
		require.Empty(t, add(t, q, queue.Bulk))
		require.Equal(t, []bool{true, true, false}, add(t, q, queue.Bulk, newJob(1), newJob(2), newJob(1)))
		require.Equal(t, []bool{false, true, false}, add(t, q, queue.Bulk, newJob(2), newJob(3), newJob(1)))
		other := newJob(1)
		other.Batch = "other"
		require.Equal(t, []bool{true}, add(t, q, queue.Bulk, other))

		hold := make(chan struct{})
		tally := newTally()
		serve(t, q, queue.ServeOptions{Concurrency: 8}, tally.handle(func(context.Context, *queue.Delivery) queue.Outcome { <-hold; return queue.Done() }))
		tally.wait(t, 4)
		require.Equal(t, []bool{false, false}, add(t, q, queue.Bulk, newJob(1), newJob(2)), "it is running")
		close(hold)
		eventually(t, "it is done", func() bool { return add(t, q, queue.Bulk, newJob(1))[0] })
		tally.wait(t, 5)
		require.Equal(t, map[string]int{"b:1": 2, "b:2": 1, "b:3": 1, "other:1": 1}, tally.counts())
	})
}

func TestAJobArrivesAsItWasAdded(t *testing.T) {
	t.Parallel()
	OnEach(t, func(t *testing.T, q queue.Queue) {
		want := newJob(7)
		want.Body = []byte(`{"prompt":"<é \u0000>","x":` + strings.Repeat("1", 100_000) + `}`)
		add(t, q, queue.Default, want)
		got := make(chan *queue.Job, 1)
		serve(t, q, queue.ServeOptions{Concurrency: 1}, func(_ context.Context, j *queue.Delivery) queue.Outcome { got <- j.Job; return queue.Done() })
		require.Equal(t, want, <-got)
	})
}

func TestManyJobsAreAddedAtOnce(t *testing.T) {
	t.Parallel()
	OnEach(t, func(t *testing.T, q queue.Queue) {
		const n = 1000
		for i, added := range add(t, q, queue.Default, newJobs(n)...) {
			require.True(t, added, i)
		}
		for i, added := range add(t, q, queue.Default, newJobs(n+1)...) {
			require.Equal(t, i == n, added, i)
		}
		tally := newTally()
		serve(t, q, queue.ServeOptions{Concurrency: 1}, tally.handle(nil))
		tally.wait(t, n+1)
		for i, id := range tally.order() {
			require.Equal(t, queue.TaskID("b", i+1), id, "the order is that of the file")
		}
	})
}

// Jobs that an earlier batch with the same id left in the queue do not count as jobs of a new
// batch.
func TestAJobOfAnotherFileIsReplaced(t *testing.T) {
	t.Parallel()
	OnEach(t, func(t *testing.T, q queue.Queue) {
		add(t, q, queue.Default, newJobs(3)...)
		other := newJob(2)
		other.File = queue.FileID(strings.Repeat("cd", 32))
		require.Equal(t, []bool{true}, add(t, q, queue.Default, other))
		require.Equal(t, []bool{false}, add(t, q, queue.Default, other))
		files := make(chan string, 3)
		serve(t, q, queue.ServeOptions{Concurrency: 1}, func(_ context.Context, j *queue.Delivery) queue.Outcome {
			files <- queue.TaskID(j.Batch, j.Line) + " " + j.File
			return queue.Done()
		})
		own := queue.FileID(fileSHA)
		require.ElementsMatch(t, []string{"b:1 " + own, "b:3 " + own, "b:2 " + other.File}, []string{<-files, <-files, <-files})
	})
}

func TestARunningJobIsNotReplaced(t *testing.T) {
	t.Parallel()
	OnEach(t, func(t *testing.T, q queue.Queue) {
		add(t, q, queue.Default, newJob(1))
		begun, hold := make(chan struct{}), make(chan struct{})
		defer close(hold)
		serve(t, q, queue.ServeOptions{Concurrency: 1, ShutdownTimeout: time.Minute}, func(context.Context, *queue.Delivery) queue.Outcome {
			begun <- struct{}{}
			<-hold
			return queue.Done()
		})
		<-begun
		other := newJob(1)
		other.File = queue.FileID(strings.Repeat("cd", 32))
		added, err := q.Add(t.Context(), "m", queue.Default, []*queue.Job{other})
		require.ErrorIs(t, err, queue.ErrRowRunning)
		require.Equal(t, []bool{false}, added)
	})
}

package queuetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/queue"
)

// tally counts deliveries.
type tally struct {
	mu  sync.Mutex
	ids []string // in the order of delivery
}

func newTally() *tally { return new(tally) }

// handle returns a handler that counts a delivery and then calls next, if next is not nil.
func (c *tally) handle(next queue.Handler) queue.Handler {
	return func(ctx context.Context, j *queue.Delivery) queue.Outcome {
		c.mu.Lock()
		c.ids = append(c.ids, queue.TaskID(j.Batch, j.Line))
		c.mu.Unlock()
		if next == nil {
			return queue.Done()
		}
		return next(ctx, j)
	}
}

func (c *tally) order() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.ids)
}

func (c *tally) counts() map[string]int {
	counts := map[string]int{}
	for _, id := range c.order() {
		counts[id]++
	}
	return counts
}

// wait waits until there were n deliveries in total.
func (c *tally) wait(t testing.TB, n int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d deliveries", n), func() bool { return len(c.order()) >= n })
}

func TestConsumersNeverGetTheSameRow(t *testing.T) {
	t.Parallel()
	OnEach(t, func(t *testing.T, q queue.Queue) {
		const n = 400
		tally := newTally()
		for range 3 {
			serve(t, q, queue.ServeOptions{Concurrency: 4}, tally.handle(nil))
		}
		for i := 0; i < n; i += 40 {
			add(t, q, queue.Default, newJobs(n)[i:i+40]...)
		}
		tally.wait(t, n)
		counts := tally.counts()
		require.Len(t, counts, n)
		for id, times := range counts {
			require.Equal(t, 1, times, id)
		}
	})
}

func TestConcurrencyIsLimited(t *testing.T) {
	t.Parallel()
	OnEach(t, func(t *testing.T, q queue.Queue) {
		const limit = 3
		add(t, q, queue.Default, newJobs(20)...)
		begun, hold := make(chan struct{}, 20), make(chan struct{})
		var mu sync.Mutex
		running, most := 0, 0
		serve(t, q, queue.ServeOptions{Concurrency: limit}, func(context.Context, *queue.Delivery) queue.Outcome {
			mu.Lock()
			running++
			most = max(most, running)
			mu.Unlock()
			begun <- struct{}{}
			<-hold
			mu.Lock()
			running--
			mu.Unlock()
			return queue.Done()
		})
		for range limit { // the first limit jobs run concurrently
			<-begun
		}
		for range 20 - limit { // each handler that returns makes room for one job
			hold <- struct{}{}
			<-begun
		}
		close(hold)
		mu.Lock()
		defer mu.Unlock()
		require.Equal(t, limit, most)
	})
}

// fill adds rows of batches that are named after their priorities.
func fill(t testing.TB, q queue.Queue, rows map[queue.Priority]int) {
	t.Helper()
	for p, n := range rows {
		jobs := newJobs(n)
		for _, j := range jobs {
			j.Batch = string(p)
		}
		add(t, q, p, jobs...)
	}
}

func TestPrioritiesHaveShares(t *testing.T) {
	t.Parallel()
	OnEach(t, func(t *testing.T, q queue.Queue) {
		const n = 500 // number of deliveries that are counted; no queue is empty meanwhile
		fill(t, q, map[queue.Priority]int{queue.Critical: n, queue.Default: n, queue.Bulk: n})
		counts := map[string]int{}
		var total int
		done := make(chan struct{})
		stop := serve(t, q, queue.ServeOptions{Concurrency: 1}, func(_ context.Context, j *queue.Delivery) queue.Outcome {
			if total++; total == n {
				close(done)
			}
			if total <= n {
				counts[j.Batch]++
			}
			return queue.Done()
		})
		<-done
		stop()
		for p, weight := range queue.Priorities() {
			// The standard deviation of the largest share is 11.
			require.InDelta(t, n*weight/10, counts[string(p)], 70, "%v", counts)
		}
	})
}

func TestAModelHasItsOwnQueue(t *testing.T) {
	t.Parallel()
	OnEach(t, func(t *testing.T, q queue.Queue) {
		add(t, q, queue.Default, newJob(1))
		_, err := q.Add(t.Context(), "other", queue.Default, []*queue.Job{newJob(2)})
		require.NoError(t, err)
		mine, others := newTally(), newTally()
		serve(t, q, queue.ServeOptions{Concurrency: 2}, mine.handle(nil))
		mine.wait(t, 1)
		stop := serve(t, q, queue.ServeOptions{Alias: "other", Concurrency: 2}, others.handle(nil))
		others.wait(t, 1)
		stop()
		require.Equal(t, []string{"b:1"}, mine.order())
		require.Equal(t, []string{"b:2"}, others.order())
	})
}

func TestAJobThatArrivesLaterIsTaken(t *testing.T) {
	t.Parallel()
	OnEach(t, func(t *testing.T, q queue.Queue) {
		tally := newTally()
		serve(t, q, queue.ServeOptions{Concurrency: 2}, tally.handle(nil))
		for i, j := range newJobs(5) {
			add(t, q, queue.Default, j)
			tally.wait(t, i+1)
		}
	})
}

// After every failure, a job is delivered again after a pause. It does not delay other jobs.
func TestAFailedJobIsRetriedAfterADelay(t *testing.T) {
	t.Parallel()
	OnEach(t, func(t *testing.T, q queue.Queue) {
		create(t, q)
		add(t, q, queue.Default, newJobs(3)...)
		tally := newTally()
		times := make(chan time.Time, 2)
		serve(t, q, queue.ServeOptions{Concurrency: 1}, tally.handle(func(_ context.Context, j *queue.Delivery) queue.Outcome {
			if j.Line > 1 {
				return queue.Done()
			}
			times <- time.Now()
			if len(times) < 2 {
				return queue.Retry(queue.RetryDelay(j.Attempt-1), errors.New("broken"))
			}
			return queue.Done()
		}))
		tally.wait(t, 4)
		require.Equal(t, []string{"b:1", "b:2", "b:3", "b:1"}, tally.order())
		first := <-times
		require.Greater(t, (<-times).Sub(first), time.Millisecond) // asynq counts in whole seconds, so a pause of one second can be nearly zero
		eventually(t, "the job leaves the queue", func() bool { return add(t, q, queue.Default, newJob(1))[0] })
		require.Equal(t, time.Second, queue.RetryDelay(0))
		require.Equal(t, 8*time.Second, queue.RetryDelay(3))
		require.Equal(t, time.Minute, queue.RetryDelay(1000))
	})
}

// If a handler hands a job back, it is the next job of its queue.
func TestAHandedBackJobIsTheNext(t *testing.T) {
	t.Parallel()
	OnEach(t, func(t *testing.T, q queue.Queue) {
		create(t, q)
		add(t, q, queue.Default, newJobs(5)...)
		tally := newTally()
		stopping := make(chan struct{})
		stop := serve(t, q, queue.ServeOptions{Concurrency: 2, ShutdownTimeout: maxWait}, tally.handle(func(context.Context, *queue.Delivery) queue.Outcome {
			<-stopping
			return queue.HandBack()
		}))
		tally.wait(t, 2)
		var stopped sync.WaitGroup
		stopped.Go(stop)
		close(stopping)
		stopped.Wait()

		again := newTally()
		serve(t, q, queue.ServeOptions{Concurrency: 1}, again.handle(nil))
		again.wait(t, 5)
		order := again.order()
		require.ElementsMatch(t, []string{"b:1", "b:2", "b:3", "b:4", "b:5"}, order)
		if taken := tally.order(); len(taken) == 2 { // otherwise Serve took more jobs before it stopped
			require.ElementsMatch(t, taken, order[:2])
		}
	})
}

// When Serve stops, it ends the deliveries whose handlers do not finish in time, and returns their
// jobs to the head of their queues.
func TestServeReturnsRunningJobsToTheQueue(t *testing.T) {
	t.Parallel()
	OnEach(t, func(t *testing.T, q queue.Queue) {
		create(t, q)
		add(t, q, queue.Default, newJobs(5)...)
		begun := make(chan int, 5)
		stop := serve(t, q, queue.ServeOptions{Concurrency: 2}, func(ctx context.Context, j *queue.Delivery) queue.Outcome {
			begun <- j.Line
			<-ctx.Done()
			return queue.HandBack()
		})
		<-begun
		<-begun
		stop()
		require.Empty(t, begun, "a stopping Serve takes no more jobs")
		tally := newTally()
		serve(t, q, queue.ServeOptions{Concurrency: 1}, tally.handle(nil))
		tally.wait(t, 5)
		order := tally.order()
		require.ElementsMatch(t, []string{"b:1", "b:2"}, order[:2])
		require.Equal(t, []string{"b:3", "b:4", "b:5"}, order[2:])
	})
}

func TestServeLetsHandlersFinish(t *testing.T) {
	t.Parallel()
	OnEach(t, func(t *testing.T, q queue.Queue) {
		add(t, q, queue.Default, newJob(1))
		begun, hold := make(chan struct{}), make(chan struct{})
		var ended error
		stop := serve(t, q, queue.ServeOptions{Concurrency: 1, ShutdownTimeout: maxWait}, func(ctx context.Context, _ *queue.Delivery) queue.Outcome {
			close(begun)
			<-hold
			ended = ctx.Err()
			return queue.Done()
		})
		<-begun
		stopped := make(chan struct{})
		go func() {
			stop()
			close(stopped)
		}()
		select {
		case <-stopped:
			require.Fail(t, "Serve returned before its handler")
		case hold <- struct{}{}:
		}
		<-stopped
		require.NoError(t, ended)
		require.Equal(t, []bool{true}, add(t, q, queue.Default, newJob(1)), "the job has left the queue")
	})
}

func TestCancelEndsDeliveries(t *testing.T) {
	t.Parallel()
	OnEach(t, func(t *testing.T, q queue.Queue) {
		create(t, q)
		_, _, err := q.Create(t.Context(), queue.Batch{ID: "other", Alias: "m", Priority: queue.Bulk, Retention: time.Hour})
		require.NoError(t, err)
		other := newJob(1)
		other.Batch, other.File = "other", ""
		add(t, q, queue.Bulk, newJob(1), newJob(2), other)
		tally := newTally()
		ended, hold := make(chan string, 9), make(chan struct{})
		serve(t, q, queue.ServeOptions{Concurrency: 3, ShutdownTimeout: maxWait}, tally.handle(func(ctx context.Context, j *queue.Delivery) queue.Outcome {
			select {
			case <-ctx.Done():
				ended <- j.Batch
				return queue.Interrupted(context.Cause(ctx))
			case <-hold:
				return queue.Done()
			}
		}))
		eventually(t, "all jobs run", func() bool {
			s, err := q.Status(t.Context(), "other")
			return err == nil && status(t, q).Running == 2 && s.Running == 1
		})
		// asynq may not listen for cancellations yet, so the call is repeated.
		eventually(t, "deliveries have ended", func() bool {
			finished, err := q.Cancel(t.Context(), "b")
			require.NoError(t, err)
			require.False(t, finished)
			return len(ended) == 2
		})
		require.NoError(t, q.Purge(t.Context(), "b"))
		for line := 1; line <= 2; line++ {
			eventually(t, "rows of the batch leave the queue", func() bool { return add(t, q, queue.Bulk, newJob(line))[0] })
		}
		require.Equal(t, []string{"b", "b"}, []string{<-ended, <-ended})
		close(hold)
	})
}

func TestAnEndedDeliveryIsMadeAgain(t *testing.T) {
	t.Parallel()
	OnEach(t, func(t *testing.T, q queue.Queue) {
		create(t, q)
		add(t, q, queue.Default, newJob(1))
		tally := newTally()
		serve(t, q, queue.ServeOptions{Concurrency: 1}, tally.handle(func(context.Context, *queue.Delivery) queue.Outcome {
			if len(tally.order()) < 3 {
				return queue.Interrupted(nil)
			}
			return queue.Done()
		}))
		tally.wait(t, 3)
		eventually(t, "the job leaves the queue", func() bool { return add(t, q, queue.Default, newJob(1))[0] })
	})
}

func TestWorkersAreCounted(t *testing.T) {
	t.Parallel()
	OnEach(t, func(t *testing.T, q queue.Queue) {
		workers := func(alias string) int {
			n, err := q.Workers(t.Context(), alias)
			require.NoError(t, err)
			return n
		}
		require.Zero(t, workers("m"))
		stop := serve(t, q, queue.ServeOptions{Concurrency: 1}, newTally().handle(nil))
		serve(t, q, queue.ServeOptions{Concurrency: 1}, newTally().handle(nil))
		eventually(t, "two workers are counted", func() bool { return workers("m") == 2 })
		require.Zero(t, workers("other"))
		stop()
		require.Equal(t, 1, workers("m"))
	})
}

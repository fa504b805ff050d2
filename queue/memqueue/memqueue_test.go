package memqueue_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/openai"
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/memqueue"
)

// bench is a queue with batches of model alias "m", in a bubble of synctest.
type bench struct {
	*memqueue.Queue
	t     *testing.T
	began time.Time

	mu    sync.Mutex
	taken []string // line, attempt, seconds and checkpoint of each delivery
}

func newBench(t *testing.T, rows int) *bench {
	t.Helper()
	b := &bench{Queue: memqueue.New(), t: t, began: time.Now()}
	b.create("b", rows)
	return b
}

func (b *bench) create(id string, rows int) {
	b.t.Helper()
	_, _, err := b.Create(b.t.Context(), queue.Batch{ID: id, Alias: "m", Priority: queue.Default, Retention: time.Hour})
	require.NoError(b.t, err)
	for line := range rows {
		added, err := b.Add(b.t.Context(), "m", queue.Default, []*queue.Job{job(id, line+1)})
		require.NoError(b.t, err)
		require.Equal(b.t, []bool{true}, added)
	}
}

func job(batch string, line int) *queue.Job {
	return &queue.Job{Batch: batch, Line: line, Sum: "0badcafe", CustomID: "x", Endpoint: openai.Completions, Body: []byte(`{}`), TimeoutMS: 60_000, MaxAttempts: 3}
}

func answer(line int) queue.Result {
	return queue.Result{Line: line, Sum: "0badcafe", Text: []byte("{}")}
}

// deliveries returns the deliveries so far, once all goroutines of the bubble wait.
func (b *bench) deliveries() []string {
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.taken
}

// serve starts a worker with one handler, and returns a function that stops it.
func (b *bench) serve(change func(o *queue.ServeOptions), handle queue.Handler) (stop func()) {
	b.t.Helper()
	o := queue.ServeOptions{Alias: "m", Concurrency: 1, ShutdownTimeout: time.Second, Logger: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&o)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(b.t.Context()))
	var serving sync.WaitGroup
	serving.Go(func() {
		err := b.Serve(ctx, o, func(ctx context.Context, d *queue.Delivery) queue.Outcome {
			b.mu.Lock()
			b.taken = append(b.taken, fmt.Sprintf("line %d, attempt %d, %v, %q", d.Line, d.Attempt, time.Since(b.began), d.Checkpoint))
			b.mu.Unlock()
			return handle(ctx, d)
		})
		require.NoError(b.t, err)
	})
	return sync.OnceFunc(func() { cancel(); serving.Wait() })
}

// What becomes of a row, and when it is delivered again, follows from what its handler returns.
func TestWhatBecomesOfARow(t *testing.T) {
	t.Parallel()
	failure := errors.New("too hot")
	for name, c := range map[string]struct {
		outcome queue.Outcome
		change  func(o *queue.ServeOptions)
		panics  bool
		want    []string // the deliveries of two rows, whose first one has the outcome, within an hour
		running int      // attempts that count
	}{
		"done":        {outcome: queue.Done(), want: []string{`line 1, attempt 1, 0s, ""`, `line 2, attempt 1, 0s, ""`}, running: 2},
		"retry":       {outcome: queue.Retry(3*time.Second, failure), want: []string{`line 1, attempt 1, 0s, ""`, `line 2, attempt 1, 0s, ""`, `line 1, attempt 2, 3s, ""`}, running: 2},
		"refuse":      {outcome: queue.Refuse(failure), want: []string{`line 1, attempt 1, 0s, ""`, `line 2, attempt 1, 0s, ""`, `line 1, attempt 1, 1s, ""`}, running: 2},
		"interrupted": {outcome: queue.Interrupted(failure), want: []string{`line 1, attempt 1, 0s, ""`, `line 2, attempt 1, 0s, ""`, `line 1, attempt 2, 0s, ""`}, running: 2},
		"handed back": {outcome: queue.HandBack(), want: []string{`line 1, attempt 1, 0s, ""`}},
		"a panic":     {panics: true, want: []string{`line 1, attempt 1, 0s, ""`, `line 2, attempt 1, 0s, ""`, `line 1, attempt 2, 1s, ""`}, running: 2},
		"passed on":   {outcome: queue.PassOn(9, failure), want: []string{`line 1, attempt 1, 0s, ""`, `line 2, attempt 1, 0s, ""`, `line 1, attempt 1, 0s, ""`}, running: 2},
		"not admitted": {change: func(o *queue.ServeOptions) {
			o.Admit = func(context.Context, *queue.Delivery, bool) (func(), bool) { return nil, false }
		}},
		"no longer context": {outcome: queue.PassOn(9, failure), change: func(o *queue.ServeOptions) { o.Context = 9 },
			want: []string{`line 1, attempt 1, 0s, ""`, `line 2, attempt 1, 0s, ""`, `line 1, attempt 1, 0s, ""`}, running: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, 2)
				calls := 0
				stop := b.serve(c.change, func(context.Context, *queue.Delivery) queue.Outcome {
					if calls++; calls > 1 {
						return queue.Done()
					}
					if c.panics {
						panic("oops")
					}
					return c.outcome
				})
				<-time.After(time.Hour - 1)
				require.Equal(t, c.want, b.deliveries())
				s, err := b.Status(t.Context(), "b")
				require.NoError(t, err)
				require.Equal(t, c.running, s.Running)
				stop()
			})
		})
	}
}

// A row that was passed on goes to a worker with a longer context, and back to all when that worker
// stops, or after a delay.
func TestRowsThatArePassedOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 2)
		busy := make(chan struct{})
		stopLong := b.serve(func(o *queue.ServeOptions) { o.Context = 20 }, func(context.Context, *queue.Delivery) queue.Outcome {
			<-busy
			return queue.Done()
		})
		synctest.Wait()
		require.Equal(t, []string{`line 1, attempt 1, 0s, ""`}, b.deliveries())
		passed := 0
		stop := b.serve(func(o *queue.ServeOptions) { o.Context = 9 }, func(_ context.Context, d *queue.Delivery) queue.Outcome {
			if passed++; passed < 3 {
				return queue.PassOn(9, errors.New("too short"))
			}
			return queue.Done()
		})
		<-time.After(time.Minute)
		require.Equal(t, []string{`line 2, attempt 1, 0s, ""`}, b.deliveries()[1:], "it waits for the worker with the longer context")
		<-time.After(queue.PassOnDelay)
		require.Equal(t, []string{`line 2, attempt 1, 1h0m0s, ""`}, b.deliveries()[2:], "the other worker hangs")
		close(busy)
		synctest.Wait()
		require.Equal(t, []string{`line 2, attempt 1, 1h1m0s, ""`}, b.deliveries()[3:], "the other worker takes it")
		_, err := b.Add(t.Context(), "m", queue.Default, []*queue.Job{job("b", 3)})
		require.NoError(t, err)
		stopLong()
		synctest.Wait()
		stop()
	})
}

// A row keeps its last progress until it is recorded.
func TestProgressOfRows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 1)
		ctx := t.Context()
		calls := 0
		stop := b.serve(nil, func(_ context.Context, d *queue.Delivery) queue.Outcome {
			switch calls++; calls {
			case 1:
				require.NoError(t, d.Save(ctx, []byte("one")))
				require.NoError(t, d.Save(ctx, []byte("two")))
				return queue.Retry(time.Second, errors.New("x"))
			case 2:
				first, err := d.Record(ctx, answer(1))
				require.NoError(t, err)
				require.True(t, first)
				require.NoError(t, d.Save(ctx, []byte("late")))
				return queue.Done()
			}
			_, err := b.Cancel(ctx, d.Batch)
			require.NoError(t, err)
			require.ErrorIs(t, d.Save(ctx, []byte("late")), queue.ErrCancelled)
			return queue.Done()
		})
		<-time.After(time.Minute)
		require.Equal(t, []string{`line 1, attempt 1, 0s, ""`, `line 1, attempt 2, 1s, "two"`}, b.deliveries())
		b.create("c", 1)
		<-time.After(time.Minute)
		require.Equal(t, []string{`line 1, attempt 1, 1m0s, ""`}, b.deliveries()[2:])
		stop()
	})
}

// Batches take turns by their weights, and rows that were handed back go first.
func TestTurnsOfBatches(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{Queue: memqueue.New(), t: t, began: time.Now()}
		b.create("a", 4)
		b.create("b", 4)
		_, created, err := b.Create(t.Context(), queue.Batch{ID: "b", Weight: 2})
		require.NoError(t, err)
		require.False(t, created)
		var order []string
		stop := b.serve(nil, func(_ context.Context, d *queue.Delivery) queue.Outcome {
			order = append(order, queue.TaskID(d.Batch, d.Line))
			if len(order) == 4 {
				b.create("c", 1) // it begins with the turn that is next
			}
			return queue.Done()
		})
		synctest.Wait()
		stop()
		require.Equal(t, []string{"a:1", "b:1", "b:2", "a:2", "b:3", "c:1", "b:4", "a:3", "a:4"}, order)
	})
}

// A batch and its results are deleted when the retention after its end is over.
func TestRetention(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(t *testing.T, b *bench){
		"completed": func(t *testing.T, b *bench) {
			t.Helper()
			_, err := b.Record(t.Context(), "b", answer(1))
			require.NoError(t, err)
			require.NoError(t, b.Seal(t.Context(), "b", 1, "aa"))
		},
		"cancelled": func(t *testing.T, b *bench) {
			t.Helper()
			finished, err := b.Cancel(t.Context(), "b")
			require.NoError(t, err)
			require.False(t, finished)
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, 1)
			<-time.After(2 * time.Hour)
			_, err := b.Status(t.Context(), "b")
			require.NoError(t, err, "it has not ended")
			end(t, b)
			s, err := b.Status(t.Context(), "b")
			require.NoError(t, err)
			require.Equal(t, time.Now().Add(time.Hour).UTC(), *s.Expires, name)
			<-time.After(time.Hour)
			_, err = b.Status(t.Context(), "b")
			require.NoError(t, err)
			all, err := b.Batches(t.Context())
			require.NoError(t, err)
			require.Len(t, all, 1)
			<-time.After(1)
			all, err = b.Batches(t.Context())
			require.NoError(t, err)
			require.Empty(t, all)
			_, err = b.Status(t.Context(), "b")
			require.ErrorIs(t, err, queue.ErrNoBatch)
			lines, err := b.Recorded(t.Context(), "b")
			require.NoError(t, err)
			require.Empty(t, lines)
		})
	}
}

// A read waits for a result, for as long as its page allows.
func TestReadsThatWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 2)
		page := queue.Page{Count: 5, MaxBytes: 100, Want: func(queue.Recording) bool { return true }, Wait: time.Minute}
		rows, err := b.Read(t.Context(), "b", page)
		require.NoError(t, err)
		require.Empty(t, rows)
		require.Equal(t, time.Minute, time.Since(b.began))
		time.AfterFunc(time.Second, func() { _, _ = b.Record(t.Context(), "b", answer(1)) })
		rows, err = b.Read(t.Context(), "b", page)
		require.NoError(t, err)
		require.Len(t, rows, 1)
		require.Equal(t, time.Minute+time.Second, time.Since(b.began))
		page.After = rows[0].ID
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = b.Read(ctx, "b", page)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "read results of batch b: ")
		page.After = "x"
		_, err = b.Read(t.Context(), "b", page)
		require.ErrorContains(t, err, `read results of batch b: "x" is not the id of a recording`)
		rows, err = b.Read(t.Context(), "none", queue.Page{Wait: time.Second})
		require.NoError(t, err)
		require.Empty(t, rows)
	})
}

// The workers of a queue are those that serve it now, with the rows that they have.
func TestWorkersOfAQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 2)
		release := make(chan struct{})
		describe := func(name string) func(o *queue.ServeOptions) {
			return func(o *queue.ServeOptions) {
				o.Concurrency, o.Describe = 2, func() queue.Worker { return queue.Worker{Name: name} }
			}
		}
		stop := b.serve(describe("z"), func(context.Context, *queue.Delivery) queue.Outcome {
			<-release
			return queue.Done()
		})
		synctest.Wait()
		<-time.After(time.Second)
		other := b.serve(describe("a"), func(context.Context, *queue.Delivery) queue.Outcome { return queue.Done() })
		synctest.Wait()
		all, err := b.Fleet(t.Context())
		require.NoError(t, err)
		require.Len(t, all, 2)
		require.Equal(t, []any{"a", "2", 0, "z", "1", 2}, []any{all[0].Name, all[0].ID, all[0].Rows, all[1].Name, all[1].ID, all[1].Rows})
		require.Equal(t, []time.Duration{0, time.Second}, []time.Duration{all[0].Beat.Sub(all[0].Started), all[1].Beat.Sub(all[1].Started)})
		n, err := b.Workers(t.Context(), "m")
		require.NoError(t, err)
		require.Equal(t, 2, n)
		close(release)
		synctest.Wait()
		all, err = b.Fleet(t.Context())
		require.NoError(t, err)
		require.Zero(t, all[1].Rows)
		other()
		stop()
		all, err = b.Fleet(t.Context())
		require.NoError(t, err)
		require.Empty(t, all)
	})
}

// When a worker stops, its handlers have some time to end. After it, their rows return to the heads
// of their queues.
func TestStoppingAWorker(t *testing.T) {
	t.Parallel()
	for took, want := range map[time.Duration]string{999 * time.Millisecond: "answered", time.Hour: "given back"} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, 3)
			stop := b.serve(nil, func(ctx context.Context, d *queue.Delivery) queue.Outcome {
				select {
				case <-ctx.Done():
					return queue.Interrupted(ctx.Err())
				case <-time.After(took):
					return queue.Done()
				}
			})
			synctest.Wait()
			stop()
			require.Equal(t, min(took, time.Second), time.Since(b.began))
			var order []int
			stop = b.serve(nil, func(_ context.Context, d *queue.Delivery) queue.Outcome {
				order = append(order, d.Line)
				return queue.Done()
			})
			synctest.Wait()
			stop()
			require.Equal(t, map[string][]int{"answered": {2, 3}, "given back": {1, 2, 3}}[want], order)
		})
	}
}

// Cancelling a batch ends its deliveries, also that of a row that waits until it is admitted.
func TestCancellingABatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 3)
		stop := b.serve(func(o *queue.ServeOptions) {
			o.Concurrency = 2
			o.Admit = func(ctx context.Context, d *queue.Delivery, _ bool) (func(), bool) {
				if d.Line == 1 {
					return func() {}, true
				}
				<-ctx.Done()
				return nil, false
			}
		}, func(ctx context.Context, _ *queue.Delivery) queue.Outcome {
			<-ctx.Done()
			return queue.Retry(time.Second, context.Cause(ctx))
		})
		synctest.Wait()
		_, err := b.Cancel(t.Context(), "b")
		require.NoError(t, err)
		synctest.Wait()
		require.Len(t, b.deliveries(), 1)
		s, err := b.Status(t.Context(), "b")
		require.NoError(t, err)
		require.Equal(t, []any{queue.Cancelled, 0}, []any{s.State, s.Running})
		b.create("c", 1)
		synctest.Wait()
		require.NoError(t, b.Purge(t.Context(), "b"))
		<-time.After(time.Hour)
		require.Len(t, b.deliveries(), 2, "the worker goes on with other batches")
		stop()
	})
}

// The queue can always be used, unless the caller has stopped. No row is missing of a batch that
// has ended, even if it is gone.
func TestAQueueThatLosesNothing(t *testing.T) {
	t.Parallel()
	q := memqueue.New()
	require.NoError(t, q.Ping(t.Context()))
	stopped, stop := context.WithCancel(t.Context())
	stop()
	require.ErrorIs(t, q.Ping(stopped), context.Canceled)
	for _, state := range []queue.State{queue.Enqueueing, queue.Completed, queue.Cancelled} {
		n, err := q.Missing(t.Context(), queue.Status{Batch: "none", State: state})
		require.NoError(t, err)
		require.Zero(t, n)
	}
	_, err := q.Missing(t.Context(), queue.Status{Batch: "none", State: queue.InProgress})
	require.ErrorIs(t, err, queue.ErrNoBatch)
}

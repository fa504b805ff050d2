package queuetest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/openai"
	"github.com/ingot-run/ingot/queue"
)

// Take takes n jobs of a model alias from a queue without answering them, and checks that the queue
// has no more jobs. The jobs are in the order of delivery.
func Take(t testing.TB, q queue.Queue, alias string, p queue.Priority, n int) []*queue.Job {
	t.Helper()
	last := &queue.Job{
		Batch: "last-of-the-queue", Line: 1, Sum: "00000001", CustomID: "last", Endpoint: openai.Completions, Body: []byte(`{"prompt":""}`),
		TimeoutMS: 60_000, MaxAttempts: 1,
	}
	w := hold(t, q, queue.ServeOptions{Alias: alias, Concurrency: 1, ShutdownTimeout: maxWait})
	var jobs []*queue.Job
	take := func() *queue.Job {
		h := w.Next(t)
		if h.Refused == nil {
			h.End(queue.Done())
		}
		return h.Job
	}
	for range n {
		jobs = append(jobs, take())
	}
	_, _, err := q.Create(t.Context(), queue.Batch{ID: last.Batch, Alias: alias, Priority: p, Retention: time.Hour})
	require.NoError(t, err)
	_, err = q.Add(t.Context(), alias, p, []*queue.Job{last})
	require.NoError(t, err)
	require.Equal(t, last.Batch, take().Batch, "the queue has no more than %d jobs", n)
	w.Stop()
	_, err = q.Cancel(t.Context(), last.Batch)
	require.NoError(t, err)
	require.NoError(t, q.Purge(t.Context(), last.Batch))
	return jobs
}

// receive receives from a channel, but does not wait longer than maxWait.
func receive[T any](t require.TestingT, c <-chan T, what string) (value T) {
	select {
	case value = <-c:
	case <-time.After(maxWait):
		require.Fail(t, "did not happen within "+maxWait.String(), what)
	}
	return value
}

// Worker serves a model alias and lets the test play the handler.
type Worker struct {
	Pin   atomic.Pointer[string] // of the worker's model; nil for none
	Stop  func()                 // stops serving; unfinished rows return to the queue
	taken chan *Held
	alias string
}

// Held is a row that a Worker has taken.
type Held struct {
	*queue.Delivery
	Context context.Context // of the handler
	Refused error           // why the row was not begun; nil if it was
	ended   chan queue.Outcome
}

// Hold starts a worker.
func Hold(t testing.TB, q queue.Queue, alias string) *Worker {
	t.Helper()
	return hold(t, q, queue.ServeOptions{Alias: alias, Concurrency: 16})
}

func hold(t testing.TB, q queue.Queue, o queue.ServeOptions) *Worker {
	t.Helper()
	w := &Worker{taken: make(chan *Held, 100), alias: o.Alias}
	o.Pin = func() string {
		if p := w.Pin.Load(); p != nil {
			return *p
		}
		return ""
	}
	o.Refused = func(ctx context.Context, d *queue.Delivery, reason error) {
		w.taken <- &Held{Delivery: d, Context: ctx, Refused: reason}
	}
	w.Stop = serve(t, q, o, func(ctx context.Context, d *queue.Delivery) queue.Outcome {
		h := &Held{Delivery: d, Context: ctx, ended: make(chan queue.Outcome, 1)}
		w.taken <- h
		select {
		case o := <-h.ended:
			return o
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), queue.ErrCancelled) {
				return queue.Interrupted(queue.ErrCancelled)
			}
			return queue.HandBack()
		}
	})
	return w
}

// Next waits for the next row that the worker takes.
func (w *Worker) Next(t require.TestingT) *Held { return receive(t, w.taken, "a row is taken") }

// End ends the delivery.
func (h *Held) End(o queue.Outcome) { h.ended <- o }

// serve serves the jobs of alias o.Alias ("m" if empty) until stop is called or the test ends.
func serve(t testing.TB, q queue.Queue, o queue.ServeOptions, handle queue.Handler) (stop func()) {
	t.Helper()
	if o.Alias == "" {
		o.Alias = "m"
	}
	if o.ShutdownTimeout == 0 {
		o.ShutdownTimeout = time.Millisecond
	}
	o.Logger = quiet
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var err error
	var serving sync.WaitGroup
	serving.Go(func() { err = q.Serve(ctx, o, handle) })
	stop = sync.OnceFunc(func() {
		cancel()
		serving.Wait()
	})
	t.Cleanup(func() {
		stop()
		require.NoError(t, err)
	})
	return stop
}

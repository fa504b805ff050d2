package memqueue

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/ingot-run/ingot/job"
)

// Serve implements job.Queue.
func (q *Queue) Serve(ctx context.Context, o job.ServeOptions, handle job.Handler) error {
	q.mu.Lock()
	a := q.alias(o.Alias)
	a.workers++
	q.mu.Unlock()
	defer func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		a.workers--
	}()
	deliveries, abandon := context.WithCancel(context.WithoutCancel(ctx))
	defer abandon()
	var handlers sync.WaitGroup
	for range o.Concurrency {
		handlers.Go(func() {
			for t := a.take(ctx, o.Strict); t != nil; t = a.take(ctx, o.Strict) {
				q.deliver(deliveries, a, t, handle)
			}
		})
	}
	<-ctx.Done()
	q.mu.Lock()
	a.arrived.Broadcast()
	q.mu.Unlock()
	timeout := time.AfterFunc(o.ShutdownTimeout, abandon)
	defer timeout.Stop()
	handlers.Wait()
	return nil
}

// deliver passes a task to a handler and does with it what the handler's error says.
func (q *Queue) deliver(ctx context.Context, a *alias, t *task, handle job.Handler) {
	delivery, end := context.WithCancel(ctx)
	defer end()
	q.register(t.job, end)
	err := handle(delivery, t.job)
	q.mu.Lock()
	defer q.mu.Unlock()
	if b := q.batches[t.job.Batch]; b != nil {
		delete(b.running, t.job.Line)
	}
	t.running = false
	switch {
	case err == nil:
		a.remove(t)
	case errors.Is(err, job.ErrHandedBack) || ctx.Err() != nil:
		a.putFirst(t)
	case errors.Is(err, job.ErrDeliveryEnded) || delivery.Err() != nil:
		a.put(t)
	default:
		a.retryLater(t, job.RetryDelay(t.failures))
		t.failures++
	}
}

// register lets Cancel end a delivery.
func (q *Queue) register(j *job.Job, end context.CancelFunc) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if b := q.batches[j.Batch]; b != nil {
		b.running[j.Line] = end
	}
}

// Workers implements job.Queue.
func (q *Queue) Workers(_ context.Context, name string) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.alias(name).workers, nil
}

package memqueue

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ingot-run/ingot/queue"
)

// Serve implements queue.Queue.
func (q *Queue) Serve(ctx context.Context, o queue.ServeOptions, handle queue.Handler) error {
	s := &server{options: o, started: now()}
	q.mu.Lock()
	a := q.alias(o.Alias)
	q.servers = append(q.servers, s)
	q.mu.Unlock()
	defer func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.servers = slices.DeleteFunc(q.servers, func(other *server) bool { return other == s })
	}()
	deliveries, abandon := context.WithCancel(context.WithoutCancel(ctx))
	defer abandon()
	var handlers sync.WaitGroup
	for range o.Concurrency {
		handlers.Go(func() {
			for t := a.take(ctx, o.Strict); t != nil; t = a.take(ctx, o.Strict) {
				q.deliver(deliveries, s, a, t, handle)
			}
		})
	}
	for range o.Interactive {
		handlers.Go(func() {
			for t := a.takeInteractive(ctx); t != nil; t = a.takeInteractive(ctx) {
				q.deliver(deliveries, s, a, t, handle)
			}
		})
	}
	<-ctx.Done()
	q.mu.Lock()
	a.arrived.Broadcast()
	a.interactive.Broadcast()
	q.mu.Unlock()
	timeout := time.AfterFunc(o.ShutdownTimeout, abandon)
	defer timeout.Stop()
	handlers.Wait()
	return nil
}

// deliver passes a task to a handler. The handler's error determines what happens to the task.
func (q *Queue) deliver(ctx context.Context, s *server, a *alias, t *task, handle queue.Handler) {
	delivery, end := context.WithCancel(ctx)
	defer end()
	q.register(t.job, end)
	q.count(s, 1)
	err := handle(delivery, t.job)
	q.count(s, -1)
	q.mu.Lock()
	defer q.mu.Unlock()
	if b := q.batches[t.job.Batch]; b != nil {
		delete(b.running, t.job.Line)
	}
	t.running = false
	switch {
	case err == nil:
		a.remove(t)
	case errors.Is(err, queue.ErrHandedBack) || ctx.Err() != nil:
		a.putFirst(t)
	case errors.Is(err, queue.ErrDeliveryEnded) || delivery.Err() != nil:
		a.put(t)
	case errors.Is(err, queue.ErrOtherModel):
		a.retryLater(t, queue.RefusalDelay)
	default:
		a.retryLater(t, queue.RetryDelay(t.failures))
		t.failures++
	}
}

// count changes the number of a server's rows.
func (q *Queue) count(s *server, change int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	s.rows += change
}

// register lets Cancel end a delivery.
func (q *Queue) register(j *queue.Job, end context.CancelFunc) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if b := q.batches[j.Batch]; b != nil {
		b.running[j.Line] = end
	}
}

// server is the state of one call of Serve.
type server struct {
	options queue.ServeOptions
	started time.Time
	rows    int // guarded by the queue's mutex
}

// Fleet implements queue.Queue.
func (q *Queue) Fleet(context.Context) ([]queue.Worker, error) {
	q.mu.Lock()
	servers := slices.Clone(q.servers)
	rows := make([]int, len(servers))
	for i, s := range servers {
		rows[i] = s.rows
	}
	q.mu.Unlock()
	var all []queue.Worker
	for i, s := range servers { // without the lock, since Describe is a function of the caller
		w := s.options.Record(strconv.Itoa(i+1), s.started, rows[i])
		w.Beat = now()
		all = append(all, w)
	}
	slices.SortStableFunc(all, func(a, b queue.Worker) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// Workers implements queue.Queue.
func (q *Queue) Workers(_ context.Context, name string) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := 0
	for _, s := range q.servers {
		if s.options.Alias == name {
			n++
		}
	}
	return n, nil
}

package memqueue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ingot-run/ingot/queue"
)

// server is the state of one call of Serve.
type server struct {
	queue   *Queue
	alias   *alias
	options queue.ServeOptions
	handle  queue.Handler
	started time.Time

	// The queue's mutex guards these fields.
	rows      int
	returning bool // a handler has handed back a row: the server takes no more rows
}

// Serve implements queue.Queue.
func (q *Queue) Serve(ctx context.Context, o queue.ServeOptions, handle queue.Handler) error {
	o.Defaults()
	s := &server{queue: q, options: o, handle: handle, started: now()}
	q.mu.Lock()
	a := q.alias(o.Alias)
	s.alias = a
	q.servers = append(q.servers, s)
	q.mu.Unlock()
	defer func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.servers = slices.DeleteFunc(q.servers, func(other *server) bool { return other == s })
		a.releaseLonger(q.longest(a))
	}()
	deliveries, abandon := context.WithCancel(context.WithoutCancel(ctx))
	defer abandon()
	var handlers sync.WaitGroup
	work := func(n int, arrived *sync.Cond, choose func() *turns) {
		for range n {
			handlers.Go(func() {
				for t := s.take(ctx, arrived, choose); t != nil; t = s.take(ctx, arrived, choose) {
					s.deliver(deliveries, t)
				}
			})
		}
	}
	work(o.Concurrency+o.Prefetch, a.arrived, a.choose)
	work(o.Interactive, a.interactive, a.chooseInteractive)
	<-ctx.Done()
	q.mu.Lock()
	a.wakeAll()
	q.mu.Unlock()
	timeout := time.AfterFunc(o.ShutdownTimeout, abandon)
	defer timeout.Stop()
	handlers.Wait()
	return nil
}

// deliver passes a task to the handler. The outcome decides what happens to the task.
func (s *server) deliver(ctx context.Context, t *task) {
	delivery, end := context.WithCancelCause(ctx)
	defer end(nil)
	q, a := s.queue, s.alias
	q.mu.Lock()
	s.rows++
	if b := q.batches[t.job.Batch]; b != nil {
		b.running[t.job.Line] = end // so that Cancel can end it
	}
	q.mu.Unlock()
	outcome, begun := s.run(delivery, t)
	q.mu.Lock()
	defer q.mu.Unlock()
	s.rows--
	t.running = false
	cancelled := false
	if b := q.batches[t.job.Batch]; b != nil {
		cancelled = b.Cancelled
		delete(b.running, t.job.Line)
		if begun && outcome.Uncounted() {
			if b.attempts[t.job.Line]--; b.attempts[t.job.Line] <= 0 {
				delete(b.attempts, t.job.Line)
			}
		}
	}
	switch {
	case outcome.Kind == queue.KindDone || cancelled:
		a.remove(t)
	case outcome.Kind == queue.KindHandBack || ctx.Err() != nil:
		s.returning = true
		a.wakeAll()
		a.putFirst(t)
	case outcome.Kind == queue.KindInterrupted || delivery.Err() != nil:
		a.put(t)
	case outcome.Kind == queue.KindPassOn:
		a.passOn(t, outcome.Context, q.longest(a), outcome.After)
	default:
		a.retryLater(t, outcome.After)
	}
}

// longest returns the longest context of the workers of an alias.
func (q *Queue) longest(a *alias) (longest int) {
	for _, s := range q.servers {
		if s.alias == a {
			longest = max(longest, s.options.Context)
		}
	}
	return longest
}

// run begins a row and calls the handler.
func (s *server) run(ctx context.Context, t *task) (outcome queue.Outcome, begun bool) {
	recorder := delivery{s.queue, t.job}
	d := &queue.Delivery{Job: t.job, Recorder: recorder}
	defer func() {
		if p := recover(); p != nil {
			s.options.Logger.Error("panic in a handler", "batch", d.Batch, "line", d.Line, "panic", p, "stack", string(debug.Stack()))
			outcome = queue.Retry(queue.RetryDelay(d.Attempt-1), fmt.Errorf("internal error: %v", p))
		}
	}()
	release, ok := s.options.Admit(ctx, d, true)
	if !ok {
		if errors.Is(context.Cause(ctx), queue.ErrCancelled) {
			return queue.Interrupted(queue.ErrCancelled), false
		}
		return queue.HandBack(), false
	}
	defer release()
	var err error
	d.Attempt, d.Checkpoint, err = recorder.begin(s.options.Pin())
	if err != nil {
		s.options.Refused(ctx, d, err)
		if errors.Is(err, queue.ErrOtherModel) {
			return queue.Refuse(err), false
		}
		return queue.Done(), false
	}
	return s.handle(ctx, d), true
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

// WatchWorkers implements queue.Queue. The workers are in this process, so none of them can die.
func (q *Queue) WatchWorkers(ctx context.Context, _ *slog.Logger) { <-ctx.Done() }

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

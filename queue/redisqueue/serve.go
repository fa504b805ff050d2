package redisqueue

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/ingot-run/ingot/queue"
)

// server is the state of one call of Serve.
type server struct {
	queue      *Queue
	options    queue.ServeOptions
	handle     queue.Handler
	member     *member
	feeds      []*feed
	searches   []*loop         // searches for rows that must return to the queue
	deliveries context.Context // ends when the time for handlers is over
	returning  atomic.Bool     // a handler has handed back a row: the server takes no more rows
}

func newServer(deliveries context.Context, q *Queue, o queue.ServeOptions, handle queue.Handler) *server {
	s := &server{queue: q, options: o, handle: handle, member: newMember(q, o), deliveries: deliveries}
	s.feeds = newFeeds(s)
	s.member.arrived = s.feeds[len(s.feeds)-1].ask
	search, beat := s.member.outage.search, q.Leases.Beat
	s.searches = []*loop{
		search(beat, beat, noReaper, newReaper(q, s.member, o.Alias, o.Logger).look),
		search(forwardInterval, beat, "could not look for rows whose retry is due", func(ctx context.Context) error { return q.forward(ctx, o.Alias) }),
		search(archiveInterval, beat, "could not queue archived jobs again", func(ctx context.Context) error { return q.unarchive(ctx, o.Alias, o.Logger) }),
	}
	return s
}

// Serve implements queue.Queue.
func (q *Queue) Serve(ctx context.Context, o queue.ServeOptions, handle queue.Handler) error {
	o.Defaults()
	lasting := context.WithoutCancel(ctx)
	deliveries, abandon := context.WithCancel(lasting)
	defer abandon()
	s := newServer(deliveries, q, o, handle)
	err := q.deleteLeases(ctx, o.Alias)
	if err == nil {
		err = s.member.join(ctx)
	}
	if err != nil {
		return failure(err, "serve the queue")
	}
	s.start(ctx)
	<-ctx.Done()
	timeout := time.AfterFunc(o.ShutdownTimeout, abandon)
	defer timeout.Stop()
	ended := make(chan error, 1)
	go func() { ended <- s.shutdown(lasting) }()
	for wait := o.ShutdownTimeout + q.Leases.Stop; ; wait = q.Leases.Stop / 4 {
		select {
		case err := <-ended:
			return err
		case <-time.After(wait):
			if time.Since(*q.answers.any.Load()) >= q.Leases.Stop {
				s.member.beats.stop()
				return fmt.Errorf("return the running rows to the queue: %w: redis does not answer; other workers take the rows when it answers again", queue.ErrUnavailable)
			}
		}
	}
}

// start begins to take rows. Heartbeats continue after the end of ctx, until the last row has
// returned to the queue.
func (s *server) start(ctx context.Context) {
	s.member.start(context.WithoutCancel(ctx))
	for _, search := range s.searches {
		search.start(ctx)
	}
	for _, f := range s.feeds {
		f.start(ctx)
	}
}

// shutdown waits until all rows are answered or have returned to their queues.
func (s *server) shutdown(ctx context.Context) error {
	for _, f := range s.feeds {
		f.shutdown()
	}
	for _, search := range s.searches {
		search.shutdown()
	}
	return s.member.shutdown(ctx)
}

// process handles a row. The outcome decides what happens to it.
func (s *server) process(d *delivery) {
	defer s.member.outage.worked(d.notRecorded()) // recording is not repeated any more
	outcome := s.deliver(d)
	ended := d.ctx.Err() != nil
	s.member.release(context.WithoutCancel(s.deliveries), d)
	uncount := d.begun && outcome.Uncounted()
	switch {
	case d.recorded.Load():
	case d.notAJob != nil:
		s.options.Logger.Error("archived a task", "task", d.id, "error", d.notAJob)
		s.finish(d, ending{place: archived, at: time.Now(), err: d.notAJob, failed: true})
	case outcome.Kind == queue.KindDone:
		s.finish(d, ending{place: done})
	case outcome.Kind == queue.KindHandBack || s.deliveries.Err() != nil:
		s.returning.Store(true)
		s.finish(d, ending{place: head, uncount: uncount})
	case outcome.Kind == queue.KindInterrupted || ended:
		s.finish(d, ending{place: tail})
	default:
		s.finish(d, ending{
			place: retry, at: time.Now().Add(outcome.After), err: outcome.Err, failed: outcome.Kind == queue.KindRetry, uncount: uncount,
			context: outcome.Context,
		})
	}
}

// deliver admits and begins a row, unless the feed has, and calls the handler. A panic becomes a
// failure.
func (s *server) deliver(d *delivery) (outcome queue.Outcome) {
	defer d.unadmit()
	defer func() {
		if p := recover(); p != nil {
			s.options.Logger.Error("panic in a handler", "task", d.id, "panic", p, "stack", string(debug.Stack()))
			outcome = queue.Retry(queue.RetryDelay(d.value.Attempt-1), fmt.Errorf("internal error: %v", p))
		}
	}()
	if d.job == nil {
		return queue.Interrupted(d.notAJob)
	}
	if !d.begun && !isRefusal(d.err) {
		if !s.admit(d, true) {
			if d.ctx.Err() != nil {
				return queue.Interrupted(context.Cause(d.ctx))
			}
			return queue.HandBack()
		}
		s.queue.runAll(d.ctx, s.begin([]*delivery{d}))
	}
	switch {
	case d.begun:
		return s.handle(d.ctx, &d.value)
	case errors.Is(d.err, queue.ErrSuperseded) || errors.Is(d.err, errNotRunning):
		return queue.Interrupted(d.err)
	case errors.Is(d.err, queue.ErrOtherModel):
		s.options.Refused(d.ctx, &d.value, d.err)
		return queue.Refuse(d.err)
	case isRefusal(d.err): // the row needs no result
		s.options.Refused(d.ctx, &d.value, d.err)
		return queue.Done()
	default: // Redis could not be used
		m, _ := parse(d.message)
		return queue.Retry(queue.RetryDelay(m.retried), d.err)
	}
}

// The places where a delivery leaves its task; end.lua defines them.
const (
	done     = "done"
	head     = "head"
	tail     = "tail"
	retry    = "retry"
	archived = "archived"
)

// ending is how a delivery leaves its task.
type ending struct {
	place   string
	uncount bool      // the attempt does not count
	failed  bool      // asynq's tools count a failure
	err     error     // why the task is retried or archived
	at      time.Time // when it is delivered again or was archived
	context int       // for retry: workers with a longer context may take the task at once; 0 if none may
}

// finish ends the delivery of a task. If Redis fails, this is repeated until it succeeds. If
// another worker has the task by then, nothing happens.
func (s *server) finish(d *delivery, e ending) {
	now := time.Now()
	message := ""
	if e.place == retry || e.place == archived {
		message = failedMessage(d.message, now, e.err, e.failed)
	}
	s.member.pay(context.WithoutCancel(s.deliveries), func(ctx context.Context) error {
		err := s.queue.check(ctx, with(endScript, "queue", d.queue, "id", d.id, "delivery", d.number, "place", e.place,
			"uncount", e.uncount, "failed", e.failed, "message", message, "at", e.at.Unix(), "today", today(now), "expire", statsEnd(now), "context", e.context))
		if errors.Is(err, queue.ErrSuperseded) {
			return nil
		}
		return failure(err, "end task %s", d.id)
	})
}

package redisqueue

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
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
	searches   []search        // searches for rows that must return to the queue
	deliveries context.Context // ends when the time for handlers is over
	returning  atomic.Bool     // a handler has handed back a row: the server takes no more rows
}

// search runs in the background: a reaper, a forwarder or an unarchiver.
type search interface {
	start(ctx context.Context)
	shutdown()
}

func newServer(deliveries context.Context, q *Queue, o queue.ServeOptions, handle queue.Handler) *server {
	s := &server{queue: q, options: o, handle: handle, member: newMember(q, o), deliveries: deliveries}
	s.feeds = newFeeds(s)
	s.member.arrived = s.feeds[len(s.feeds)-1].ask
	outage := s.member.outage
	s.searches = []search{newReaper(q, s.member, o.Alias, o.Logger), newForwarder(q, o.Alias, outage), newUnarchiver(q, o.Alias, o.Logger, outage)}
	return s
}

// Serve implements queue.Queue.
func (q *Queue) Serve(ctx context.Context, o queue.ServeOptions, handle queue.Handler) error {
	o.Defaults()
	lasting := context.WithoutCancel(ctx)
	deliveries, abandon := context.WithCancel(lasting)
	defer abandon()
	s := newServer(deliveries, q, o, handle)
	if err := s.member.join(ctx); err != nil {
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
			if time.Since(q.answers.any.time()) >= q.Leases.Stop {
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
func (s *server) process(h *held) {
	outcome := s.deliver(h)
	s.member.release(context.WithoutCancel(s.deliveries), h)
	ended := h.ctx.Err() != nil
	h.end(nil)
	switch {
	case h.recorded.Load():
	case h.notAJob != nil:
		s.options.Logger.Error("archived a task", "task", h.task, "error", h.notAJob)
		s.finish(h, ending{place: archived, at: time.Now(), err: h.notAJob, failed: true})
	case outcome.Kind == queue.KindDone:
		s.finish(h, ending{place: done})
	case outcome.Kind == queue.KindHandBack || s.deliveries.Err() != nil:
		s.returning.Store(true)
		s.finish(h, ending{place: head, uncount: h.begun && outcome.Uncounted()})
	case outcome.Kind == queue.KindLost || ended:
		s.finish(h, ending{place: tail})
	default:
		s.finish(h, ending{
			place: retry, at: time.Now().Add(outcome.After), err: outcome.Err,
			failed: outcome.Kind == queue.KindRetry, uncount: h.begun && outcome.Uncounted(),
		})
	}
}

// deliver admits and begins a row, unless the feed has, and calls the handler. A panic becomes a
// failure.
func (s *server) deliver(h *held) (outcome queue.Outcome) {
	defer h.unadmit()
	defer func() {
		if p := recover(); p != nil {
			s.options.Logger.Error("panic in a handler", "task", h.task, "panic", p, "stack", string(debug.Stack()))
			outcome = queue.Retry(queue.RetryDelay(h.Attempt-1), fmt.Errorf("internal error: %v", p))
		}
	}()
	if h.Job == nil {
		return queue.Lost(h.notAJob)
	}
	if !h.begun && h.refusal == nil {
		release, ok := s.options.Admit(h.ctx, &h.Delivery, true)
		if !ok {
			if h.ctx.Err() != nil {
				return queue.Lost(context.Cause(h.ctx))
			}
			return queue.HandBack()
		}
		h.release = release
		if s.prepare(h) {
			begin := []*held{h}
			setBegun(begin, s.queue.run(h.ctx, beginCall(begin)))
		}
	}
	switch err := h.refusal; {
	case h.begun:
		return s.handle(h.ctx, &h.Delivery)
	case err == nil: // Redis could not be used
		return queue.Retry(queue.RetryDelay(retried(h.message)), h.failure)
	case errors.Is(err, queue.ErrSuperseded) || errors.Is(err, errNotRunning):
		return queue.Lost(err)
	case errors.Is(err, queue.ErrOtherModel):
		s.options.Refused(h.ctx, &h.Delivery, err)
		return queue.Refuse(err)
	case dropped(err):
		s.options.Refused(h.ctx, &h.Delivery, err)
		return queue.Done()
	default:
		return queue.Retry(queue.RetryDelay(h.Attempt-1), err)
	}
}

// dropped reports whether a row that was not begun for a reason needs no result, so that its task
// is deleted.
func dropped(reason error) bool {
	return slices.ContainsFunc([]error{queue.ErrRecorded, queue.ErrNoBatch, queue.ErrCancelled, queue.ErrOtherFile, queue.ErrNoRow},
		func(final error) bool { return errors.Is(reason, final) })
}

// giveBack returns a row that no handler has received to the head of its queue.
func (s *server) giveBack(h *held) {
	h.unadmit()
	s.member.release(context.WithoutCancel(s.deliveries), h)
	h.end(nil)
	s.finish(h, ending{place: head, uncount: h.begun})
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
}

// finish ends a delivery. If Redis fails, this is repeated until it succeeds. If another worker has
// the task by then, nothing happens.
func (s *server) finish(h *held, e ending) {
	now := time.Now()
	message := ""
	if e.place == retry || e.place == archived {
		message = failedMessage(h.message, now, e.err, e.failed)
	}
	s.member.pay(context.WithoutCancel(s.deliveries), func(ctx context.Context) error {
		err := s.queue.check(ctx, with(endScript, "queue", h.queue, "id", h.task, "delivery", h.number, "place", e.place,
			"uncount", e.uncount, "failed", e.failed, "message", message, "at", e.at.Unix(), "today", today(now), "expire", statsEnd(now)))
		if errors.Is(err, queue.ErrSuperseded) {
			return nil
		}
		return failure(err, "end task %s", h.task)
	})
}

package redisqueue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"

	"github.com/ingot-run/ingot/queue"
)

// Serve implements queue.Queue.
func (q *Queue) Serve(ctx context.Context, o queue.ServeOptions, handle queue.Handler) error {
	queues := map[string]int{}
	for p, weight := range queue.Priorities() {
		queues[queueName(o.Alias, p)] = weight
	}
	deliveries, abandon := context.WithCancel(context.WithoutCancel(ctx))
	defer abandon()
	s := &server{queue: q, handle: handle, admit: o.Admit, log: o.Logger, deliveries: deliveries}
	member, err := q.join(ctx, o)
	if err != nil {
		return failure(err, "serve the queue")
	}
	s.member = member
	feeds := []*feed{s.newFeed(o, queues, o.Concurrency, o.Ahead)}
	if o.Interactive > 0 {
		interactive := map[string]int{queueName(o.Alias, queue.Interactive): 1}
		f := s.newFeed(o, interactive, o.Interactive, 0)
		f.poll = max(f.poll, announcedPoll)
		feeds = append(feeds, f)
	}
	stopping := make(chan struct{})
	client := newAsynqClient(q.rdb, stopping)
	asynqs := s.asynqServer(o, client)
	if err := asynqs.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return nil })); err != nil {
		return errors.Join(fmt.Errorf("serve the queue: %w", err), member.leave(ctx))
	}
	var searches, beats, handlers, rounds sync.WaitGroup
	searches.Go(func() { q.requeueArchivedUntil(ctx, o, member.outage) })
	searches.Go(func() { newReaper(q, member, o.Alias, o.Logger).run(ctx) })
	beating, stopBeating := context.WithCancel(context.WithoutCancel(ctx)) // heartbeats continue until the last row has returned to the queue
	beats.Go(func() { member.run(beating) })
	beats.Go(func() { member.renewLeases(beating) })
	beats.Go(func() { member.listen(beating, feeds[len(feeds)-1].ask) })
	handled := make(chan struct{})
	for _, f := range feeds {
		rounds.Go(func() { f.run(ctx, handled) })
		for range f.handlers {
			handlers.Go(func() { f.work(ctx) })
		}
	}
	<-ctx.Done()
	timeout := time.AfterFunc(o.ShutdownTimeout, abandon)
	defer timeout.Stop()
	ended := make(chan error, 1)
	searches.Go(func() {
		close(stopping)
		asynqs.Shutdown()
		client.closeSubscriptions()
	})
	go func() {
		handlers.Wait()
		close(handled)
		rounds.Wait()
		for _, f := range feeds {
			f.returnTasks()
		}
		searches.Wait()
		stopBeating()
		beats.Wait()
		member.settle(context.WithoutCancel(ctx))
		ended <- member.leave(context.WithoutCancel(ctx))
	}()
	for wait := o.ShutdownTimeout + q.Leases.Stop; ; wait = q.Leases.Stop / 4 {
		select {
		case err := <-ended:
			return err
		case <-time.After(wait):
			if time.Since(q.answers.any.time()) >= q.Leases.Stop {
				stopBeating()
				q.abandoned.Store(true)
				return fmt.Errorf("return the running rows to the queue: %w: redis does not answer; other workers take the rows when it answers again", queue.ErrUnavailable)
			}
		}
	}
}

// server is the state of one call of Serve.
type server struct {
	queue      *Queue
	member     *member
	handle     queue.Handler
	admit      func(*queue.Job) (leave func(), ok bool) // nil if handlers begin all jobs
	log        *slog.Logger
	deliveries context.Context // ends when the time for handlers is over
	returning  atomic.Bool     // a handler has handed back a job: the server takes no more jobs
}

// retryInterval is the time between two searches of a worker for tasks whose retry is due.
const retryInterval = 2 * time.Second

// asynqServer returns a server of asynq that takes no tasks. It queues a task again when the pause before its next delivery is over, or
// when its lease is over. It also shows the worker to asynq's tools.
func (s *server) asynqServer(o queue.ServeOptions, client asynqClient) *asynq.Server {
	queues := map[string]int{}
	for _, p := range queue.AllPriorities() {
		queues[queueName(o.Alias, p)] = 1
	}
	return asynq.NewServerFromRedisClient(client, asynq.Config{
		Concurrency:              o.Concurrency + o.Interactive,
		Queues:                   queues,
		TaskCheckInterval:        time.Millisecond,
		DelayedTaskCheckInterval: retryInterval,
		RetryDelayFunc:           func(n int, err error, _ *asynq.Task) time.Duration { return retryDelay(n, err) },
		IsFailure:                isFailure,
		Logger:                   asynqLog{o.Logger, s.member.outage},
		LogLevel:                 asynq.InfoLevel,
	})
}

// isFailure reports whether asynq counts an error as a failure of the job. Errors whose cause is the worker, not the job, do not count.
func isFailure(err error) bool {
	return !errors.Is(err, asynq.ErrLeaseExpired) && !errors.Is(err, queue.ErrDeliveryEnded) && !errors.Is(err, queue.ErrHandedBack) &&
		!errors.Is(err, queue.ErrOtherModel) && !errors.Is(err, context.Canceled)
}

// retryDelay returns the time that a job waits before its next attempt. n is the number of earlier failures.
func retryDelay(n int, err error) time.Duration {
	if errors.Is(err, queue.ErrOtherModel) {
		return queue.RefusalDelay
	}
	if !isFailure(err) {
		return 0
	}
	return queue.RetryDelay(n)
}

package redisqueue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/hibiken/asynq"

	"github.com/ingot-run/ingot/job"
)

// Serve implements job.Queue.
func (q *Queue) Serve(ctx context.Context, o job.ServeOptions, handle job.Handler) error {
	queues := map[string]int{}
	for p, weight := range job.Priorities() {
		queues[queueName(o.Alias, p)] = weight
	}
	deliveries, abandon := context.WithCancel(context.WithoutCancel(ctx))
	defer abandon()
	s := &server{queue: q, handle: handle, log: o.Logger}
	member, err := q.join(ctx, o)
	if err != nil {
		return failure(err, "serve the queue")
	}
	s.member = member
	servers := []*asynq.Server{s.takes(deliveries, o, queues, o.Concurrency, o.PollInterval)}
	if o.Interactive > 0 {
		interactive := map[string]int{queueName(o.Alias, job.Interactive): 1}
		servers = append(servers, s.takes(deliveries, o, interactive, o.Interactive, min(o.PollInterval, interactivePoll)))
	}
	for i, server := range servers {
		if err := server.Start(asynq.HandlerFunc(s.process)); err != nil {
			shutDown(servers[:i])
			return errors.Join(fmt.Errorf("serve the queue: %w", err), member.leave(ctx))
		}
	}
	var searches, beats sync.WaitGroup
	searches.Go(func() { q.requeueArchivedUntil(ctx, o, member.outage) })
	searches.Go(func() { newReaper(q, member, o.Alias, o.Logger).run(ctx) })
	beating, stopBeating := context.WithCancel(context.WithoutCancel(ctx)) // beats continue until the last row has returned to the queue
	beats.Go(func() { member.run(beating) })
	<-ctx.Done()
	ended := make(chan error, 1)
	go func() {
		searches.Wait()
		shutDown(servers)
		abandon()
		s.running.Lock() // never unlocked, so that a handler that begins now returns at once
		err := s.returnToHead(context.WithoutCancel(ctx))
		stopBeating()
		beats.Wait()
		ended <- errors.Join(err, member.leave(context.WithoutCancel(ctx)))
	}()
	for wait := o.ShutdownTimeout + q.Leases.Stop; ; wait = q.Leases.Stop / 4 {
		select {
		case err := <-ended:
			return err
		case <-time.After(wait):
			if time.Since(q.answers.any.time()) >= q.Leases.Stop {
				stopBeating()
				q.abandoned.Store(true)
				return fmt.Errorf("return the running rows to the queue: redis does not answer; other workers get the rows when it does: %w", job.ErrUnavailable)
			}
		}
	}
}

// server is a running Serve.
type server struct {
	queue  *Queue
	member *member
	handle job.Handler
	log    *slog.Logger
	// Each handler holds a read lock of running. Serve uses it to wait for all handlers, since asynq does not.
	running sync.RWMutex

	// recorded holds the keys of tasks that Record has removed and for which asynq has not sent its last script.
	recorded sync.Map

	mu         sync.Mutex
	handedBack []task
}

// interactivePoll is the time between checks of the queue of Interactive jobs while it is empty.
const interactivePoll = 20 * time.Millisecond

// takes returns an asynq server that takes tasks of the given queues. It polls them at the interval poll while they are empty.
func (s *server) takes(deliveries context.Context, o job.ServeOptions, queues map[string]int, concurrency int, poll time.Duration) *asynq.Server {
	client := &asynqClient{UniversalClient: s.queue.rdb, server: s, queues: queues, strict: o.Strict}
	return asynq.NewServerFromRedisClient(client, asynq.Config{
		Concurrency:              concurrency,
		BaseContext:              func() context.Context { return deliveries },
		Queues:                   queues,
		StrictPriority:           o.Strict,
		TaskCheckInterval:        poll,
		DelayedTaskCheckInterval: time.Second,
		ShutdownTimeout:          o.ShutdownTimeout,
		RetryDelayFunc:           retryDelay,
		IsFailure:                isFailure,
		Logger:                   asynqLog{o.Logger, s.member.outage},
		LogLevel:                 asynq.InfoLevel,
	})
}

// shutDown stops all servers at the same time. Each server waits for its handlers.
func shutDown(servers []*asynq.Server) {
	var stopping sync.WaitGroup
	for _, server := range servers {
		stopping.Go(server.Shutdown)
	}
	stopping.Wait()
}

// task is an asynq task of a row.
type task struct {
	queue string
	delivery
}

// process handles an asynq task.
func (s *server) process(ctx context.Context, t *asynq.Task) (err error) {
	if !s.running.TryRLock() {
		return job.ErrHandedBack
	}
	defer s.running.RUnlock()
	j, err := job.Decode(t.Payload())
	if err != nil {
		s.log.Error("archived a task that is not a job of ingot", "error", err)
		return fmt.Errorf("%w: %w", err, asynq.SkipRetry)
	}
	queue, _ := asynq.GetQueueName(ctx)
	id, _ := asynq.GetTaskID(ctx)
	d, ok := parseDelivery(id)
	if !ok || d.batch != j.Batch || d.line != j.Line {
		s.log.Error("archived a task whose id is not that of its row", "task", id, "batch", j.Batch, "line", j.Line)
		return fmt.Errorf("task %q is not line %d of batch %s: %w", id, j.Line, j.Batch, asynq.SkipRetry)
	}
	owned, release := s.member.hold(ctx, task{queue, d}, func() { s.recorded.Store(taskKey(queue, d), nil) })
	defer func() { release(err) }()
	if j.Delivery = d.number; d.number > 0 {
		if j.Deaths, err = s.queue.deaths(ctx, d); err != nil {
			return err
		}
	}
	err = s.handle(owned, j)
	switch {
	case errors.Is(err, job.ErrSuperseded):
		return s.queue.supersede(context.WithoutCancel(ctx), queue, d)
	case errors.Is(err, job.ErrHandedBack):
		s.mu.Lock()
		defer s.mu.Unlock()
		s.handedBack = append(s.handedBack, task{queue, d})
	}
	return err
}

// returnToHead moves the tasks that handlers have handed back to the heads of their queues. asynq does this only for handlers that are
// still running at the end of its shutdown; it schedules the other tasks for a retry, which would put them at the ends.
func (s *server) returnToHead(ctx context.Context) error {
	for _, t := range s.handedBack {
		keys := []string{asynqKey(t.queue, "retry"), pendingKey(t.queue), taskKey(t.queue, t.delivery)}
		err := headScript.Run(ctx, s.queue.rdb, keys, t.id()).Err()
		if err != nil {
			return failure(err, "return a job to queue %s", t.queue)
		}
	}
	return nil
}

// isFailure reports whether asynq counts an error as a failure of the job. Errors whose cause is the worker, not the job, do not count.
func isFailure(err error) bool {
	return !errors.Is(err, asynq.ErrLeaseExpired) && !errors.Is(err, job.ErrDeliveryEnded) && !errors.Is(err, job.ErrHandedBack) &&
		!errors.Is(err, job.ErrOtherModel) && !errors.Is(err, context.Canceled)
}

// retryDelay returns the time that a job waits before its next attempt. n is the number of earlier failures.
func retryDelay(n int, err error, _ *asynq.Task) time.Duration {
	if errors.Is(err, job.ErrOtherModel) {
		return job.RefusalDelay
	}
	if !isFailure(err) {
		return 0
	}
	return job.RetryDelay(n)
}

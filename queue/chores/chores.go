// Package chores does the work of a fleet that is scheduled, done once, retried, and seen by
// operators with asynq's tools. Each member of the fleet that has chores runs one asynq server and
// one asynq scheduler, on connections of their own. They serve a queue of chores, never a queue of
// rows.
//
// If a member dies, asynq gives its tasks to another one: asynq's lease lasts 30 s, and each member
// looks once a minute for leases that ended 30 s ago. So a task continues after one to two minutes.
package chores

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// Task is a chore. The queue has its kind as type.
type Task struct {
	Kind     string
	Payload  string
	Unique   bool          // it is not queued while the queue has a task of this kind with this payload
	Attempts int           // the maximum number of attempts; 0 means 1. A task whose last attempt fails is archived
	Timeout  time.Duration // of one attempt; 0 means none
}

// noTimeout is the timeout of tasks without one. asynq would otherwise use half an hour.
const noTimeout = 365 * 24 * time.Hour

func (t Task) asynq() *asynq.Task { return asynq.NewTask(t.Kind, []byte(t.Payload)) }

func (t Task) options(queue string) []asynq.Option {
	if t.Timeout == 0 {
		t.Timeout = noTimeout
	}
	list := []asynq.Option{asynq.Queue(queue), asynq.MaxRetry(max(1, t.Attempts) - 1 + spareRetries), asynq.Timeout(t.Timeout)}
	if t.Unique {
		list = append(list, asynq.TaskID(t.Kind+":"+t.Payload))
	}
	return list
}

// spareRetries is how many more retries asynq is told of than a task has. In the last retry that it
// knows, asynq archives a task for any error, also for that of Later. So process archives the task
// when its last attempt fails, and the spare retry is never used.
const spareRetries = 1

// Periodic is a task that is queued at each time of a cron expression. Each member with the
// expression queues it.
type Periodic struct {
	Cron string
	Task Task
}

// Handler does the tasks of one kind.
type Handler struct {
	// Do does a task. attempt counts from 1; it is above Task.Attempts if a member died in the last
	// one. ctx ends with the timeout, when asynq's lease of the task is lost, and when the member
	// stops. An error means another attempt. An error of a stopping member does not count as an
	// attempt.
	Do func(ctx context.Context, payload string, attempt int) error
	// Wait returns the time between a failed attempt and the next one. nil means none.
	Wait func(attempt int) time.Duration
}

// Options are the settings of Chores.
type Options struct {
	Queue       string
	Handlers    map[string]Handler // by the kind of tasks
	Concurrency int                // tasks that run at the same time in this member
	Logger      *slog.Logger

	// Periodic returns the periodic tasks. It is called once in each Interval, so they may change.
	Periodic func() []Periodic
	Interval time.Duration // at most a second passes between two looks for tasks; less if Interval is less
}

// Chores is a member's part in the chores of a fleet.
type Chores struct {
	Options

	rdb *redis.Client
}

// New returns a member on the Redis server of a client.
func New(rdb redis.UniversalClient, o Options) (*Chores, error) {
	client, ok := rdb.(*redis.Client)
	if !ok {
		return nil, errors.New("run chores: they need one Redis server, not a cluster")
	}
	return &Chores{Options: o, rdb: client}, nil
}

// Enqueue queues a task. It does nothing if the task is unique and queued already.
func Enqueue(ctx context.Context, rdb redis.UniversalClient, queue string, t Task) error {
	_, err := asynq.NewClientFromRedisClient(rdb).EnqueueContext(ctx, t.asynq(), t.options(queue)...)
	if err != nil && !errors.Is(err, asynq.ErrTaskIDConflict) {
		return fmt.Errorf("queue a chore: %w", err)
	}
	return nil
}

// Run does chores until ctx ends. It then interrupts the handlers, and other members continue their
// tasks.
func (c *Chores) Run(ctx context.Context) error {
	log := logger{c.Logger}
	server := asynq.NewServer(ownConnections{c.rdb}, asynq.Config{
		Concurrency: c.Concurrency, Queues: map[string]int{c.Queue: 1}, Logger: log,
		TaskCheckInterval: min(time.Second, c.Interval), DelayedTaskCheckInterval: min(5*time.Second, c.Interval),
		RetryDelayFunc: c.wait, IsFailure: func(err error) bool { return !errors.As(err, new(later)) }, ErrorHandler: asynq.ErrorHandlerFunc(c.report),
	})
	manager, err := asynq.NewPeriodicTaskManager(asynq.PeriodicTaskManagerOpts{
		RedisConnOpt: ownConnections{c.rdb}, PeriodicTaskConfigProvider: c, SyncInterval: c.Interval,
		SchedulerOpts: &asynq.SchedulerOpts{Logger: log, HeartbeatInterval: c.Interval},
	})
	if err == nil {
		err = manager.Start()
	}
	if err != nil {
		return fmt.Errorf("run chores: %w", err)
	}
	defer manager.Shutdown()
	do := func(task context.Context, t *asynq.Task) error { return c.process(task, ctx, t) }
	if err := server.Start(asynq.HandlerFunc(do)); err != nil {
		return fmt.Errorf("run chores: %w", err)
	}
	defer server.Shutdown()
	<-ctx.Done()
	return nil
}

// GetConfigs implements asynq.PeriodicTaskConfigProvider.
func (c *Chores) GetConfigs() ([]*asynq.PeriodicTaskConfig, error) {
	var configs []*asynq.PeriodicTaskConfig
	for _, p := range c.Periodic() {
		configs = append(configs, &asynq.PeriodicTaskConfig{Cronspec: p.Cron, Task: p.Task.asynq(), Opts: p.Task.options(c.Queue)})
	}
	return configs, nil
}

// later is the error of a task that goes back to the queue without a counted attempt.
type later struct{ wait time.Duration }

func (l later) Error() string { return fmt.Sprintf("return to the queue for %v", l.wait) }

// Later returns an error with which a handler gives its task back: a member gets it after the wait,
// and this attempt does not count.
func Later(wait time.Duration) error { return later{wait} }

// final is the error of a last attempt: asynq archives the task.
type final struct{ error }

func (f final) Is(target error) bool { return target == asynq.SkipRetry }
func (f final) Unwrap() error        { return f.error }

// process does a task. running is done when the member stops; the task then goes back to the queue.
func (c *Chores) process(ctx, running context.Context, t *asynq.Task) error {
	h, ok := c.Handlers[t.Type()]
	switch {
	case running.Err() != nil:
		return Later(0)
	case !ok:
		return Later(c.Interval) // for a member of another version
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	release := context.AfterFunc(running, cancel)
	defer release()
	retried, _ := asynq.GetRetryCount(ctx) // asynq's server sets both
	retries, _ := asynq.GetMaxRetry(ctx)
	err := h.Do(ctx, string(t.Payload()), retried+1)
	switch {
	case err != nil && running.Err() != nil:
		return Later(0)
	case err != nil && retried >= retries-spareRetries && !errors.As(err, new(later)):
		return final{err}
	}
	return err
}

// wait implements asynq.RetryDelayFunc. retried is the number of counted attempts before this one.
func (c *Chores) wait(retried int, err error, t *asynq.Task) time.Duration {
	var l later
	h := c.Handlers[t.Type()]
	switch {
	case errors.As(err, &l):
		return l.wait
	case errors.Is(err, asynq.ErrLeaseExpired) || h.Wait == nil:
		return 0
	}
	return h.Wait(retried + 1)
}

// report logs a failed attempt. Handlers log what is to be known of other errors.
func (c *Chores) report(ctx context.Context, t *asynq.Task, err error) {
	level := slog.LevelDebug
	if asynq.IsPanicError(err) {
		level = slog.LevelError
	}
	c.Logger.Log(ctx, level, "a chore failed", "kind", t.Type(), "payload", string(t.Payload()), "error", err)
}

// ownConnections makes asynq's connections, which asynq closes, to the server of another client.
type ownConnections struct{ other *redis.Client }

// MakeRedisClient implements asynq.RedisConnOpt.
func (o ownConnections) MakeRedisClient() any {
	options := *o.other.Options()
	options.PushNotificationProcessor, options.MaintNotificationsConfig = nil, nil // they are the other client's
	return redis.NewClient(&options)
}

// logger passes asynq's messages on. Most of them are about what asynq mends itself.
type logger struct{ log *slog.Logger }

func (l logger) Debug(args ...any) { l.log.Debug(fmt.Sprint(args...), "from", "asynq") }
func (l logger) Info(args ...any)  { l.log.Debug(fmt.Sprint(args...), "from", "asynq") }
func (l logger) Warn(args ...any)  { l.log.Debug(fmt.Sprint(args...), "from", "asynq") }
func (l logger) Error(args ...any) { l.log.Warn(fmt.Sprint(args...), "from", "asynq") }
func (l logger) Fatal(args ...any) { l.log.Error(fmt.Sprint(args...), "from", "asynq") }

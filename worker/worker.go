// Package worker is the consumer's side: it takes jobs from the queue, hands them to the engine, writes results back, and
// tells how it is doing.
package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/generation"
	"github.com/ingot-run/ingot/job"
)

// The defaults of Config.
const (
	DefaultShutdownTimeout = 30 * time.Second
	DefaultPollInterval    = 250 * time.Millisecond
)

// recordPatience is how long a worker waits for Redis to come back before it gives a result up to a later attempt. asynq's
// lease on the job is over after the same time.
const recordPatience = 30 * time.Second

// Config says what a worker serves and how. Zero values take the defaults named.
type Config struct {
	Alias           string        // model alias whose queues are served; job.DefaultAlias
	Name            string        // of the worker, in results; HOST:PID
	Version         string        // of the program, in results
	Concurrency     int           // jobs that the engine may hold at once, at least 1
	Strict          bool          // serve a queue only while those of higher priority are empty; else 6 to 3 to 1
	ShutdownTimeout time.Duration // for running jobs to finish when Run is to stop; DefaultShutdownTimeout
	PollInterval    time.Duration // between looks at queues that were empty; DefaultPollInterval
	Logger          *slog.Logger  // slog.Default()
}

// Worker serves the queues of one model alias.
type Worker struct {
	config  Config
	rdb     redis.UniversalClient
	store   *job.Store
	origin  job.Origin // without the model's hash
	log     *slog.Logger
	metrics *metrics
	pulse   pulse

	// The engine's.
	generate func(context.Context, generation.Request) (generation.Completion, error)
	sha256   func(context.Context) (string, error)
	snapshot func() engine.Snapshot

	stopping atomic.Bool // a job that is cancelled is one handed back
	// running is held for reading by handlers, some of which asynq does not wait for, and for good once Run ends.
	running sync.RWMutex
}

// New makes a worker on an engine, which stays the caller's to close after Run has returned.
func New(eng *engine.Engine, rdb redis.UniversalClient, c Config) (*Worker, error) {
	if c.Alias == "" {
		c.Alias = job.DefaultAlias
	}
	if c.Name == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "unknown"
		}
		c.Name = fmt.Sprintf("%s:%d", host, os.Getpid())
	}
	if c.ShutdownTimeout == 0 {
		c.ShutdownTimeout = DefaultShutdownTimeout
	}
	if c.PollInterval == 0 {
		c.PollInterval = DefaultPollInterval
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Concurrency < 1 {
		return nil, fmt.Errorf("worker: concurrency is %d: it must be at least 1", c.Concurrency)
	}
	if err := job.CheckAlias(c.Alias); err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	info := eng.Info()
	return &Worker{
		config: c,
		rdb:    rdb,
		store:  job.NewStore(rdb),
		origin: job.Origin{
			Worker: c.Name, Backend: info.Backend, Device: info.Device, Model: info.Model, Version: c.Version,
		},
		log:      c.Logger,
		metrics:  newMetrics(eng.Snapshot),
		generate: eng.Generate,
		sha256:   eng.SHA256,
		snapshot: eng.Snapshot,
	}, nil
}

// Run takes and answers jobs until ctx is done. It then takes no more, lets running jobs finish for ShutdownTimeout, puts
// the rest back at the head of the queue, and returns nil. It returns an error where it cannot start.
func (w *Worker) Run(ctx context.Context) error {
	if err := w.rdb.Ping(ctx).Err(); err != nil {
		if ctx.Err() != nil { // told to stop before it began
			return nil
		}
		return fmt.Errorf("start worker: reach redis: %w", err)
	}
	queues := map[string]int{}
	for p, weight := range job.Priorities() {
		queues[job.Queue(w.config.Alias, p)] = weight
	}
	jobs, abandon := context.WithCancel(context.WithoutCancel(ctx))
	defer abandon()
	server := asynq.NewServerFromRedisClient(w.rdb, asynq.Config{
		Concurrency:              w.config.Concurrency,
		BaseContext:              func() context.Context { return jobs },
		Queues:                   queues,
		StrictPriority:           w.config.Strict,
		TaskCheckInterval:        w.config.PollInterval,
		DelayedTaskCheckInterval: time.Second,
		ShutdownTimeout:          w.config.ShutdownTimeout,
		RetryDelayFunc:           retryDelay,
		IsFailure:                isFailure,
		Logger:                   queueLog{w.log},
		LogLevel:                 asynq.InfoLevel,
	})
	if err := server.Start(asynq.HandlerFunc(w.handle)); err != nil {
		return fmt.Errorf("start worker: %w", err)
	}
	w.log.Info("serving", "model", w.origin.Model, "alias", w.config.Alias, "worker", w.config.Name,
		"backend", w.origin.Backend, "concurrency", w.config.Concurrency)
	<-ctx.Done()
	w.log.Info("stopping: no more jobs are taken", "timeout", w.config.ShutdownTimeout)
	w.stopping.Store(true)
	server.Shutdown()
	abandon()
	w.running.Lock() // for good: a handler that only begins now leaves at once
	w.log.Info("stopped")
	return nil
}

// Errors by which the queue is told how a job ended that was not recorded.
var (
	errHandedBack = errors.New("worker is stopping: job handed back")
	errLeaseLost  = errors.New("lease is lost: another worker has the job")
)

// isFailure tells asynq what to count as a failure of a job: not what befell its worker.
func isFailure(err error) bool {
	return !errors.Is(err, asynq.ErrLeaseExpired) && !errors.Is(err, errLeaseLost) && !errors.Is(err, errHandedBack) &&
		!errors.Is(err, context.Canceled)
}

// retryDelay is how long a job waits before it is tried again; n is the number of failures before this one.
func retryDelay(n int, err error, _ *asynq.Task) time.Duration {
	if !isFailure(err) {
		return 0
	}
	return min(time.Minute, time.Second<<min(n, 6))
}

// queueLog passes asynq's log on. What it tells of its own state is for debugging, what it warns of is routine: retries and
// jobs handed back, which the worker tells itself.
type queueLog struct{ log *slog.Logger }

func (q queueLog) Debug(args ...any) { q.log.Debug(fmt.Sprint(args...), "from", "queue") }
func (q queueLog) Info(args ...any)  { q.log.Debug(fmt.Sprint(args...), "from", "queue") }
func (q queueLog) Warn(args ...any)  { q.log.Debug(fmt.Sprint(args...), "from", "queue") }
func (q queueLog) Error(args ...any) { q.log.Error(fmt.Sprint(args...), "from", "queue") }

// Fatal is never called by asynq's server.
func (q queueLog) Fatal(args ...any) { q.Error(args...) }

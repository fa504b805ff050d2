// Package worker is the consumer: it takes jobs from the queue, passes them to the engine, records results, and serves metrics
// and health.
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

// maxRecordWait is how long a worker waits for Redis when it records a result. After the same time asynq's lease on the job is
// over, and another worker gets it.
const maxRecordWait = 30 * time.Second

// Config are the settings of a worker. Zero values mean the defaults named.
type Config struct {
	Alias           string        // model alias whose queues are served; job.DefaultAlias
	Name            string        // of the worker, in results; HOST:PID
	Version         string        // of the program, in results
	Concurrency     int           // maximum jobs in the engine at once, at least 1
	Strict          bool          // serve a queue only while those of higher priority are empty; otherwise in the ratio 6 to 3 to 1
	ShutdownTimeout time.Duration // time for running jobs to finish when Run stops; DefaultShutdownTimeout
	PollInterval    time.Duration // time between checks of empty queues; DefaultPollInterval
	Logger          *slog.Logger  // slog.Default()
}

// Worker serves the queues of one model alias.
type Worker struct {
	config  Config
	rdb     redis.UniversalClient
	store   *job.Store
	origin  job.Origin // without ModelSHA256
	log     *slog.Logger
	metrics *metrics
	engine  watchdog
	results *resultRoom

	// Methods of the engine.
	generate func(context.Context, generation.Request) (generation.Completion, error)
	sha256   func(context.Context) (string, error)
	snapshot func() engine.Snapshot

	failed   chan error  // holds the error by which the engine ended itself
	stopping atomic.Bool // Run stops: a job whose context ends goes back to the queue
	// running is read-locked by handlers, some of which asynq does not wait for. At its end, Run locks it and keeps it locked.
	running sync.RWMutex
}

// New makes a worker on an engine. The caller closes the engine after Run has returned.
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
		return nil, fmt.Errorf("start worker: concurrency is %d: it must be at least 1", c.Concurrency)
	}
	if err := job.CheckAlias(c.Alias); err != nil {
		return nil, fmt.Errorf("start worker: %w", err)
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
		failed:   make(chan error, 1),
		metrics:  newMetrics(eng.Snapshot),
		results:  newResultRoom(info.Fit.Rows),
		generate: eng.Generate,
		sha256:   eng.SHA256,
		snapshot: eng.Snapshot,
	}, nil
}

// Run takes and answers jobs until ctx is done. It then takes no more jobs, lets running ones finish for ShutdownTimeout,
// returns the rest to the head of their queues, and returns nil. It does the same and returns an error if the engine ends itself.
// Any other error means that it could not start.
func (w *Worker) Run(ctx context.Context) error {
	if err := w.rdb.Ping(ctx).Err(); err != nil {
		if ctx.Err() != nil { // stopped before it began
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
	reaping, stopReaping := context.WithCancel(ctx)
	var reaper sync.WaitGroup
	reaper.Go(func() { w.reap(reaping) })
	var failure error
	select {
	case <-ctx.Done():
	case failure = <-w.failed:
		w.log.Error("the engine ended itself", "error", failure)
	}
	w.log.Info("stopping: no more jobs are taken", "timeout", w.config.ShutdownTimeout)
	w.stopping.Store(true)
	stopReaping()
	reaper.Wait()
	server.Shutdown()
	abandon()
	w.running.Lock() // and keep it locked: a handler that begins now returns at once
	w.log.Info("stopped")
	return failure
}

// stop makes Run stop with an error.
func (w *Worker) stop(err error) {
	select {
	case w.failed <- err:
	default: // it stops already
	}
}

// Errors that handlers return to asynq for jobs that were not recorded.
var (
	errHandedBack = errors.New("worker is stopping: job returned to the queue")
	errLeaseLost  = errors.New("lease is lost: another worker has the job")
)

// isFailure reports whether asynq counts an error as a failure of the job. Events of its worker are not.
func isFailure(err error) bool {
	return !errors.Is(err, asynq.ErrLeaseExpired) && !errors.Is(err, errLeaseLost) && !errors.Is(err, errHandedBack) &&
		!errors.Is(err, context.Canceled)
}

// retryDelay is how long a job waits before its next attempt; n is the number of earlier failures.
func retryDelay(n int, err error, _ *asynq.Task) time.Duration {
	if !isFailure(err) {
		return 0
	}
	return min(time.Minute, time.Second<<min(n, 6))
}

// queueLog passes asynq's log on. Its state is interesting only for debugging. Its warnings are routine: retries and returned
// jobs, which the worker logs itself.
type queueLog struct{ log *slog.Logger }

func (q queueLog) Debug(args ...any) { q.log.Debug(fmt.Sprint(args...), "from", "queue") }
func (q queueLog) Info(args ...any)  { q.log.Debug(fmt.Sprint(args...), "from", "queue") }
func (q queueLog) Warn(args ...any)  { q.log.Debug(fmt.Sprint(args...), "from", "queue") }
func (q queueLog) Error(args ...any) { q.log.Error(fmt.Sprint(args...), "from", "queue") }

// Fatal is never called by asynq's server.
func (q queueLog) Fatal(args ...any) { q.Error(args...) }

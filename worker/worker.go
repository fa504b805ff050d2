// Package worker takes jobs from the queue, passes them to the engine and records the results. It also serves metrics and health
// checks.
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

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/queue"
)

// The defaults of Config.
const (
	DefaultShutdownTimeout = 20 * time.Second
	DefaultPollInterval    = 250 * time.Millisecond
	DefaultInteractive     = 64 // maximum number of jobs with a waiting client that a worker runs at once
)

// maxRecordWait is the maximum time for which a worker retries to record a result. It is the duration of asynq's lease on the job, after
// which another worker gets the job.
const maxRecordWait = 30 * time.Second

// stopPatience is how long Run waits for its goroutines after Serve has returned. They can hang if the queue does not answer.
const stopPatience = 2 * time.Second

// Config has the settings of a worker. A zero value stands for the default that the field's comment names.
type Config struct {
	Alias           string        // model alias whose queues are served; default queue.DefaultAlias
	Name            string        // name of the worker in results; default HOST:PID
	Version         string        // version of the program in results
	Concurrency     int           // maximum number of jobs that the engine computes at once, at least 1
	Ahead           int           // maximum number of further jobs that the worker takes: they wait in the engine and start when a job ends
	Interactive     int           // maximum additional jobs with a waiting client; 0 to take none
	Strict          bool          // serve a queue only while the queues of higher priority are empty; false: in the ratio 6 to 3 to 1
	ShutdownTimeout time.Duration // time for running jobs to finish when Run stops; default DefaultShutdownTimeout
	PollInterval    time.Duration // time between checks of empty queues; default DefaultPollInterval
	Logger          *slog.Logger  // default slog.Default()
}

// Worker serves the queues of one model alias.
type Worker struct {
	config   Config
	queue    queue.Queue
	origin   queue.Origin // without ModelSHA256
	context  int          // maximum tokens of prompt and answer
	log      *slog.Logger
	metrics  *metrics
	registry *prometheus.Registry
	engine   watchdog
	results  *resultRoom
	pulse    *pulse

	// Methods of the engine.
	generate func(context.Context, generation.Request) (generation.Completion, error)
	sha256   func(context.Context) (string, error)
	snapshot func() engine.Snapshot

	admission *admission
	tracked   tracked                // deliveries that are running
	hash      atomic.Pointer[string] // SHA-256 of the model file in hex; nil until the file is hashed
	speed     queue.Speed

	checkpointInterval time.Duration

	refusals     refusals
	refusalPause time.Duration

	failed   chan error      // holds the error with which the engine stopped
	stopping atomic.Bool     // set while Run stops: a job whose context ends then returns to the queue
	waiting  context.Context // ends when the shutdown timeout is over: recording a result is then not retried

	readyPatience, alivePatience, stopPatience time.Duration
}

// Engine has the methods of an engine that a worker needs.
type Engine interface {
	Info() engine.Info
	Generate(context.Context, generation.Request) (generation.Completion, error)
	SHA256(context.Context) (string, error)
	Snapshot() engine.Snapshot
}

// name returns the name of the worker: Name or, if it is empty, HOST:PID.
func (c *Config) name() string {
	if c.Name != "" {
		return c.Name
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s:%d", host, os.Getpid())
}

// New returns a worker that answers jobs with an engine. The caller closes the engine after Run has returned.
func New(eng Engine, queue queue.Queue, c Config) (*Worker, error) {
	r := newRegistry()
	return newWorker(eng, queue, c, r, r, newAdmission())
}

// newWorker is New with metrics and admission given. The parameter to is the Registerer of the worker's metrics. Handler serves the metrics
// in registry. rows is the admission, which workers of one process may share.
func newWorker(eng Engine, q queue.Queue, c Config, registry *prometheus.Registry, to prometheus.Registerer, rows *admission) (*Worker, error) {
	if c.Alias == "" {
		c.Alias = queue.DefaultAlias
	}
	c.Name = c.name()
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
	if err := queue.CheckAlias(c.Alias); err != nil {
		return nil, fmt.Errorf("start worker: %w", err)
	}
	info := eng.Info()
	return &Worker{
		config: c,
		queue:  q,
		origin: queue.Origin{
			Worker: c.Name, Backend: info.Backend, Device: info.Device, Model: info.Model, Version: c.Version,
		},
		context:  info.Context,
		log:      c.Logger,
		failed:   make(chan error, 1),
		waiting:  context.Background(),
		registry: registry,
		metrics:  newMetrics(to, eng.Snapshot),
		results:  newResultRoom(info.Fit.Rows),
		generate: eng.Generate,
		sha256:   eng.SHA256,
		snapshot: eng.Snapshot,
		pulse:    newPulse(c.Concurrency+c.Interactive, time.Now()),

		readyPatience: readyPatience,
		alivePatience: alivePatience,
		stopPatience:  stopPatience,

		admission:          rows,
		checkpointInterval: defaultCheckpointInterval,
		refusalPause:       refusalPause,
	}, nil
}

// Run takes and answers jobs until ctx is done. It then takes no more jobs. Running jobs have ShutdownTimeout to finish; after that,
// unfinished jobs return to the head of their queues, and Run returns nil. If the engine fails, Run stops in the same way and returns
// the engine's error. Any other error means that Run could not start, or that the queue could not be reached while Run stopped.
func (w *Worker) Run(ctx context.Context) error {
	if err := w.queue.Ping(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("start worker: %w", err)
	}
	w.log.Info("serving", "model", w.origin.Model, "alias", w.config.Alias, "worker", w.config.Name,
		"backend", w.origin.Backend, "concurrency", w.config.Concurrency)
	serving, drain := context.WithCancel(context.WithoutCancel(ctx))
	var failure error
	var background sync.WaitGroup
	background.Go(func() {
		select {
		case <-serving.Done(): // Serve could not start
			return
		case <-ctx.Done():
		case failure = <-w.failed:
			w.log.Error("the engine has failed and stopped", "error", failure)
		}
		w.log.Info("stopping: no more jobs are taken", "timeout", w.config.ShutdownTimeout)
		w.stopping.Store(true)
		w.admission.close()
		drain()
	})
	waiting, stopWaiting := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWaiting()
	w.waiting = waiting
	background.Go(func() {
		<-serving.Done()
		select {
		case <-waiting.Done():
		case <-time.After(w.config.ShutdownTimeout):
			stopWaiting()
		}
	})
	background.Go(func() { w.watchBatches(serving) })
	background.Go(func() { w.learnHash(serving) })
	checkpoints, stopCheckpoints := context.WithCancel(context.WithoutCancel(ctx)) // checkpoints continue while running jobs finish
	background.Go(func() { w.saveCheckpoints(checkpoints) })
	err := w.queue.Serve(serving, queue.ServeOptions{
		Alias:           w.config.Alias,
		Concurrency:     w.config.Concurrency + w.config.Ahead,
		Ahead:           w.config.Ahead,
		Interactive:     w.config.Interactive,
		Strict:          w.config.Strict,
		ShutdownTimeout: w.config.ShutdownTimeout,
		PollInterval:    w.config.PollInterval,
		Logger:          w.log,
		Admit:           w.admit,
		Describe:        w.describe,
	}, w.handle)
	drain()
	stopWaiting()
	stopCheckpoints()
	w.wait(&background)
	w.log.Info("stopped")
	return errors.Join(failure, err)
}

// wait waits until the background goroutines have ended, but no longer than stopPatience: they may wait for a queue that does not answer.
func (w *Worker) wait(background *sync.WaitGroup) {
	ended := make(chan struct{})
	go func() {
		background.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(w.stopPatience):
		w.log.Warn("the queue does not answer: stopping without waiting for it")
	}
}

// stop makes Run stop and return err.
func (w *Worker) stop(err error) {
	select {
	case w.failed <- err:
	default: // Run is already stopping
	}
}

// Package worker takes rows from the queue, passes them to the engine and records the results. It
// also serves metrics and health checks.
package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/queue"
)

// The defaults of Config.
const (
	DefaultShutdownTimeout = 20 * time.Second
	DefaultInteractive     = 64 // maximum number of rows with a waiting client that a worker runs at once
)

// stopTimeout is how long Run waits for its activities after Serve has returned. They can hang if
// the queue does not answer.
const stopTimeout = 2 * time.Second

// Config has the settings of a worker. A zero value stands for the default that the field's comment
// names.
type Config struct {
	Alias           string        // model alias whose queues are served; default queue.DefaultAlias
	Model           string        // name of the model in answers; default Alias or, if that is queue.DefaultAlias, the name of the model's file
	Name            string        // name of the worker in results; default HOST:PID
	Version         string        // version of the program in results
	Concurrency     int           // maximum number of rows that the engine computes at once; 0 for as many as the engine allows, and to prefetch as many
	Prefetch        int           // maximum number of further rows that the worker takes: they wait in the engine and start when a row ends
	Interactive     int           // maximum additional rows with a waiting client; 0 to take none
	ShutdownTimeout time.Duration // time for running rows to finish when Run stops; default DefaultShutdownTimeout
	Logger          *slog.Logger  // default slog.Default()
}

// Worker serves the queues of one model alias.
type Worker struct {
	config   Config
	queue    queue.Queue
	log      *slog.Logger
	fileName string // of the model
	chat     bool   // the model's file has a chat template
	context  int    // maximum tokens of prompt and answer
	speed    queue.Speed

	recommended generation.Recommended // the settings of rows that set no sampling option
	generate    func(context.Context, generation.Request) (generation.Completion, error)
	snapshot    func() engine.Snapshot

	// Limits of the rows that run.
	admission *admission
	results   *resultRoom
	refusals  refusals

	// Health.
	metrics  *metrics
	tally    tally
	pulse    *pulse
	watchdog watchdog

	// Activities beside Serve.
	model       *model
	checkpoints *checkpointer
	batches     *inspector
	drain       *drain

	readyTimeout, aliveTimeout, stopTimeout, maxRecordWait, reportInterval time.Duration
}

// Engine has the methods of an engine that a worker needs.
type Engine interface {
	Info() engine.Info
	Generate(context.Context, generation.Request) (generation.Completion, error)
	SHA256(context.Context) (string, error)
	Snapshot() engine.Snapshot
}

// name returns Name or, if it is empty, DefaultName.
func (c *Config) name() string { return cmp.Or(c.Name, DefaultName()) }

// DefaultName returns HOST:PID, the name of a worker that is given none.
func DefaultName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s:%d", host, os.Getpid())
}

// shownModel returns the name of the model in answers.
func (c *Config) shownModel(info engine.Info) string {
	alias := c.Alias
	if alias == queue.DefaultAlias {
		alias = ""
	}
	return cmp.Or(c.Model, alias, info.FileName())
}

// New returns a worker that answers rows with an engine. The caller closes the engine after Run has
// returned.
func New(eng Engine, queue queue.Queue, c Config) (*Worker, error) {
	return newWorker(eng, queue, c, newRegistry(), newAdmission())
}

// newWorker is New with the registry of the worker's metrics, and with an admission that workers of
// one process may share.
func newWorker(eng Engine, q queue.Queue, c Config, registry prometheus.Registerer, rows *admission) (*Worker, error) {
	c.Alias = cmp.Or(c.Alias, queue.DefaultAlias)
	c.Name = c.name()
	c.ShutdownTimeout = cmp.Or(c.ShutdownTimeout, DefaultShutdownTimeout)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	info := eng.Info()
	if c.Concurrency == 0 {
		c.Concurrency, c.Prefetch = info.MaxSequences, info.MaxSequences
	}
	if c.Concurrency < 1 {
		return nil, fmt.Errorf("start worker: concurrency is %d: it must be at least 1, or 0 for as many rows as the engine allows", c.Concurrency)
	}
	if err := queue.CheckAlias(c.Alias); err != nil {
		return nil, fmt.Errorf("start worker: %w", err)
	}
	model := &model{sha256: eng.SHA256, origin: queue.Origin{
		Alias:  c.shownModel(info),
		Worker: c.Name, Backend: info.Backend, Device: info.Device, Model: info.Model, Version: c.Version,
		Arithmetic: info.Arithmetic, Sampling: info.Recommended.String(), Context: info.Context,
	}}
	return &Worker{
		config: c, queue: q, log: c.Logger, fileName: info.FileName(), chat: info.Chat, context: info.Context,
		recommended: info.Recommended, generate: eng.Generate, snapshot: eng.Snapshot,
		admission: rows, results: newResultRoom(info.Fit.Rows), refusals: refusals{pause: refusalPause},
		metrics: newMetrics(registry, eng.Snapshot), pulse: newPulse(c.Concurrency+c.Interactive, time.Now()),
		model: model, checkpoints: newCheckpointer(model, c.Logger), batches: newInspector(q, c.Alias, eng.Snapshot, c.Logger),
		drain:        newDrain(c.ShutdownTimeout, rows, c.Logger),
		readyTimeout: readyTimeout, aliveTimeout: aliveTimeout, stopTimeout: stopTimeout, maxRecordWait: maxRecordWait, reportInterval: reportInterval,
	}, nil
}

// Run takes and answers rows until ctx is done. It then takes no more rows. Running rows have
// ShutdownTimeout to finish; after that, unfinished rows return to the head of their queues, and
// Run returns nil. If the engine fails, Run stops in the same way and returns the engine's error.
// Any other error means that Run could not start, or that the queue could not be reached while Run
// stopped.
func (w *Worker) Run(ctx context.Context) error {
	if err := w.queue.Ping(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("start worker: %w", err)
	}
	w.log.Info("serving", "model", w.model.origin.Model, "alias", w.config.Alias, "worker", w.config.Name,
		"backend", w.model.origin.Backend, "concurrency", w.config.Concurrency)
	var activities sync.WaitGroup
	background, stop := context.WithCancel(context.Background())
	defer stop()
	for _, run := range []func(context.Context){w.model.run, w.batches.run, w.checkpoints.run, w.report} {
		activities.Go(func() { run(background) })
	}
	serving := w.drain.start(ctx)
	err := w.queue.Serve(serving, w.serveOptions(), w.handle)
	failure := w.drain.shutdown()
	stop()
	w.wait(&activities)
	w.log.Info("stopped")
	return errors.Join(failure, err)
}

func (w *Worker) serveOptions() queue.ServeOptions {
	return queue.ServeOptions{
		Alias:           w.config.Alias,
		Concurrency:     w.config.Concurrency,
		Prefetch:        w.config.Prefetch,
		Interactive:     w.config.Interactive,
		Context:         w.context,
		ShutdownTimeout: w.config.ShutdownTimeout,
		Logger:          w.log,
		Pin:             w.model.pin,
		Admit:           w.admit,
		Refused:         w.refused,
		Describe:        w.describe,
	}
}

// wait waits until the activities have ended, but no longer than stopTimeout: they may wait for a
// queue that does not answer.
func (w *Worker) wait(activities *sync.WaitGroup) {
	ended := make(chan struct{})
	go func() {
		activities.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(w.stopTimeout):
		w.log.Warn("the queue does not answer: stopping without waiting for it")
	}
}

func (w *Worker) describe() queue.Worker {
	o, _ := w.model.known()
	return queue.Worker{
		Name: o.Worker, Model: w.fileName, Chat: w.chat, ModelSHA256: o.ModelSHA256, Arithmetic: o.Arithmetic, Sampling: o.Sampling, Version: o.Version, Backend: o.Backend, Device: o.Device,
		Context:         w.context,
		TokensPerSecond: w.speed.Measure(w.snapshot().GeneratedTokens, time.Now()),
	}
}

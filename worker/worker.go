// Package worker is the consumer's side: it takes jobs from the queue, hands them to the engine, writes results back, and
// tells how it is doing.
package worker

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ingot-run/ingot/engine"
)

// Config says what a worker serves and how.
type Config struct {
	Alias           string        // model alias whose queues are served; job.DefaultAlias where empty
	Name            string        // of the worker in results; host name and process id where empty
	Version         string        // of the program, in results
	Concurrency     int           // jobs that the engine may hold at once, at least 1
	Strict          bool          // serve a queue only while those of higher priority are empty; else 6 to 3 to 1
	ShutdownTimeout time.Duration // for running jobs to finish once Run is told to stop; then they are handed back; 30 s
	Logger          *slog.Logger  // slog.Default where nil
}

// Worker serves the queues of one model alias.
type Worker struct{}

// New makes a worker on an engine, which stays the caller's to close after Run has returned.
func New(eng *engine.Engine, rdb redis.UniversalClient, cfg Config) (*Worker, error) { panic("") }

// Run takes and answers jobs until ctx is done. It then takes no more, lets running jobs finish for ShutdownTimeout, puts
// the rest back at the head of the queue, and returns nil. It returns an error where it cannot start.
func (w *Worker) Run(ctx context.Context) error { panic("") }

// Handler serves /metrics (Prometheus) and /healthz.
func (w *Worker) Handler() http.Handler { panic("") }

// Serve answers HTTP with Handler on addr until ctx is done.
func (w *Worker) Serve(ctx context.Context, addr string) error { panic("") }

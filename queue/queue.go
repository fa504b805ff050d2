// Package queue defines what producers and workers exchange: jobs, deliveries and results, and the
// interface of a queue.
package queue

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// Queue is a Store with jobs that wait for workers. Producers add jobs, workers serve them. Package
// redisqueue implements it in Redis for many machines, package memqueue inside one process. Both
// must pass the tests in queuetest.
type Queue interface {
	Store

	// Add queues jobs for the workers of a model alias. The field Alias of each job must be empty
	// or name this alias. A job is not added if a job with the same batch and line is queued or
	// running, except that Add replaces jobs left over from an earlier batch with the same id.
	// added reports for each job whether it was added. If Add returns an error, some jobs may be
	// queued nevertheless. The error is ErrNoBatch or ErrCancelled if a job's batch takes no jobs.
	Add(ctx context.Context, alias string, p Priority, jobs []*Job) (added []bool, err error)

	// Expire ends the overdue rows of a batch. If the batch's deadline has passed, it records an
	// error for each row that has a job in the queue, including running rows. Otherwise it does
	// nothing. It returns the number of rows that it recorded.
	Expire(ctx context.Context, batch string) (int, error)

	// Serve takes and begins rows of a model alias and calls handle for each, until ctx is done. It
	// then takes no more rows. Running handlers have ShutdownTimeout to finish; after that, Serve
	// ends their contexts and returns their rows to the head of the queue. Serve returns when all
	// handlers have returned. An error means that Serve could not start, or that the queue could
	// not be reached while Serve stopped. In the second case some handlers may still run, but their
	// contexts have ended.
	Serve(ctx context.Context, o ServeOptions, handle Handler) error

	// Announce sends a message to the present listeners of a channel. The message is not stored.
	Announce(ctx context.Context, channel string, message []byte) error

	// Listen calls onMessage for each message that is announced on a channel, until ctx is done. It
	// calls onReady once, when it has begun to listen. onMessage must return at once. Messages are
	// lost while the queue cannot be reached. An error means that Listen could not begin.
	Listen(ctx context.Context, channel string, onReady func(), onMessage func(message []byte)) error

	// Fleet returns the workers that serve the queue, and those lost within the last hour, sorted
	// by name.
	Fleet(ctx context.Context) ([]Worker, error)

	// WatchWorkers looks for workers that have died, until ctx is done. It declares those without
	// heartbeats lost, and returns their rows to the queue. Workers do so too; programs that wait
	// for answers call it since there may be no other worker.
	WatchWorkers(ctx context.Context, log *slog.Logger)

	// Workers returns the number of workers that serve a model alias. A dead worker may be counted
	// for some seconds.
	Workers(ctx context.Context, alias string) (int, error)

	// LastFetch returns the time when the queue last answered a request of Serve for a row, even if
	// there was no row; zero for never. Serve requests jobs at intervals while a handler is free.
	// Ping does not replace this check: a Redis server without free memory answers pings but
	// delivers no jobs.
	LastFetch() time.Time

	// Ping checks that the queue can be reached.
	Ping(ctx context.Context) error
}

// ServeOptions are the settings of a worker's side of a queue. All functions may be nil.
type ServeOptions struct {
	Alias           string
	Concurrency     int           // maximum number of rows that the engine computes at once
	Prefetch        int           // maximum number of further handlers, whose rows wait in the engine; a queue may use fewer if rows take long
	Interactive     int           // maximum number of additional handlers, for Interactive jobs only; 0 to take none
	Context         int           // maximum tokens of prompt and answer; the worker takes rows that were passed on from shorter contexts
	ShutdownTimeout time.Duration // time for handlers to finish when Serve stops
	Logger          *slog.Logger

	// Pin returns the Pin of the worker's model, or "" if it is not known yet. Rows of batches that
	// another model has answered are not begun.
	Pin func() string
	// Admit reserves what a row needs before it begins, such as memory. release ends the
	// reservation; Serve calls it when the handler has returned. Serve calls Admit for many rows at
	// once with wait false. If ok is false then, a handler's goroutine calls it again with wait
	// true. Admit then waits until the row may begin, or returns false when ctx is done or the
	// worker stops: the row returns to the head of its queue. Attempt and Checkpoint of the
	// delivery are not set yet.
	Admit func(ctx context.Context, d *Delivery, wait bool) (release func(), ok bool)
	// Refused is called, in place of the handler, for a row that was taken but not begun. If reason
	// is ErrOtherModel, the row is delivered again RefusalDelay after Refused has returned. The
	// other reasons are ErrRecorded, ErrNoBatch, ErrCancelled, ErrOtherFile and ErrNoRow: the row
	// leaves the queue.
	Refused func(ctx context.Context, d *Delivery, reason error)
	// Describe returns the worker's record for Fleet; the queue sets ID, Aliases, Concurrency,
	// Context, Rows and times. Describe must not block.
	Describe func() Worker
}

// Defaults sets the functions that are nil.
func (o *ServeOptions) Defaults() {
	if o.Pin == nil {
		o.Pin = func() string { return "" }
	}
	if o.Admit == nil {
		o.Admit = func(context.Context, *Delivery, bool) (func(), bool) { return func() {}, true }
	}
	if o.Refused == nil {
		o.Refused = func(context.Context, *Delivery, error) {}
	}
	if o.Describe == nil {
		o.Describe = func() Worker { return Worker{} }
	}
}

// Record returns the record of a worker. id is the worker's id, started the time when Serve was
// called, and rows the number of rows that the worker has now.
func (o *ServeOptions) Record(id string, started time.Time, rows int) Worker {
	w := o.Describe()
	w.ID, w.Started, w.Rows, w.Aliases, w.Concurrency, w.Context = id, started, rows, []string{o.Alias}, o.Concurrency, o.Context
	if w.Loading != "" {
		w.Aliases = []string{}
	}
	return w
}

// ErrRowRunning means that Add cannot replace a job, because a worker still runs the same line of
// an earlier batch with the same id.
var ErrRowRunning = errors.New("a worker still runs a row of an earlier batch with the same id: give another batch id, or try again later")

package job

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// Queue is a Store with jobs that wait for workers. Producers add jobs, workers serve them. Package redisqueue has the queue of a
// fleet, package memqueue the queue inside a process. Both must pass the suite in jobtest.
type Queue interface {
	Store

	// Add queues the jobs of a model alias. A job is not added if a job with the same batch and line is queued or running. Add
	// replaces jobs that an earlier batch with the same id has left, since these will not be answered. added reports for each job
	// whether it was added. If there is an error, some jobs may be queued nevertheless.
	Add(ctx context.Context, alias string, p Priority, jobs []*Job) (added []bool, err error)

	// If the deadline of a batch has passed, Expire records an error for each row of the batch that has a job in the queue. This
	// includes running rows. Expire returns the number of these rows.
	Expire(ctx context.Context, batch string) (int, error)

	// Serve calls handle for each job of a model alias until ctx is done. It then takes no more jobs. Running handlers have
	// ShutdownTimeout to finish; after that, Serve ends their contexts and puts their jobs back at the head of the queue. Serve
	// returns when all handlers have returned. An error means that it could not start, or that the queue could not be used at the end:
	// some handlers may then still run, but their contexts have ended.
	Serve(ctx context.Context, o ServeOptions, handle Handler) error

	// Announce sends a message to the listeners of a channel. Nobody else gets it, and nothing is stored.
	Announce(ctx context.Context, channel string, message []byte) error

	// Listen calls hear for each message that is announced on a channel, until ctx is done, and calls ready once before. Messages
	// can be lost while the queue cannot be reached; hear must return at once. An error means that it could not begin to listen.
	Listen(ctx context.Context, channel string, ready func(), hear func(message []byte)) error

	// Fleet is the workers that serve the queue and those that were lost within the last hour, by name.
	Fleet(ctx context.Context) ([]Worker, error)

	// Workers is the number of workers that serve a model alias. A worker that died may be counted for some more seconds.
	Workers(ctx context.Context, alias string) (int, error)

	// LastFetch is when Serve last asked for a job and got an answer, with or without one; zero for never. Serve asks at intervals
	// while it has room for a job. That a server can be reached does not mean that it hands out jobs: it cannot without memory.
	LastFetch() time.Time

	// Ping checks that the queue can be reached.
	Ping(ctx context.Context) error
}

// ServeOptions are the settings of a worker's side of a queue.
type ServeOptions struct {
	Alias           string
	Concurrency     int           // maximum number of handlers at once
	Interactive     int           // maximum number of handlers of Interactive jobs, besides; 0 to take none
	Strict          bool          // serve a priority only while the higher ones have no jobs; otherwise in the ratio of Priorities
	ShutdownTimeout time.Duration // time for handlers to finish when Serve stops
	PollInterval    time.Duration // time between checks of an empty queue, if the queue has to be checked
	Logger          *slog.Logger
	// Admit, if set, lets Serve begin jobs itself, many at once, before it passes them to the handler. Admit reserves what a job needs,
	// sets its Pin, and returns a function that ends the reservation. ok is false if the handler has to wait and begin the job itself.
	// Admit must not block.
	Admit func(j *Job) (leave func(), ok bool)
	// Describe returns the record of the worker for Fleet, except ID, Aliases, Concurrency, Rows and times. It must not block.
	// nil stands for an empty record.
	Describe func() Worker
}

// Record returns the record of a worker that has the given id and serves since the given time.
func (o *ServeOptions) Record(id string, started time.Time, rows int) Worker {
	var w Worker
	if o.Describe != nil {
		w = o.Describe()
	}
	w.ID, w.Started, w.Rows, w.Aliases, w.Concurrency = id, started, rows, []string{o.Alias}, o.Concurrency
	return w
}

// Handler handles one delivery of a job. Its context ends when the delivery does: the batch was cancelled, the lease was lost, or
// Serve stops. The error decides what happens to the job:
//
//   - nil: it is done and leaves the queue;
//   - ErrHandedBack: it goes to the head of the queue, as if it had not been taken;
//   - ErrDeliveryEnded: it is delivered again without delay, unless that has happened already;
//   - ErrSuperseded: another delivery has taken its place;
//   - ErrOtherModel: it is delivered again after RefusalDelay, which does not count as a failure;
//   - any other error: it is delivered again after RetryDelay.
type Handler func(ctx context.Context, j *Job) error

// ErrRowRunning is an error of Add.
var ErrRowRunning = errors.New("a worker runs the row of an earlier batch with the same id: give another batch id, or try again when it has ended")

// Errors that a Handler returns.
var (
	ErrHandedBack    = errors.New("worker is stopping: job returned to the queue")
	ErrDeliveryEnded = errors.New("delivery has ended: the lease is lost or the batch is cancelled")
)

// RefusalDelay is how long a job waits after a worker refused it, whose model is not that of the batch.
const RefusalDelay = time.Second

// RetryDelay returns the time that a job waits after a failed attempt. n is the number of failed attempts before that one.
func RetryDelay(n int) time.Duration { return min(time.Minute, time.Second<<min(n, 6)) }

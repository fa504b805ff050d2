package queue

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// Queue is a Store with jobs that wait for workers. Producers add jobs, workers serve them. Package redisqueue implements it in Redis
// for many machines, package memqueue inside one process. Both must pass the suite in queuetest.
type Queue interface {
	Store

	// Add queues jobs for the workers of a model alias. The field Alias of each job must be empty or name this alias. A job is not
	// added if a job with the same batch and line is queued or running, except that Add replaces jobs left over from an earlier batch
	// with the same id. added reports for each job whether it was added. If Add returns an error, some jobs may be queued nevertheless.
	Add(ctx context.Context, alias string, p Priority, jobs []*Job) (added []bool, err error)

	// Expire ends the overdue rows of a batch. If the batch's deadline has passed, it records an error for each row that has a job in the
	// queue, including running rows. Otherwise it does nothing. It returns the number of rows that it recorded.
	Expire(ctx context.Context, batch string) (int, error)

	// Serve calls handle for each job of a model alias until ctx is done. It then takes no more jobs. Running handlers have
	// ShutdownTimeout to finish; after that, Serve ends their contexts and returns their jobs to the head of the queue. Serve
	// returns when all handlers have returned. An error means that Serve could not start, or that the queue could not be reached
	// while Serve stopped. In the second case some handlers may still run, but their contexts have ended.
	Serve(ctx context.Context, o ServeOptions, handle Handler) error

	// Announce sends a message to the present listeners of a channel. The message is not stored.
	Announce(ctx context.Context, channel string, message []byte) error

	// Listen calls the function hear for each message that is announced on a channel, until ctx is done. It calls the function ready once,
	// when it has begun to listen. hear must return at once. Messages are lost while the queue cannot be reached. An error means that
	// Listen could not begin.
	Listen(ctx context.Context, channel string, ready func(), hear func(message []byte)) error

	// Fleet returns the workers that serve the queue, and those lost within the last hour, sorted by name.
	Fleet(ctx context.Context) ([]Worker, error)

	// Workers returns the number of workers that serve a model alias. A dead worker may be counted for some seconds.
	Workers(ctx context.Context, alias string) (int, error)

	// LastFetch returns the time when the queue last answered a request of Serve for a job, even if there was no job; zero for
	// never. Serve requests jobs at intervals while a handler is free. Ping does not replace this check: a Redis server without free
	// memory answers pings but delivers no jobs.
	LastFetch() time.Time

	// Ping checks that the queue can be reached.
	Ping(ctx context.Context) error
}

// ServeOptions are the settings of a worker's side of a queue.
type ServeOptions struct {
	Alias           string
	Concurrency     int           // maximum number of handlers at once
	Ahead           int           // how many of these handlers have jobs that wait in the engine; a queue may use fewer if jobs take long
	Interactive     int           // maximum number of additional handlers, for Interactive jobs only; 0 to take none
	Strict          bool          // serve a priority only while the higher ones have no jobs; false: serve in the ratio of Priorities
	ShutdownTimeout time.Duration // time for handlers to finish when Serve stops
	PollInterval    time.Duration // time between two requests for jobs while the queue is empty; memqueue does not need it
	Logger          *slog.Logger
	// If Admit is set, Serve calls Begin for many jobs at once, before it passes them to the handler. For each job it first calls Admit,
	// which reserves what the job needs, sets its Pin, and returns a function that ends the reservation. If ok is false, nothing is reserved,
	// and Serve leaves the call of Begin to the handler. Admit must not block.
	Admit func(j *Job) (leave func(), ok bool)
	// Describe returns the worker's record for Fleet; the queue sets ID, Aliases, Concurrency, Rows and times. Describe must not
	// block. If Describe is nil, the record is empty.
	Describe func() Worker
}

// Record returns the record of a worker. id is the worker's id, started the time when Serve was called, and rows the number of jobs that
// the worker has now.
func (o *ServeOptions) Record(id string, started time.Time, rows int) Worker {
	var w Worker
	if o.Describe != nil {
		w = o.Describe()
	}
	w.ID, w.Started, w.Rows, w.Aliases, w.Concurrency = id, started, rows, []string{o.Alias}, o.Concurrency-o.Ahead
	return w
}

// Handler handles one delivery of a job. A delivery passes a job to one worker; after a failure, the job is delivered again. ctx ends when
// the delivery ends: when the batch is cancelled, the lease is lost, or Serve stops. The returned error decides what happens to the job:
//
//   - nil: the job is done and leaves the queue;
//   - ErrHandedBack: the job returns to the head of the queue, as if it had not been taken;
//   - ErrDeliveryEnded: the job is delivered again without delay, unless it has been already;
//   - ErrSuperseded: nothing, since a newer delivery has the job;
//   - ErrOtherModel: the job is delivered again after RefusalDelay, and no failure is counted;
//   - any other error: the job is delivered again after RetryDelay.
type Handler func(ctx context.Context, j *Job) error

// ErrRowRunning means that Add cannot replace a job, because a worker still runs the same line of an earlier batch with the same id.
var ErrRowRunning = errors.New("a worker still runs a row of an earlier batch with the same id: give another batch id, or try again later")

// Errors that a Handler returns.
var (
	ErrHandedBack    = errors.New("the worker is stopping: the job returns to the queue")
	ErrDeliveryEnded = errors.New("the delivery has ended: the worker has lost the job's lease, or the batch is cancelled")
)

// RefusalDelay is how long a job waits after a worker with another model refused it.
const RefusalDelay = time.Second

// RetryDelay returns how long a job waits after a failed attempt: 1 s, doubled for each earlier failure, and 1 min at most. n is the number
// of earlier failures.
func RetryDelay(n int) time.Duration { return min(time.Minute, time.Second<<min(n, 6)) }

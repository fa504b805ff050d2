package queue

import (
	"context"
	"time"
)

// Delivery passes a row to one worker. The row was taken from its queue and begun: its attempt is
// counted. Until the handler returns, no other worker has the row, unless this worker sends no
// heartbeats for so long that its rows go to other workers. The context of the handler then ends,
// and all writes of the delivery are refused.
type Delivery struct {
	*Job
	Recorder
	Attempt    int    // number of the attempt, from 1; attempts during which the worker died are not counted
	Deaths     int    // number of workers that died while they ran the row
	Checkpoint []byte // encoded Checkpoint of an earlier attempt; nil if there is none
}

// Recorder is the queue's side of a delivery.
type Recorder interface {
	// Record stores the result of the row, counts it and appends it to the batch's stream, in one
	// atomic step in which the row also leaves its queue. first and the errors are those of
	// Store.Record, except that first is also true if an earlier attempt to send this result was
	// lost after it had recorded the row. The error is also ErrSuperseded if another worker has
	// taken over the row. The handler then returns Done.
	Record(ctx context.Context, r Result) (first bool, err error)

	// Save stores an encoded Checkpoint of the row. It replaces the row's previous checkpoint.
	// Record deletes it. The error is ErrSuperseded if another worker has taken over the row, and
	// ErrNoBatch or ErrCancelled if the row needs no work.
	Save(ctx context.Context, checkpoint []byte) error
}

// Handler handles one delivery. Its outcome decides what happens to the row. ctx ends when the
// delivery ends; its cause is then ErrCancelled if the batch or the row was cancelled,
// ErrSuperseded if other workers have the worker's rows, and context.Canceled if Serve stops.
type Handler func(ctx context.Context, d *Delivery) Outcome

// Outcome is what becomes of a row after a delivery. Done, Retry, Refuse, PassOn, HandBack and
// Interrupted make outcomes. The zero value is Interrupted.
type Outcome struct {
	Kind    OutcomeKind
	After   time.Duration // time until the next delivery, for Retry, Refuse and PassOn
	Context int           // for PassOn: the context that is too short for the row
	Err     error         // why the row is delivered again; asynq's tools show it
}

// OutcomeKind is the kind of an Outcome.
type OutcomeKind int

// The kinds of outcomes.
const (
	KindInterrupted OutcomeKind = iota
	KindDone
	KindRetry
	KindRefuse
	KindPassOn
	KindHandBack
)

// Done means that the row is recorded or needs no result. It leaves the queue.
func Done() Outcome { return Outcome{Kind: KindDone} }

// Retry means that the attempt has failed: the row is delivered again after a time, usually
// RetryDelay(Attempt-1).
func Retry(after time.Duration, err error) Outcome {
	return Outcome{Kind: KindRetry, After: after, Err: err}
}

// Refuse leaves the row to other workers: it is delivered again after RefusalDelay. Neither an
// attempt nor a failure is counted.
func Refuse(err error) Outcome { return Outcome{Kind: KindRefuse, After: RefusalDelay, Err: err} }

// PassOn leaves the row to workers with a context of more than context tokens. They take it before
// other rows of its queue. Every worker can take it again when no live worker of the alias has such
// a context, or after PassOnDelay. No attempt is counted.
func PassOn(context int, err error) Outcome {
	return Outcome{Kind: KindPassOn, After: PassOnDelay, Context: context, Err: err}
}

// HandBack returns the row to the head of its queue, as if it had not been taken. No attempt is
// counted. Serve takes no more rows, since the worker is stopping.
func HandBack() Outcome { return Outcome{Kind: KindHandBack} }

// Interrupted means that the delivery has ended before the row was answered, for example because
// the context has ended. The row is delivered again without delay, unless its batch is cancelled or
// another worker has the row.
func Interrupted(err error) Outcome { return Outcome{Kind: KindInterrupted, Err: err} }

// Uncounted reports whether the attempt of the delivery does not count.
func (o Outcome) Uncounted() bool {
	return o.Kind == KindRefuse || o.Kind == KindPassOn || o.Kind == KindHandBack
}

// RefusalDelay is how long a row waits after a worker with another model refused it.
const RefusalDelay = time.Second

// PassOnDelay is how long a row that was passed on waits at most while workers with a longer
// context live. It is long, so that a worker sees such a row again only if those workers hang.
const PassOnDelay = time.Hour

// RetryDelay returns how long a row waits after a failed attempt: 1 s, doubled for each earlier
// attempt, and 1 min at most. n is the number of earlier attempts.
func RetryDelay(n int) time.Duration { return min(time.Minute, time.Second<<min(max(n, 0), 6)) }

package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/openai"
	"github.com/ingot-run/ingot/queue"
)

type row struct {
	*queue.Delivery
	log      *slog.Logger
	begun    time.Time
	resume   *queue.Checkpoint // progress of an earlier attempt; nil if there is none
	progress *progress
	memory   *reservation // memory for the results
}

// handle answers one delivery of a row and records the result, an answer or an error. The outcome
// says what becomes of the row.
func (w *Worker) handle(ctx context.Context, d *queue.Delivery) queue.Outcome {
	free := w.pulse.occupy()
	defer free()
	ctx, r := w.begin(ctx, d)
	defer w.end(r)
	result, outcome := w.answer(ctx, r)
	if outcome != nil {
		return *outcome
	}
	return w.record(ctx, r, result)
}

// begin returns the row of a delivery. The returned context ends if the row was taken from this
// worker.
func (w *Worker) begin(ctx context.Context, d *queue.Delivery) (context.Context, *row) {
	r := &row{Delivery: d, log: w.log.With("batch", d.Batch, "line", d.Line), begun: time.Now(), memory: &reservation{room: w.results}}
	r.resume = w.checkpoints.read(ctx, d, r.log)
	ctx, r.progress = w.checkpoints.track(ctx, d)
	return ctx, r
}

func (w *Worker) end(r *row) {
	w.checkpoints.untrack(r.progress)
	r.memory.release()
}

// wait returns how long the row waited in the queue, in milliseconds.
func (r *row) wait() float64 { return float64(max(0, r.begun.UnixMilli()-r.EnqueuedMS)) }

func (r *row) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	end := time.Now().Add(r.Timeout())
	if deadline, ok := r.Deadline(); ok && deadline.Before(end) {
		end = deadline
	}
	return context.WithDeadline(ctx, end)
}

// answer returns the result of a row, an answer or an error line. If the attempt gives no result,
// outcome is not nil.
func (w *Worker) answer(ctx context.Context, r *row) (result queue.Result, outcome *queue.Outcome) {
	switch {
	case r.Deaths >= maxDeaths:
		return w.failure(r, openai.CodeAbandoned, fmt.Sprintf("given up: %d workers died while they ran the row; the last %d of them ran no other row",
			r.Deaths, maxDeaths-suspectDeaths)), nil
	case r.Attempt > r.MaxAttempts:
		return w.failure(r, openai.CodeAbandoned, fmt.Sprintf("given up after %d attempts: in the last one, the worker died, lost its "+
			"lease or could not record the result", r.MaxAttempts)), nil
	case r.Overdue():
		return w.expired(r), nil
	}
	limited, cancel := r.limit(ctx)
	defer cancel()
	result, err := w.attempt(limited, r)
	if err == nil {
		return result, nil
	}
	var invalid *openai.Error
	code := openai.CodeFailed
	switch {
	case errors.As(err, &invalid):
		return w.failure(r, invalid.Code, invalid.Message), nil
	case errors.Is(err, generation.ErrBadRequest):
		return w.failure(r, openai.CodeBadRequest, err.Error()), nil
	case errors.Is(err, generation.ErrEngineFailed):
		w.drain.begin(err)
		return result, w.handBack(r)
	case errors.Is(err, generation.ErrClosed):
		return result, w.handBack(r)
	case ctx.Err() != nil:
		return result, w.interrupted(ctx, r)
	case errors.Is(err, context.DeadlineExceeded) && r.Overdue():
		return w.expired(r), nil
	case errors.Is(err, context.DeadlineExceeded):
		code, err = openai.CodeTimeout, fmt.Errorf("not finished within the timeout of %v", r.Timeout())
	case errors.Is(err, generation.ErrNotFinite): // if the next attempt succeeds, it was a temporary fault of the device
		err = fmt.Errorf("%w: the model's file may be damaged: compare its SHA-256", err)
	}
	if r.Attempt < r.MaxAttempts {
		w.metrics.jobs.WithLabelValues("retried").Inc()
		r.log.Warn("attempt failed", "attempt", r.Attempt, "of", r.MaxAttempts, "error", err)
		return result, new(queue.Retry(queue.RetryDelay(r.Attempt-1), err))
	}
	return w.failure(r, code, fmt.Sprintf("%v (attempt %d of %d)", err, r.Attempt, r.MaxAttempts)), nil
}

func (w *Worker) handBack(r *row) *queue.Outcome {
	w.metrics.jobs.WithLabelValues("handed_back").Inc()
	r.log.Info("returned a job to the queue")
	return new(queue.HandBack())
}

func (w *Worker) interrupted(ctx context.Context, r *row) *queue.Outcome {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, queue.ErrCancelled):
		r.log.Debug("dropped a job: its batch was cancelled")
		return new(queue.Lost(cause))
	case errors.Is(cause, queue.ErrSuperseded):
		w.metrics.jobs.WithLabelValues("lease_lost").Inc()
		r.log.Warn("lost the lease of a job: the machine was suspended, or redis was unreachable; the job is delivered again")
		return new(queue.Lost(cause))
	}
	return w.handBack(r)
}

func (w *Worker) expired(r *row) queue.Result {
	e := queue.ExpiredError(r.Job)
	return w.failure(r, e.Code, e.Message)
}

func (w *Worker) failure(r *row, code, message string) queue.Result {
	result := queue.Failure(r.Job, openai.Error{Code: code, Message: message}, queue.Stats{
		QueueWaitMS: r.wait(),
		TotalMS:     float64(time.Since(r.begun).Milliseconds()),
		Attempts:    r.Attempt + r.Deaths,
		Origin:      w.model.origin,
	})
	var err error
	if result.Job, err = r.Encode(); err != nil {
		r.log.Error("could not store a failed job: its row cannot be queued again with ingot retry", "error", err)
	}
	return result
}

const (
	// maxRecordWait is the maximum time for which a worker retries to record a result. Redis can
	// restart in this time.
	maxRecordWait = 30 * time.Second
	// acceptedBytes is a size of results that every queue accepts.
	acceptedBytes = 1 << 20
)

// record records a result. It does so even if ctx has ended: the queue refuses the result if
// another worker has the row by now. While the queue cannot be reached, record retries, but not
// longer than maxRecordWait, and not after the shutdown timeout of Run.
func (w *Worker) record(ctx context.Context, r *row, result queue.Result) queue.Outcome {
	ctx = context.WithoutCancel(ctx)
	result = w.limited(ctx, r, result)
	first := false
	err := queue.UntilAvailable(w.drain.recording, maxRecordWait, func() (err error) {
		first, err = r.Record(ctx, result)
		if notTaken(err) || errors.Is(err, queue.ErrSuperseded) || errors.Is(err, queue.ErrOtherModel) { // the queue answered
			w.pulse.recorded(time.Now(), nil)
		} else {
			w.pulse.recorded(time.Now(), err)
		}
		return err
	})
	switch {
	case notTaken(err):
		r.log.Warn("dropped a result: its batch is cancelled, was replaced, or does not exist any more")
	case errors.Is(err, queue.ErrOtherModel): // meanwhile, the batch has recorded the answer of another model
		w.refuse(ctx, r.Batch)
		return queue.Refuse(err)
	case errors.Is(err, queue.ErrSuperseded):
		w.metrics.jobs.WithLabelValues("lease_lost").Inc()
		r.log.Warn("dropped a result: this worker sent no heartbeats for too long, so another worker has the job")
		return queue.Lost(err)
	case err != nil:
		r.log.Error("could not record a result: the job is delivered again", "error", err)
		return queue.Retry(queue.RetryDelay(r.Attempt-1), err)
	case first:
		w.metrics.observe(result)
		r.log.Debug("recorded a job", "failed", result.Failed, "completion_tokens", result.Stats.CompletionTokens)
	}
	w.announce(ctx, r.Job, queue.Event{Ended: true})
	return queue.Done()
}

func (w *Worker) limited(ctx context.Context, r *row, result queue.Result) queue.Result {
	if len(result.Text) <= acceptedBytes {
		return result
	}
	maxBytes := 0
	err := queue.UntilAvailable(w.drain.recording, maxRecordWait, func() (err error) {
		maxBytes, err = w.queue.MaxBytes(ctx)
		return err
	})
	if err != nil || len(result.Text) <= maxBytes {
		return result // if the queue cannot be reached, recording the result fails too and reports it
	}
	return queue.TooLarge(r.Job, len(result.Text), maxBytes, result.Stats)
}

// notTaken reports whether an error means that the batch accepts no more results. The queue itself
// works.
func notTaken(err error) bool {
	return errors.Is(err, queue.ErrNoBatch) || errors.Is(err, queue.ErrCancelled) || errors.Is(err, queue.ErrOtherFile) ||
		errors.Is(err, queue.ErrNoRow)
}

package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
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

// handle answers one delivery of a row: it records an answer or an error line, unless the row has
// to be delivered again.
func (w *Worker) handle(ctx context.Context, d *queue.Delivery) (outcome queue.Outcome) {
	free := w.pulse.occupy()
	defer free()
	defer func() { w.metrics.delivered(outcome) }()
	ctx, r := w.begin(ctx, d)
	defer w.end(r)
	if why := r.givenUp(); why != nil {
		return w.fail(ctx, r, why.Code, why.Message)
	}
	result, err := w.attempt(ctx, r)
	if err != nil {
		return w.failed(ctx, r, err)
	}
	if result.Stats.ContextFull && w.hasLonger(ctx) {
		return w.passOn(r, errors.New("the context ended the answer"))
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

// givenUp returns the error of a row that gets no attempt any more, or nil if it gets one.
func (r *row) givenUp() *openai.Error {
	switch {
	case r.Deaths >= maxDeaths:
		return &openai.Error{Code: openai.CodeAbandoned, Message: fmt.Sprintf(
			"given up: %d workers died while they ran the row; the last %d of them ran no other row", r.Deaths, maxDeaths-suspectDeaths)}
	case r.Attempt > r.MaxAttempts:
		return &openai.Error{Code: openai.CodeAbandoned, Message: fmt.Sprintf(
			"given up after %d attempts: the last one ended without a result, or its result could not be recorded", r.MaxAttempts)}
	case r.Overdue():
		return new(queue.ExpiredError(r.Job))
	}
	return nil
}

// failed decides what becomes of a row whose attempt has failed. An error that every attempt would
// have is recorded at once, any other error at the last attempt.
func (w *Worker) failed(ctx context.Context, r *row, err error) queue.Outcome {
	invalid := openai.AsError(err)
	timeout := errors.Is(err, context.DeadlineExceeded)
	code := openai.CodeFailed
	switch {
	case invalid != nil:
		return w.fail(ctx, r, invalid.Code, invalid.Message)
	case errors.Is(err, generation.ErrTooLong) && w.hasLonger(ctx):
		return w.passOn(r, err)
	case errors.Is(err, generation.ErrTooLong):
		return w.fail(ctx, r, openai.CodeContext, err.Error())
	case errors.Is(err, generation.ErrBadRequest):
		return w.fail(ctx, r, openai.CodeBadRequest, err.Error())
	case errors.Is(err, generation.ErrEngineFailed):
		w.drain.begin(err)
		return w.handBack(r)
	case errors.Is(err, generation.ErrClosed):
		return w.handBack(r)
	case ctx.Err() != nil:
		return w.interrupted(ctx, r)
	case timeout && r.Overdue():
		e := queue.ExpiredError(r.Job)
		return w.fail(ctx, r, e.Code, e.Message)
	case timeout:
		code, err = openai.CodeTimeout, fmt.Errorf("not finished within the timeout of %v", r.Timeout())
	case errors.Is(err, generation.ErrNotFinite): // if the next attempt succeeds, it was a temporary fault of the device
		err = fmt.Errorf("%w: the model's file may be damaged: compare its SHA-256", err)
	}
	if r.Attempt < r.MaxAttempts {
		r.log.Warn("attempt failed", "attempt", r.Attempt, "of", r.MaxAttempts, "error", err)
		return queue.Retry(queue.RetryDelay(r.Attempt-1), err)
	}
	return w.fail(ctx, r, code, fmt.Sprintf("%v (attempt %d of %d)", err, r.Attempt, r.MaxAttempts))
}

func (w *Worker) handBack(r *row) queue.Outcome {
	r.log.Info("returned a job to the queue")
	return queue.HandBack()
}

// hasLonger reports whether a live worker with a longer context, the same model file, the same
// arithmetic and the same defaults of sampling serves the alias.
func (w *Worker) hasLonger(ctx context.Context) bool {
	own, _ := w.model.known()
	fleet, err := w.queue.Fleet(ctx)
	return err == nil && slices.ContainsFunc(fleet, func(o queue.Worker) bool {
		return o.Live() && o.Serves(w.config.Alias) && o.Context > w.context && o.ModelSHA256 == own.ModelSHA256 && o.Arithmetic == own.Arithmetic && o.Sampling == own.Sampling
	})
}

// passOn leaves a row to workers with a longer context.
func (w *Worker) passOn(r *row, why error) queue.Outcome {
	w.metrics.jobs.WithLabelValues("handed_back").Inc()
	r.log.Debug("passed a job on to a worker with a longer context", "reason", why)
	return queue.PassOn(w.context, why)
}

// interrupted is the outcome of a row whose context has ended.
func (w *Worker) interrupted(ctx context.Context, r *row) queue.Outcome {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, queue.ErrCancelled):
		r.log.Debug("dropped a job: its batch was cancelled")
		return queue.Interrupted(cause)
	case errors.Is(cause, queue.ErrSuperseded):
		r.log.Warn("lost the lease of a job: the machine was suspended, or redis was unreachable; the job is delivered again")
		return queue.Interrupted(cause)
	}
	return w.handBack(r)
}

// fail records an error as the result of a row.
func (w *Worker) fail(ctx context.Context, r *row, code, message string) queue.Outcome {
	result := queue.Failure(r.Job, openai.Error{Code: code, Message: message}, queue.Stats{
		QueueWaitMS: r.wait(), TotalMS: float64(time.Since(r.begun).Milliseconds()), Attempts: r.Attempt + r.Deaths, Origin: w.model.origin,
	})
	var err error
	if result.Job, err = r.Encode(); err != nil {
		r.log.Error("could not store a failed job: its row cannot be queued again with ingot retry", "error", err)
	}
	return w.record(ctx, r, result)
}

const (
	// maxRecordWait is the maximum time for which a worker retries to record a result while the
	// queue delivers rows.
	maxRecordWait = 30 * time.Second
	// acceptedBytes is a size of results that every queue accepts.
	acceptedBytes = 1 << 20
)

// record records a result. It does so even if ctx has ended: the queue refuses the result if
// another worker has the row by now. While the queue cannot be used, record retries, but not after
// the shutdown timeout of Run. If the queue delivers rows, record gives up after maxRecordWait.
func (w *Worker) record(ctx context.Context, r *row, result queue.Result) queue.Outcome {
	ctx = context.WithoutCancel(ctx)
	result = w.limited(ctx, r, result)
	first := false
	err := w.untilRecorded(func() (err error) {
		first, err = r.Record(ctx, result)
		if queue.Unwanted(err) || errors.Is(err, queue.ErrSuperseded) || errors.Is(err, queue.ErrOtherModel) { // the queue answered
			w.pulse.recorded(time.Now(), nil)
		} else {
			w.pulse.recorded(time.Now(), err)
		}
		return err
	})
	switch {
	case queue.Unwanted(err):
		r.log.Warn("dropped a result: its batch is cancelled, was replaced, or does not exist any more")
	case errors.Is(err, queue.ErrOtherModel): // meanwhile, the batch has recorded the answer of another model
		w.refuse(ctx, r.Delivery)
		return queue.Refuse(err)
	case errors.Is(err, queue.ErrSuperseded):
		r.log.Warn("dropped a result: this worker sent no heartbeats for too long, so another worker has the job")
		return queue.Interrupted(err)
	case err != nil:
		r.log.Error("could not record a result: the job is delivered again", "error", err)
		return queue.Retry(queue.RetryDelay(r.Attempt-1), err)
	case first:
		w.metrics.observe(result)
		w.tally.add(result)
		r.log.Debug("recorded a job", "failed", result.Failed, "completion_tokens", result.Stats.CompletionTokens)
	default:
		w.metrics.jobs.WithLabelValues("lease_lost").Inc()
		r.log.Debug("dropped a result: the row was recorded meanwhile")
	}
	w.announce(ctx, r.Job, queue.Event{Ended: true})
	return queue.Done()
}

func (w *Worker) untilRecorded(record func() error) error {
	for {
		err := queue.UntilAvailable(w.drain.recording, w.maxRecordWait, record)
		delivers := time.Since(w.queue.LastFetch()) < w.maxRecordWait/4
		if !errors.Is(err, queue.ErrUnavailable) || w.drain.recording.Err() != nil || delivers {
			return err
		}
	}
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

package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/hibiken/asynq"
	"golang.org/x/sync/errgroup"

	"github.com/ingot-run/ingot/engine/sample"
	"github.com/ingot-run/ingot/generation"
	"github.com/ingot-run/ingot/job"
	"github.com/ingot-run/ingot/openai"
)

// promptsAtOnce is how many prompts of one row are in the engine at a time.
const promptsAtOnce = 16

// handle is a delivery of a job: it returns nil once the row's result, an answer or an error, is recorded.
func (w *Worker) handle(ctx context.Context, t *asynq.Task) error {
	if !w.running.TryRLock() {
		return errHandedBack
	}
	defer w.running.RUnlock()
	j, err := job.Decode(t.Payload())
	if err != nil {
		w.log.Error("a task on the queue is not a job of ingot: it is archived", "error", err)
		return fmt.Errorf("%w: %w", err, asynq.SkipRetry)
	}
	log := w.log.With("batch", j.Batch, "line", j.Line)
	attempt, err := w.store.Begin(ctx, j.Batch, j.Line)
	switch {
	case errors.Is(err, job.ErrRecorded):
		return nil // by a worker that died, or lost its lease, before it could tell the queue
	case errors.Is(err, job.ErrNoBatch):
		log.Warn("a job's batch is gone: it is dropped")
		return nil
	case errors.Is(err, job.ErrCancelled):
		log.Debug("a job's batch is cancelled: it is dropped")
		return nil
	case err != nil:
		return err
	}
	d := delivery{Job: j, attempt: attempt, taken: time.Now()}
	result, err := w.answer(ctx, d, log)
	if err != nil {
		return err
	}
	return w.record(ctx, j, result, log)
}

// delivery is a job as it was taken from the queue.
type delivery struct {
	*job.Job
	attempt int
	taken   time.Time
}

func (d delivery) wait() time.Duration { return max(0, d.taken.Sub(time.UnixMilli(d.EnqueuedMS))) }

// answer makes the result of a job. An error means that there is none yet: the job goes back to the queue.
func (w *Worker) answer(ctx context.Context, d delivery, log *slog.Logger) (job.Result, error) {
	if d.attempt > d.MaxAttempts {
		return w.failure(d, openai.CodeAbandoned, fmt.Sprintf("given up: the %d workers that took the job died or lost their lease",
			d.MaxAttempts)), nil
	}
	limited, cancel := context.WithTimeout(ctx, d.Timeout())
	defer cancel()
	result, err := w.attempt(limited, d)
	if err == nil {
		return result, nil
	}
	var row *openai.Error
	code := openai.CodeFailed
	switch {
	case errors.As(err, &row):
		return w.failure(d, row.Code, row.Message), nil
	case errors.Is(err, generation.ErrBadRequest):
		return w.failure(d, openai.CodeBadRequest, err.Error()), nil
	case errors.Is(err, sample.ErrNotFinite): // the same tokens give the same logits at every attempt
		return w.failure(d, openai.CodeFailed, err.Error()+": the model's file may be damaged: compare its SHA-256"), nil
	case w.stopping.Load() && ctx.Err() != nil || errors.Is(err, generation.ErrClosed):
		w.metrics.jobs.WithLabelValues("handed_back").Inc()
		log.Info("job handed back")
		return job.Result{}, errors.Join(errHandedBack, w.store.Release(context.WithoutCancel(ctx), d.Batch, d.Line))
	case ctx.Err() != nil && w.cancelled(ctx, d):
		log.Debug("a job's batch was cancelled: it is dropped")
		return job.Result{}, errLeaseLost // asynq has ended the delivery, and the next one is dropped
	case ctx.Err() != nil:
		w.metrics.jobs.WithLabelValues("lease_lost").Inc()
		log.Warn("lease lost: the machine slept, or redis was out of reach; the job is delivered again")
		return job.Result{}, errLeaseLost
	case errors.Is(err, context.DeadlineExceeded):
		code = openai.CodeTimeout
		err = fmt.Errorf("not finished within %v", d.Timeout())
	}
	if d.attempt < d.MaxAttempts {
		w.metrics.jobs.WithLabelValues("retried").Inc()
		log.Warn("attempt failed", "attempt", d.attempt, "of", d.MaxAttempts, "error", err)
		return job.Result{}, err
	}
	return w.failure(d, code, fmt.Sprintf("%v (attempt %d of %d)", err, d.attempt, d.MaxAttempts)), nil
}

// cancelled tells whether a delivery was ended because its batch was cancelled.
func (w *Worker) cancelled(ctx context.Context, d delivery) bool {
	cancelled, err := w.store.Cancelled(context.WithoutCancel(ctx), d.Batch)
	return err == nil && cancelled
}

// attempt answers a job with the engine. A panic becomes an error.
func (w *Worker) attempt(ctx context.Context, d delivery) (result job.Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = w.panicked(d, p)
		}
	}()
	request, err := openai.ParseRequest(d.Endpoint, d.Body)
	if err != nil {
		return job.Result{}, err
	}
	done, err := w.complete(ctx, d, request)
	if err != nil {
		return job.Result{}, err
	}
	origin := w.origin
	if origin.ModelSHA256, err = w.sha256(ctx); err != nil {
		return job.Result{}, err
	}
	return job.Answered(d.Job, request, done, time.Now(), job.Stats{
		QueueWaitMS: float64(d.wait().Milliseconds()), Attempts: d.attempt, Origin: origin,
	}), nil
}

// panicked logs a panic, and is its error.
func (w *Worker) panicked(d delivery, p any) error {
	w.log.Error("panic in a job", "batch", d.Batch, "line", d.Line, "panic", p, "stack", string(debug.Stack()))
	return fmt.Errorf("internal error: %v", p)
}

// complete asks the engine for each prompt of a row.
func (w *Worker) complete(ctx context.Context, d delivery, r *openai.Request) ([]generation.Completion, error) {
	done := make([]generation.Completion, r.NumPrompts())
	if len(done) == 1 {
		var err error
		done[0], err = w.generate(ctx, d.Generation(r, 0))
		return done, err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(promptsAtOnce)
	for i := range done {
		group.Go(func() error {
			var err error
			if done[i], err = w.ask(ctx, d, d.Generation(r, i)); err != nil {
				return fmt.Errorf("prompt %d: %w", i, err)
			}
			return nil
		})
	}
	return done, group.Wait()
}

// ask is generate on a goroutine of its own, where a panic would be the end of the worker.
func (w *Worker) ask(ctx context.Context, d delivery, r generation.Request) (c generation.Completion, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = w.panicked(d, p)
		}
	}()
	return w.generate(ctx, r)
}

func (w *Worker) failure(d delivery, code, message string) job.Result {
	return job.Failure(d.Job, openai.Error{Code: code, Message: message}, job.Stats{
		QueueWaitMS: float64(d.wait().Milliseconds()),
		TotalMS:     float64(time.Since(d.taken).Milliseconds()),
		Attempts:    d.attempt,
		Origin:      w.origin,
	})
}

// record writes a result back, whether or not the lease still holds: only the first result of a row counts.
func (w *Worker) record(ctx context.Context, j *job.Job, r job.Result, log *slog.Logger) error {
	ctx = context.WithoutCancel(ctx)
	first := false
	err := job.Insist(ctx, recordPatience, func() (err error) {
		first, err = w.store.Record(ctx, j.Batch, r)
		return err
	})
	switch {
	case errors.Is(err, job.ErrNoBatch), errors.Is(err, job.ErrCancelled):
		log.Warn("a job's batch is gone or cancelled: its result is dropped")
		return nil
	case err != nil:
		log.Error("a result could not be written: the job is delivered again", "error", err)
		return err
	case first:
		w.metrics.observe(r)
		log.Debug("job recorded", "failed", r.Failed, "completion_tokens", r.Stats.CompletionTokens)
	}
	return nil
}

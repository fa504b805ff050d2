package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/openai"
	"github.com/ingot-run/ingot/queue"
)

// maxPromptsAtOnce is the maximum number of prompts of one row that are in the engine at once.
const maxPromptsAtOnce = 16

// handle answers one delivery of a job. It returns nil when the row's result, an answer or an error, is recorded, or when the job was
// dropped because its batch needs no result.
func (w *Worker) handle(ctx context.Context, j *queue.Job) error {
	w.pulse.begin()
	defer func() { w.pulse.end(time.Now()) }()
	log := w.log.With("batch", j.Batch, "line", j.Line)
	leave, start, err := w.begin(ctx, j)
	if leave != nil {
		defer leave()
	}
	switch {
	case errors.Is(err, queue.ErrRecorded):
		return nil // an earlier worker recorded the row and then died or lost its lease
	case errors.Is(err, queue.ErrNoBatch):
		log.Warn("dropped a job: its batch does not exist any more")
		return nil
	case errors.Is(err, queue.ErrOtherFile):
		log.Warn("dropped a job: it is left over from an earlier batch with the same id")
		return nil
	case errors.Is(err, queue.ErrCancelled):
		log.Debug("dropped a job: its batch is cancelled")
		return nil
	case errors.Is(err, queue.ErrNoRow):
		log.Warn("dropped a job: the file of its batch has no such line")
		return nil
	case errors.Is(err, queue.ErrOtherModel):
		return w.refuse(ctx, j, err)
	case errors.Is(err, queue.ErrSuperseded):
		log.Debug("dropped a delivery: another worker has the job")
		return err
	case err != nil:
		return err
	}
	d := delivery{Job: j, attempt: start.Attempt, start: time.Now(), memory: &reservation{room: w.results}}
	if start.Checkpoint != nil {
		d.resume = w.readCheckpoint(ctx, start.Checkpoint, log)
	}
	ctx, d.progress = w.track(ctx, j)
	defer w.untrack(d.progress)
	defer d.memory.release()
	result, err := w.answer(ctx, d, log)
	if err != nil {
		return err
	}
	if err := w.record(ctx, j, result, log); err != nil {
		return err
	}
	w.announce(context.WithoutCancel(ctx), j, queue.Event{Ended: true})
	return nil
}

// admit admits a job that can begin without a wait. The queue then calls Begin for the job.
func (w *Worker) admit(j *queue.Job) (leave func(), ok bool) {
	j.Pin = w.pin()
	return w.admission.tryEnter(j)
}

// begin admits a job and calls Begin, unless the queue has done both. If leave is not nil, the caller must call it when the job ends.
func (w *Worker) begin(ctx context.Context, j *queue.Job) (leave func(), start queue.Start, err error) {
	if j.Begun != nil {
		return j.Begun.Leave, j.Begun.Start, nil
	}
	leave, err = w.admission.enter(ctx, j)
	switch {
	case errors.Is(err, errDraining):
		return nil, start, queue.ErrHandedBack
	case err != nil:
		return nil, start, queue.ErrDeliveryEnded
	}
	j.Pin = w.pin()
	start, err = w.queue.Begin(ctx, j)
	return leave, start, err
}

// delivery is one delivery of a job to this worker.
type delivery struct {
	*queue.Job
	attempt  int
	start    time.Time
	resume   *queue.Checkpoint // progress of an earlier attempt; nil if there is none
	progress *progress         // progress of this delivery
	memory   *reservation      // memory for the results
}

func (d delivery) wait() time.Duration { return max(0, d.start.Sub(time.UnixMilli(d.EnqueuedMS))) }

// answer returns the result of a job, an answer or an error line. If answer returns an error, the job returns to the queue.
func (w *Worker) answer(ctx context.Context, d delivery, log *slog.Logger) (queue.Result, error) {
	switch {
	case d.Deaths >= maxDeaths:
		return w.failure(d, openai.CodeAbandoned, fmt.Sprintf("given up: %d workers died while they ran the row; the last %d of them ran no other row",
			d.Deaths, maxDeaths-suspectDeaths)), nil
	case d.attempt > d.MaxAttempts:
		return w.failure(d, openai.CodeAbandoned, fmt.Sprintf("given up after %d attempts: in the last one, the worker died, lost its "+
			"lease or could not record the result", d.MaxAttempts)), nil
	}
	if d.Overdue() {
		return w.expired(d), nil
	}
	limited, cancel := context.WithTimeout(ctx, d.Timeout())
	defer cancel()
	if deadline, ok := d.Deadline(); ok {
		limited, cancel = context.WithDeadline(limited, deadline)
		defer cancel()
	}
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
	case errors.Is(err, generation.ErrEngineFailed):
		w.stop(err)
		return queue.Result{}, w.handBack(ctx, d, log)
	case w.stopping.Load() && ctx.Err() != nil || errors.Is(err, generation.ErrClosed):
		return queue.Result{}, w.handBack(ctx, d, log)
	case ctx.Err() != nil && w.cancelled(ctx, d):
		log.Debug("dropped a job: its batch was cancelled")
		return queue.Result{}, queue.ErrDeliveryEnded // the next delivery is dropped by handle
	case ctx.Err() != nil:
		w.metrics.jobs.WithLabelValues("lease_lost").Inc()
		log.Warn("lost the lease of a job: the machine was suspended, or redis was unreachable; the job is delivered again")
		return queue.Result{}, queue.ErrDeliveryEnded
	case errors.Is(err, context.DeadlineExceeded) && d.Overdue():
		return w.expired(d), nil
	case errors.Is(err, context.DeadlineExceeded):
		code = openai.CodeTimeout
		err = fmt.Errorf("not finished within the timeout of %v", d.Timeout())
	case errors.Is(err, generation.ErrNotFinite): // if the next attempt succeeds, it was a temporary fault of the device
		err = fmt.Errorf("%w: the model's file may be damaged: compare its SHA-256", err)
	}
	if d.attempt < d.MaxAttempts {
		w.metrics.jobs.WithLabelValues("retried").Inc()
		log.Warn("attempt failed", "attempt", d.attempt, "of", d.MaxAttempts, "error", err)
		return queue.Result{}, err
	}
	return w.failure(d, code, fmt.Sprintf("%v (attempt %d of %d)", err, d.attempt, d.MaxAttempts)), nil
}

// handBack releases a job and returns the error with which the handler returns it to the queue. The delivery does not count as an attempt.
func (w *Worker) handBack(ctx context.Context, d delivery, log *slog.Logger) error {
	w.metrics.jobs.WithLabelValues("handed_back").Inc()
	log.Info("returned a job to the queue")
	return errors.Join(queue.ErrHandedBack, w.queue.Release(context.WithoutCancel(ctx), d.Job))
}

// cancelled reports whether the batch of a delivery is cancelled.
func (w *Worker) cancelled(ctx context.Context, d delivery) bool {
	cancelled, err := w.queue.Cancelled(context.WithoutCancel(ctx), d.Batch)
	return err == nil && cancelled
}

// attempt answers a job with the engine. A panic becomes an error.
func (w *Worker) attempt(ctx context.Context, d delivery) (result queue.Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = w.panicked(d, p)
		}
	}()
	request, err := d.Parse()
	if err != nil {
		return queue.Result{}, err
	}
	done, err := w.complete(ctx, d, request)
	if err != nil {
		return queue.Result{}, err
	}
	origin := w.origin
	if origin.ModelSHA256, err = w.sha256(ctx); err != nil {
		return queue.Result{}, err
	}
	d.Pin = queue.Pin(origin.ModelSHA256)
	return queue.Answered(d.Job, request, done, time.Now(), queue.Stats{
		QueueWaitMS: float64(d.wait().Milliseconds()), Attempts: d.attempt + d.Deaths, Origin: origin,
	}), nil
}

// panicked logs a panic and returns it as an error.
func (w *Worker) panicked(d delivery, p any) error {
	w.log.Error("panic in a job", "batch", d.Batch, "line", d.Line, "panic", p, "stack", string(debug.Stack()))
	return fmt.Errorf("internal error: %v", p)
}

// complete generates the completions of a row's prompts.
func (w *Worker) complete(ctx context.Context, d delivery, r *openai.Request) ([]generation.Completion, error) {
	done := make([]generation.Completion, r.NumPrompts())
	if len(done) == 1 {
		var err error
		done[0], err = w.generate(ctx, w.request(ctx, d, r, 0))
		return done, err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxPromptsAtOnce)
	for i := range done {
		group.Go(func() error {
			var err error
			if done[i], err = w.generateOne(ctx, d, w.request(ctx, d, r, i)); err != nil {
				return fmt.Errorf("prompt %d: %w", i, err)
			}
			return nil
		})
	}
	return done, group.Wait()
}

// request returns the engine's request for prompt i of a row.
func (w *Worker) request(ctx context.Context, d delivery, r *openai.Request, i int) generation.Request {
	req := d.Generation(r, i)
	req.Reserve = func(ctx context.Context, bytes int64) error { return d.memory.reserve(ctx, r.NumPrompts(), bytes) }
	req.Resume = d.resume.Resume(i)
	req.Progress = d.progress.reporting(i)
	if d.Live != nil {
		req.Interactive = true
		if r.Streamed() {
			req.Stream = w.announcing(ctx, d.Job, i)
		}
	}
	return req
}

// generateOne calls generate and turns a panic into an error. It runs on a separate goroutine, where a panic would end the process.
func (w *Worker) generateOne(ctx context.Context, d delivery, r generation.Request) (c generation.Completion, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = w.panicked(d, p)
		}
	}()
	return w.generate(ctx, r)
}

func (w *Worker) expired(d delivery) queue.Result {
	e := queue.ExpiredError(d.Job)
	return w.failure(d, e.Code, e.Message)
}

func (w *Worker) failure(d delivery, code, message string) queue.Result {
	r := queue.Failure(d.Job, openai.Error{Code: code, Message: message}, queue.Stats{
		QueueWaitMS: float64(d.wait().Milliseconds()),
		TotalMS:     float64(time.Since(d.start).Milliseconds()),
		Attempts:    d.attempt + d.Deaths,
		Origin:      w.origin,
	})
	var err error
	if r.Job, err = d.Encode(); err != nil {
		w.log.Error("could not store a failed job: its row cannot be queued again with ingot retry", "batch", d.Batch, "line", d.Line, "error", err)
	}
	return r
}

// alwaysTaken is a result size in bytes that every queue accepts.
const alwaysTaken = 1 << 20

// limited returns r, or an error result if r is larger than the queue accepts.
func (w *Worker) limited(ctx context.Context, j *queue.Job, r queue.Result) queue.Result {
	if len(r.Text) <= alwaysTaken {
		return r
	}
	most := 0
	err := queue.Retry(w.waiting, maxRecordWait, func() (err error) {
		most, err = w.queue.MaxBytes(ctx)
		return err
	})
	if err != nil || len(r.Text) <= most {
		return r // if the queue cannot be reached, recording the result fails too and reports it
	}
	return queue.TooLarge(j, len(r.Text), most, r.Stats)
}

// record records a result. It does so even if the lease is lost, since only the first result of a row counts. While the queue cannot be
// reached, record retries, but not longer than maxRecordWait, and not after the shutdown timeout of Run.
func (w *Worker) record(ctx context.Context, j *queue.Job, r queue.Result, log *slog.Logger) error {
	ctx = context.WithoutCancel(ctx)
	r = w.limited(ctx, j, r)
	first := false
	err := queue.Retry(w.waiting, maxRecordWait, func() (err error) {
		first, err = w.queue.Record(ctx, j.Batch, r)
		if notTaken(err) || errors.Is(err, queue.ErrSuperseded) || errors.Is(err, queue.ErrOtherModel) { // the queue answered
			w.pulse.recorded(time.Now(), nil)
		} else {
			w.pulse.recorded(time.Now(), err)
		}
		return err
	})
	switch {
	case notTaken(err):
		log.Warn("dropped a result: its batch is cancelled, was replaced, or does not exist any more")
		return nil
	case errors.Is(err, queue.ErrOtherModel): // meanwhile, the batch has recorded the answer of another model
		return errors.Join(w.refuse(ctx, j, err), w.queue.Release(ctx, j))
	case errors.Is(err, queue.ErrSuperseded):
		w.metrics.jobs.WithLabelValues("lease_lost").Inc()
		log.Warn("dropped a result: this worker sent no heartbeats for too long, so another worker has the job")
		return err
	case err != nil:
		log.Error("could not record a result: the job is delivered again", "error", err)
		return err
	case first:
		w.metrics.observe(r)
		log.Debug("recorded a job", "failed", r.Failed, "completion_tokens", r.Stats.CompletionTokens)
	}
	return nil
}

// notTaken reports whether an error means that the batch accepts no more results. The queue itself works.
func notTaken(err error) bool {
	return errors.Is(err, queue.ErrNoBatch) || errors.Is(err, queue.ErrCancelled) || errors.Is(err, queue.ErrOtherFile) ||
		errors.Is(err, queue.ErrNoRow)
}

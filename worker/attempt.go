package worker

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/openai"
	"github.com/ingot-run/ingot/queue"
)

// wait returns how long the row waited in the queue, in milliseconds.
func (r *row) wait() float64 { return float64(max(0, r.begun.UnixMilli()-r.EnqueuedMS)) }

// limit ends a context after the row's timeout, or at its deadline.
func (r *row) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	end := time.Now().Add(r.Timeout())
	if deadline, ok := r.Deadline(); ok && deadline.Before(end) {
		end = deadline
	}
	return context.WithDeadline(ctx, end)
}

// attempt generates and returns the row's answer.
func (w *Worker) attempt(ctx context.Context, r *row) (result queue.Result, err error) {
	ctx, cancel := r.limit(ctx)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			err = panicked(r.log, p)
		}
	}()
	request, err := r.Parse()
	if err != nil {
		return result, err
	}
	request.Recommend(w.recommended)
	var full atomic.Bool
	done, err := Complete(ctx, r.log, request.NumPrompts(), func(ctx context.Context, i int) (generation.Completion, error) {
		req := w.request(ctx, r, request, i)
		c, err := w.generate(ctx, req)
		if endedByContext(req, c) {
			full.Store(true)
		}
		return c, err
	})
	if err != nil {
		return result, err
	}
	origin, err := w.model.wait(ctx)
	if err != nil {
		return result, err
	}
	if w.config.Model == "" && request.Model() == w.config.Alias { // also if this is queue.DefaultAlias
		origin.Alias = request.Model()
	}
	return queue.Answered(r.Job, request, done, time.Now(), queue.Stats{
		QueueWaitMS: r.wait(), Attempts: r.Attempt + r.Deaths, Origin: origin, ContextFull: full.Load(),
	}), nil
}

// endedByContext reports whether a choice has fewer tokens than the request allows, because the
// context had no room for more.
func endedByContext(r generation.Request, c generation.Completion) bool {
	return !r.PromptOnly && slices.ContainsFunc(c.Choices, func(choice generation.Choice) bool {
		return choice.FinishReason == generation.FinishLength && (r.MaxTokens == 0 || len(choice.Tokens) < r.MaxTokens)
	})
}

func panicked(log *slog.Logger, p any) error {
	log.Error("panic in a job", "panic", p, "stack", string(debug.Stack()))
	return fmt.Errorf("internal error: %v", p)
}

const maxPromptsAtOnce = 16

// Complete generates the completions of n prompts of a row or request, several at once. generate is
// called with the index of each prompt. If there are several prompts, an error names the prompt. A
// panic becomes an error.
func Complete(ctx context.Context, log *slog.Logger, n int,
	generate func(ctx context.Context, prompt int) (generation.Completion, error),
) ([]generation.Completion, error) {
	done := make([]generation.Completion, n)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxPromptsAtOnce)
	one := func(i int) (err error) {
		defer func() {
			if p := recover(); p != nil { // on a goroutine of its own, a panic would end the process
				err = panicked(log, p)
			}
		}()
		done[i], err = generate(ctx, i)
		return err
	}
	if n == 1 {
		return done, one(0)
	}
	for i := range n {
		group.Go(func() error {
			if err := one(i); err != nil {
				return fmt.Errorf("prompt %d: %w", i, err)
			}
			return nil
		})
	}
	return done, group.Wait()
}

func (w *Worker) request(ctx context.Context, row *row, r *openai.Request, i int) generation.Request {
	req := row.Generation(r, i)
	req.Reserve = func(ctx context.Context, bytes int64) error { return row.memory.reserve(ctx, r.NumPrompts(), bytes) }
	req.Resume = row.resume.Resume(i)
	req.Progress = row.progress.reporting(i)
	if row.Live != nil {
		req.Interactive = true
		if r.Streamed() {
			req.Stream = w.announcing(ctx, row.Job, i)
		}
	}
	return req
}

// announcing returns the Stream function for one prompt of a job: it sends each piece of the answer
// to the job's client.
func (w *Worker) announcing(ctx context.Context, j *queue.Job, prompt int) func(generation.Piece) error {
	before := map[int]queue.Progress{}
	return func(p generation.Piece) error {
		so := before[p.Choice]
		w.announce(ctx, j, queue.Event{Prompt: prompt, Before: so, Piece: p})
		so.Add(p)
		before[p.Choice] = so
		return ctx.Err()
	}
}

// announce sends an event to the client of a job. For a row of a file it does nothing. A failure is
// only logged, since the client still gets the recorded result.
func (w *Worker) announce(ctx context.Context, j *queue.Job, e queue.Event) {
	if j.Live == nil {
		return
	}
	e.Batch = j.Batch
	message, err := e.Encode()
	if err == nil {
		err = w.queue.Announce(ctx, j.Live.Channel, message)
	}
	if err != nil {
		w.log.Debug("could not send an event to the client of a job", "batch", j.Batch, "error", err)
	}
}

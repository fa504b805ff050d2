package worker

import (
	"context"

	"github.com/ingot-run/ingot/generation"
	"github.com/ingot-run/ingot/job"
)

// announcing returns a function that announces the pieces of the choices of a job's prompt.
func (w *Worker) announcing(ctx context.Context, j *job.Job, prompt int) func(generation.Piece) error {
	before := map[int]job.Progress{}
	return func(p generation.Piece) error {
		so := before[p.Choice]
		w.announce(ctx, j, job.Event{Prompt: prompt, Before: so, Piece: p})
		so.Add(p)
		before[p.Choice] = so
		return ctx.Err()
	}
}

// announce announces an event of a job whose client waits. A failure does no harm: the client still gets the result at the end.
func (w *Worker) announce(ctx context.Context, j *job.Job, e job.Event) {
	if j.Live == nil {
		return
	}
	e.Batch = j.Batch
	message, err := e.Encode()
	if err == nil {
		err = w.queue.Announce(ctx, j.Live.Channel, message)
	}
	if err != nil {
		w.log.Debug("could not announce a part of an answer", "batch", j.Batch, "error", err)
	}
}

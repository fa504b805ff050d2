package worker

import (
	"context"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/queue"
)

// announcing returns the Stream function of the engine's request for one prompt of a job. It sends each piece of the answer to the job's
// client.
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

// announce sends an event to the client of a job. For a row of a file it does nothing. A failure is only logged, since the client still
// gets the recorded result.
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

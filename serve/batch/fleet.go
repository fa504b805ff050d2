package batch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/ingot-run/ingot/enqueue"
	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/queue"
)

// maxQueued is the maximum number of a model's batches that this server has in the queue at once.
// Workers answer them one after another. With more than one batch in the queue, no worker waits
// while the next one is enqueued.
const maxQueued = 4

// lostInterval is the interval between two searches for rows that are neither recorded nor in the
// queue.
const lostInterval = 30 * time.Second

// Fleet is a Runner that uses the workers of a queue. A batch has the same id in the queue as in
// the Store.
type Fleet struct {
	queue    queue.Queue
	version  string
	interval time.Duration // time between two searches for lost rows

	mu    sync.Mutex
	turns map[string]*turns // by model
}

// NewFleet returns a Fleet. version is the version of the program, for the results of rows that
// cannot be used.
func NewFleet(queue queue.Queue, version string) *Fleet {
	return &Fleet{queue: queue, version: version, interval: lostInterval, turns: map[string]*turns{}}
}

func (f *Fleet) turnsOf(model string) *turns {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.turns[model] == nil {
		f.turns[model] = newTurns(maxQueued)
	}
	return f.turns[model]
}

// Models implements Runner. It returns the models of live workers and of workers that were lost
// within the last hour. If there are none, it returns no names: any model is accepted, and rows
// wait for a worker.
func (f *Fleet) Models(ctx context.Context) ([]string, error) {
	workers, err := f.queue.Fleet(ctx)
	var names []string
	for _, w := range workers {
		names = append(names, w.Aliases...)
	}
	slices.Sort(names)
	return slices.Compact(names), err
}

// Run implements Runner.
func (f *Fleet) Run(ctx, stopped context.Context, t Task) error {
	if stopped.Err() == nil {
		waiting, cancel := until(ctx, stopped)
		defer cancel()
		err := f.turnsOf(t.Model).take(waiting, t.Batch)
		if err == nil {
			defer f.turnsOf(t.Model).giveBack()
			err = ignore(f.enqueue(waiting, t), queue.ErrCancelled) // collect returns the error
		}
		if err != nil && stopped.Err() == nil {
			return err
		}
	}
	f.warnOfContinued(ctx, t)
	out, err := t.Results()
	if err != nil {
		return err
	}
	var watching sync.WaitGroup
	defer watching.Wait()
	// Rows that were answered before the batch was stopped are still collected.
	collecting, abandon := context.WithCancelCause(ctx)
	defer abandon(nil)
	watching.Go(func() { f.watch(collecting, t.Batch, abandon) })
	detach := context.AfterFunc(stopped, func() {
		err := queue.UntilAvailable(ctx, maxCancelWait, func() error {
			_, err := f.queue.Cancel(ctx, t.Batch)
			return err
		})
		if ignore(err, queue.ErrNoBatch) != nil {
			abandon(err)
		}
	})
	defer detach()
	err = f.collect(collecting, out, t)
	if cause := context.Cause(collecting); cause != nil {
		return cause
	}
	switch {
	case stopped.Err() != nil:
		return ignore(ignore(err, queue.ErrNoBatch), queue.ErrCancelled)
	case errors.Is(err, queue.ErrCancelled):
		return fmt.Errorf("%w: the batch was cancelled in the queue", ErrHopeless)
	}
	return err
}

// warnOfContinued warns of texts to continue if a worker that can answer them has a model for
// chats.
func (f *Fleet) warnOfContinued(ctx context.Context, t Task) {
	workers, _ := f.queue.Fleet(ctx) // enqueuing or collecting the rows returns the error
	if slices.ContainsFunc(workers, func(w queue.Worker) bool { return w.Live() && w.Chat && w.Serves(t.Model) }) {
		t.warnOfContinued()
	}
}

// watch looks for rows that the queue has lost: a Redis that is killed can lose its last writes. If
// there are any, watch ends the attempt through abandon, and the next attempt queues them again.
func (f *Fleet) watch(ctx context.Context, batch string, abandon context.CancelCauseFunc) {
	tick := time.NewTicker(f.interval)
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		n := 0
		s, err := f.queue.Status(ctx, batch)
		if err == nil {
			n, err = f.queue.Missing(ctx, s)
		}
		if err == nil && n > 0 { // collect returns an error
			abandon(fmt.Errorf("the queue has lost %d rows, which are queued again", n))
		}
	}
}

const maxCancelWait = time.Minute

func ignore(err, target error) error {
	if errors.Is(err, target) {
		return nil
	}
	return err
}

// enqueue queues the rows of a batch that are neither queued nor recorded.
func (f *Fleet) enqueue(ctx context.Context, t Task) error {
	in, err := os.Open(t.Input)
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // the file was only read
	_, err = enqueue.Enqueue(ctx, f.queue, in, enqueue.Options{
		Batch: t.Batch, Alias: t.Model, Priority: queue.Bulk, Format: rows.FormatJSONL, Remote: true, Version: f.version,
		Deadline: time.Unix(t.Expires, 0),
	})
	if errors.Is(err, rows.ErrOtherFile) {
		return fmt.Errorf("%w: %w", ErrHopeless, err)
	}
	return err
}

// collect writes the results of all rows to out. If the queue has lost a result, another attempt
// would not get it either. So a lost result is not an error here, and the caller adds an error line
// for its row.
func (f *Fleet) collect(ctx context.Context, out *rows.Output, t Task) error {
	c, err := enqueue.Collect(ctx, f.queue, out, enqueue.CollectOptions{
		Follow: true, Free: true,
		Progress: func(s queue.Status) { t.Report(Tokens{s.PromptTokens, s.CompletionTokens}) },
	})
	switch {
	case errors.Is(err, rows.ErrOtherFile):
		return fmt.Errorf("%w: %w", ErrHopeless, err)
	case err == nil && c.Foreign > 0:
		return fmt.Errorf("%w: its results file has %d rows that the queue does not have", ErrHopeless, c.Foreign)
	case err == nil && c.Cancelled:
		return queue.ErrCancelled
	}
	return err
}

// Forget implements Runner.
func (f *Fleet) Forget(ctx context.Context, batch string) error {
	return ignore(f.queue.Purge(ctx, batch), queue.ErrNoBatch)
}

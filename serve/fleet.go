package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/enqueue"
	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/openai"
	"github.com/ingot-run/ingot/queue"
)

const (
	fleetAttempts = 3
	// fleetRetention is the time for which the queue keeps a result that was not read because the
	// server stopped.
	fleetRetention = 10 * time.Minute
	// resultPoll is the interval at which the server looks for a result whose event was lost.
	resultPoll = time.Second
	// lostPolls is the number of these intervals between two checks that the queue still has the
	// job of a request.
	lostPolls = 3
	// batchesAge is the age from which the list of batches is read again. Reading it is slow if the
	// queue has many rows.
	batchesAge = 3 * time.Second
	// endTime is the time limit for deleting or cancelling the job of a request after Answer has
	// returned.
	endTime = 10 * time.Second
)

// Fleet is an Answerer that uses the workers of a queue. Each request is a job with priority
// Interactive, and is the only row of its batch. The pieces of the answer arrive as events, and the
// result is recorded like that of any row.
type Fleet struct {
	queue   queue.Queue
	channel string // name of the channel on which workers send events to this server
	log     *slog.Logger

	mu    sync.Mutex
	calls map[string]*fleetCall // calls in progress, by batch id

	models fleetModels

	batches     sync.Mutex // guards the two fields below
	batchList   []queue.Status
	batchesFrom time.Time // when the list was read
}

type fleetCall struct {
	mu     sync.Mutex
	events []queue.Event // events that arrived and were not used yet
	news   chan struct{} // receives a value when an event was added
}

// NewFleet makes an Answerer that uses the workers of a queue. The caller must run Run while it
// uses the Fleet.
func NewFleet(queue queue.Queue, log *slog.Logger) *Fleet {
	return &Fleet{
		queue: queue, channel: "front-" + ulid.Make().String(), log: log, calls: map[string]*fleetCall{},
		models: fleetModels{queue: queue, byAlias: map[string]*fleetModel{}},
	}
}

// Run receives events from workers, watches which models they serve, and looks for workers that
// have died, until ctx is done. It calls ready when it begins to receive.
func (f *Fleet) Run(ctx context.Context, ready func()) error {
	watched, stop := context.WithCancel(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer stop()
	watching.Go(func() { f.models.watch(watched) })
	watching.Go(func() { f.queue.WatchWorkers(watched, f.log) })
	ready = sync.OnceFunc(ready)
	for {
		err := f.queue.Listen(ctx, f.channel, ready, f.receive)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && !errors.Is(err, queue.ErrUnavailable) {
			return fmt.Errorf("listen to events of workers: %w", err)
		}
		f.log.Warn("cannot listen to events of workers: streamed answers arrive in one piece until the queue can be reached", "error", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second):
		}
	}
}

func (f *Fleet) receive(message []byte) {
	e, err := queue.DecodeEvent(message)
	if err != nil {
		f.log.Warn("could not decode an event of a worker", "error", err) // e is of no call
	}
	f.mu.Lock()
	c := f.calls[e.Batch]
	f.mu.Unlock()
	if c == nil {
		return // the call has ended
	}
	c.mu.Lock()
	c.events = append(c.events, e)
	c.mu.Unlock()
	select {
	case c.news <- struct{}{}:
	default:
	}
}

// Models returns the models of the live workers, and those that workers have served within the last
// hour.
func (f *Fleet) Models(ctx context.Context) ([]Model, error) { return f.models.list(ctx) }

// Engine returns nil: the engines are in the workers' processes.
func (f *Fleet) Engine(string) *engine.Engine { return nil }

// Workers returns the workers of the queue.
func (f *Fleet) Workers(ctx context.Context) ([]queue.Worker, error) { return f.queue.Fleet(ctx) }

// Batches returns the batches of the queue that are not requests of servers. The list can be as old
// as batchesAge.
func (f *Fleet) Batches(ctx context.Context) ([]queue.Status, error) {
	f.batches.Lock()
	defer f.batches.Unlock()
	if time.Since(f.batchesFrom) < batchesAge {
		return f.batchList, nil
	}
	all, err := f.queue.Batches(ctx)
	if err != nil {
		return nil, err
	}
	f.batchList = slices.DeleteFunc(all, func(s queue.Status) bool { return s.Damage != "" || s.Priority == queue.Interactive })
	f.batchesFrom = time.Now()
	return f.batchList, nil
}

// Answer queues a call as a job and waits for a worker's answer.
func (f *Fleet) Answer(ctx context.Context, c Call) (Answer, error) {
	batch := "live-" + ulid.Make().String()
	waiting := &fleetCall{news: make(chan struct{}, 1)}
	f.mu.Lock()
	f.calls[batch] = waiting
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		delete(f.calls, batch)
		f.mu.Unlock()
		go f.end(context.WithoutCancel(ctx), batch)
	}()
	switch err := f.add(ctx, batch, c); {
	case errors.Is(err, queue.ErrNoBatch):
		return Answer{}, lostRequest()
	case err != nil:
		return Answer{}, err
	}
	stream := &fleetStream{call: c, have: map[position]queue.Progress{}, done: map[position]bool{}}
	poll, polls := time.NewTicker(resultPoll), 0
	defer poll.Stop()
	for {
		var look bool
		select {
		case <-ctx.Done():
			return Answer{}, ctx.Err()
		case <-waiting.news:
			var err error
			if look, err = stream.use(waiting); err != nil {
				return Answer{}, err
			}
		case <-poll.C:
			look = true
			polls++
		}
		if !look {
			continue
		}
		answer, found, err := f.result(ctx, batch, stream)
		if err != nil && !errors.Is(err, queue.ErrUnavailable) || found {
			return answer, err
		}
		if err == nil && f.models.abandoned(ctx, c.Model) {
			return Answer{}, away(c.Model)
		}
		if err == nil && polls >= lostPolls {
			if polls = 0; f.lost(ctx, batch) {
				return Answer{}, lostRequest()
			}
		}
	}
}

func lostRequest() error {
	return failLater(retryLater, http.StatusServiceUnavailable, "", "unavailable", "the queue has lost the request: send it again")
}

// lost reports whether no worker will answer the job of a call: the queue has lost it, as a Redis
// without persistence that restarts, or an operator has cancelled it.
func (f *Fleet) lost(ctx context.Context, batch string) bool {
	s, err := f.queue.Status(ctx, batch)
	if err != nil {
		return errors.Is(err, queue.ErrNoBatch)
	}
	n, err := f.queue.Missing(ctx, s)
	return err == nil && (n > 0 || s.State == queue.Cancelled)
}

func (f *Fleet) add(ctx context.Context, batch string, c Call) error {
	p, err := enqueue.NewProducer(ctx, f.queue, enqueue.Options{
		Batch: batch, Alias: c.Model, MaxAttempts: fleetAttempts, Retention: fleetRetention, Lines: 1,
		Live: &queue.Live{Channel: f.channel, Seed: c.Seed},
	}, "")
	if err != nil {
		return err
	}
	if len(c.Body) > p.MaxBody() {
		return failf(http.StatusRequestEntityTooLarge, "", "request_too_large", "the request has %d bytes, but the queue accepts at most %d", len(c.Body), p.MaxBody())
	}
	if _, err := p.Add(ctx, rows.Row{Line: 1, Sum: "00000000", CustomID: c.ID, Endpoint: c.Request.Endpoint(), Body: c.Body}); err != nil {
		return err
	}
	return p.Seal(ctx, 1, "")
}

func (f *Fleet) result(ctx context.Context, batch string, stream *fleetStream) (answer Answer, found bool, err error) {
	recorded, err := f.queue.Read(ctx, batch, queue.Page{Count: 1, MaxBytes: openai.MaxOutputLine, Want: func(queue.Recording) bool { return true }})
	if err != nil || len(recorded) == 0 || recorded[0].Text == nil {
		return Answer{}, false, err
	}
	var line struct {
		Response *struct {
			Body json.RawMessage `json:"body"`
		} `json:"response"`
		Error *openai.Error `json:"error"`
		Stats queue.Stats   `json:"stats"`
	}
	if err := json.Unmarshal(recorded[0].Text, &line); err != nil {
		return Answer{}, true, fmt.Errorf("read the result of a worker: %w", err)
	}
	if line.Error != nil || line.Response == nil {
		return Answer{}, true, workerError(line.Error)
	}
	answer = Answer{Body: line.Response.Body, Stats: line.Stats}
	if stream.call.Stream == nil {
		return answer, true, nil
	}
	return answer, true, stream.finish(line.Response.Body)
}

// workerError returns the error of a request whose job has ended without a response. e is the error
// that the worker recorded, or nil if it recorded none.
func workerError(e *openai.Error) error {
	if e == nil {
		return errors.New("a worker recorded neither a response nor an error")
	}
	made := *e
	made.Message = strings.TrimPrefix(made.Message, "line 1: ")
	switch e.Code {
	case openai.CodeContext:
		return generation.TooLong("%s", made.Message)
	case openai.CodeBadRequest:
		return generation.BadRequest("%s", made.Message)
	case openai.CodeTimeout, openai.CodeFailed, openai.CodeTooLarge, openai.CodeAbandoned, openai.CodeExpired:
		return failf(http.StatusInternalServerError, "", e.Code, "%s", made.Message)
	}
	return &made
}

// end deletes the batch of a job that has ended. If the job has not ended, because the client has
// left, it cancels the job.
func (f *Fleet) end(ctx context.Context, batch string) {
	ctx, cancel := context.WithTimeout(ctx, endTime)
	defer cancel()
	finished, err := f.queue.Cancel(ctx, batch)
	if err == nil && finished { // a cancelled batch stays, since its worker must read that it was cancelled
		err = f.queue.Purge(ctx, batch)
	}
	if err != nil && !errors.Is(err, queue.ErrNoBatch) {
		f.log.Warn("could not end the job of a request", "batch", batch, "error", err)
	}
}

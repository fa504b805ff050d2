package serve

import (
	"cmp"
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
	"github.com/ingot-run/ingot/generation"
	"github.com/ingot-run/ingot/job"
	"github.com/ingot-run/ingot/openai"
)

const (
	// fleetTimeout is the maximum time of an attempt at a request.
	fleetTimeout = time.Hour
	// fleetAttempts is the maximum number of attempts.
	fleetAttempts = 3
	// fleetRetention is the time for which a result is kept if its server stops before it reads the result.
	fleetRetention = 10 * time.Minute
	// resultPoll is the time between looks for a result whose event was lost.
	resultPoll = time.Second
	// modelsAge is the maximum age of the list of models.
	modelsAge = time.Second
	// endTime is the time for calls that end a job after its client is gone.
	endTime = 10 * time.Second
)

// Fleet is an Answerer with the workers of a queue. A request is a job of priority Interactive, the only one of its batch. Its pieces
// come as events, and its result like that of any row.
type Fleet struct {
	queue   job.Queue
	channel string // channel of this server's events
	log     *slog.Logger
	since   time.Time

	mu    sync.Mutex
	calls map[string]*fleetCall // by batch

	models    sync.Mutex
	known     []Model
	knownFrom time.Time
}

// fleetCall is a call that waits for its answer.
type fleetCall struct {
	mu     sync.Mutex
	events []job.Event // events that were not used yet
	news   chan struct{}
}

// NewFleet makes an Answerer with the workers of a queue. Run must run while it is used.
func NewFleet(queue job.Queue, log *slog.Logger) *Fleet {
	return &Fleet{queue: queue, channel: "front-" + ulid.Make().String(), log: log, since: time.Now(), calls: map[string]*fleetCall{}}
}

// Run listens to the workers until ctx is done. ready is called when it listens for the first time.
func (f *Fleet) Run(ctx context.Context, ready func()) error {
	ready = sync.OnceFunc(ready)
	for {
		err := f.queue.Listen(ctx, f.channel, ready, f.receive)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // it was told to stop
		}
		if err != nil && !errors.Is(err, job.ErrUnavailable) {
			return fmt.Errorf("listen to workers: %w", err)
		}
		f.log.Warn("cannot listen to workers: streams come in one piece until the queue can be reached", "error", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second):
		}
	}
}

// receive passes an event to its call.
func (f *Fleet) receive(message []byte) {
	e, err := job.DecodeEvent(message)
	if err != nil {
		f.log.Warn("a worker sent something that is not an event", "error", err)
		return
	}
	f.mu.Lock()
	c := f.calls[e.Batch]
	f.mu.Unlock()
	if c == nil {
		return // its client is gone
	}
	c.mu.Lock()
	c.events = append(c.events, e)
	c.mu.Unlock()
	select {
	case c.news <- struct{}{}:
	default:
	}
}

// Models returns the models of the workers that are alive.
func (f *Fleet) Models(ctx context.Context) ([]Model, error) {
	f.models.Lock()
	defer f.models.Unlock()
	if time.Since(f.knownFrom) < modelsAge {
		return slices.Clone(f.known), nil
	}
	workers, err := f.queue.Fleet(ctx)
	if err != nil {
		return nil, err
	}
	byAlias := map[string]Model{}
	for _, w := range workers {
		for _, alias := range w.Aliases {
			if m, ok := byAlias[alias]; w.Live() && (!ok || w.Started.Before(m.Since)) {
				byAlias[alias] = Model{Alias: alias, Name: w.Model, Since: w.Started, Context: w.Context}
			}
		}
	}
	f.known = nil
	for _, m := range byAlias {
		f.known = append(f.known, m)
	}
	slices.SortFunc(f.known, func(a, b Model) int { return strings.Compare(a.Alias, b.Alias) })
	f.knownFrom = time.Now()
	return slices.Clone(f.known), nil
}

// Engine returns nil: the engines are with the workers.
func (f *Fleet) Engine(string) *engine.Engine { return nil }

// Workers returns the workers of the queue.
func (f *Fleet) Workers(ctx context.Context) ([]job.Worker, error) { return f.queue.Fleet(ctx) }

// Answer has a worker answer a call.
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
	if err := f.add(ctx, batch, c); err != nil {
		return Answer{}, err
	}
	stream := &fleetStream{call: c, have: map[position]job.Progress{}, done: map[position]bool{}}
	poll := time.NewTicker(resultPoll)
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
		}
		if !look {
			continue
		}
		answer, found, err := f.result(ctx, batch, stream)
		if err != nil && !errors.Is(err, job.ErrUnavailable) || found {
			return answer, err
		}
	}
}

// add queues the job of a call.
func (f *Fleet) add(ctx context.Context, batch string, c Call) error {
	_, _, err := f.queue.Create(ctx, job.Batch{ID: batch, Alias: c.Model, Priority: job.Interactive, Retention: fleetRetention, Lines: 1})
	if err != nil {
		return err
	}
	j := &job.Job{
		Batch: batch, Line: 1, Sum: "00000000", CustomID: c.ID, Endpoint: c.Request.Endpoint(), Body: c.Body,
		EnqueuedMS: c.Created.UnixMilli(), TimeoutMS: fleetTimeout.Milliseconds(), MaxAttempts: fleetAttempts,
		Live: &job.Live{Channel: f.channel, Seed: c.Seed},
	}
	if most, err := f.queue.MaxBytes(ctx); err != nil || len(c.Body) > most-jobFields {
		return cmp.Or(err, failf(http.StatusRequestEntityTooLarge, "", "request_too_large", "the request has %d bytes, more than the queue takes", len(c.Body)))
	}
	if _, err := f.queue.Add(ctx, c.Model, job.Interactive, []*job.Job{j}); err != nil {
		return err
	}
	return f.queue.Seal(ctx, batch, 1, "")
}

// jobFields is the maximum size of a job without its body, in bytes.
const jobFields = 16 << 10

// result reads the result of a call, if there is one.
func (f *Fleet) result(ctx context.Context, batch string, stream *fleetStream) (answer Answer, found bool, err error) {
	recorded, err := f.queue.Read(ctx, batch, job.Page{Count: 1, MaxBytes: openai.MaxOutputLine, Want: func(int) bool { return true }})
	if err != nil || len(recorded) == 0 || recorded[0].Text == nil {
		return Answer{}, false, err
	}
	var line struct {
		Response *struct {
			Body json.RawMessage `json:"body"`
		} `json:"response"`
		Error *openai.Error `json:"error"`
		Stats job.Stats     `json:"stats"`
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

// workerError turns the error of a row into that of a request.
func workerError(e *openai.Error) error {
	if e == nil {
		return errors.New("a worker recorded neither a response nor an error")
	}
	made := *e
	made.Message = strings.TrimPrefix(made.Message, "line 1: ")
	switch e.Code {
	case openai.CodeBadRequest:
		return generation.BadRequest("%s", made.Message)
	case openai.CodeTimeout, openai.CodeFailed, openai.CodeTooLarge, openai.CodeAbandoned, openai.CodeExpired:
		return failf(http.StatusInternalServerError, "", e.Code, "%s", made.Message)
	}
	return &made
}

// end removes a job that has ended, or ends it: its client is gone or has the answer.
func (f *Fleet) end(ctx context.Context, batch string) {
	ctx, cancel := context.WithTimeout(ctx, endTime)
	defer cancel()
	finished, err := f.queue.Cancel(ctx, batch)
	if err == nil && finished { // otherwise its worker has to find out why it ended
		err = f.queue.Purge(ctx, batch)
	}
	if err != nil && !errors.Is(err, job.ErrNoBatch) {
		f.log.Warn("could not end a request", "batch", batch, "error", err)
	}
}

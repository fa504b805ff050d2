package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/openai"
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/worker"
)

// Alone is an Answerer that uses engines in this process.
type Alone struct {
	engines map[string]*engine.Engine // by alias
	speeds  map[string]*queue.Speed   // by alias
	version string
	since   time.Time
}

// NewAlone makes an Answerer that uses the given engines. The keys are their aliases. The caller
// closes the engines after the server has ended.
func NewAlone(engines map[string]*engine.Engine, version string) (*Alone, error) {
	a := &Alone{engines: engines, version: version, since: time.Now(), speeds: map[string]*queue.Speed{}}
	for alias := range engines {
		if err := queue.CheckAlias(alias); err != nil {
			return nil, err
		}
		a.speeds[alias] = &queue.Speed{}
		a.speeds[alias].Measure(engines[alias].Snapshot().GeneratedTokens, a.since) // so that the first request already shows a speed
	}
	return a, nil
}

// Models returns the models of the engines.
func (a *Alone) Models(context.Context) ([]Model, error) {
	var models []Model
	for _, alias := range slices.Sorted(maps.Keys(a.engines)) {
		info := a.engines[alias].Info()
		models = append(models, Model{Alias: alias, Name: info.FileName(), Since: a.since, Context: info.Context, Chat: info.Chat})
	}
	return models, nil
}

// Engine returns the engine of an alias.
func (a *Alone) Engine(alias string) *engine.Engine { return a.engines[alias] }

// Workers returns one record for each engine.
func (a *Alone) Workers(context.Context) ([]queue.Worker, error) {
	var workers []queue.Worker
	for _, alias := range slices.Sorted(maps.Keys(a.engines)) {
		info, now := a.engines[alias].Info(), a.engines[alias].Snapshot()
		workers = append(workers, queue.Worker{
			Name: "this server", Aliases: []string{alias}, Model: info.FileName(), Version: a.version, Backend: info.Backend, Device: info.Device,
			Rows: now.Running, TokensPerSecond: a.speeds[alias].Measure(now.GeneratedTokens, time.Now()), Started: a.since,
		})
	}
	return workers, nil
}

// Answer answers a call with the engine of its model.
func (a *Alone) Answer(ctx context.Context, c Call) (Answer, error) {
	eng := a.engines[c.Model]
	if eng == nil {
		return Answer{}, fmt.Errorf("there is no engine for the model %q", c.Model)
	}
	info := eng.Info()
	c.Request.Recommend(info.Recommended)
	prompts := c.Request.NumPrompts()
	if c.Stream != nil && prompts > 1 { // all prompts are checked before the first one is answered
		for i := range prompts {
			if _, err := eng.Prompt(ctx, c.Request.Generation(i, c.Seed, c.Created)); err != nil {
				return Answer{}, fmt.Errorf("prompt %d: %w", i, err)
			}
		}
	}
	var streaming sync.Mutex
	done, err := worker.Complete(ctx, slog.Default(), prompts, func(ctx context.Context, i int) (generation.Completion, error) {
		return eng.Generate(ctx, c.request(i, &streaming))
	})
	if err != nil {
		return Answer{}, errors.Join(ctx.Err(), err)
	}
	sha, err := eng.SHA256(ctx)
	if err != nil {
		return Answer{}, err
	}
	stats := queue.Stats{Origin: queue.Origin{
		Backend: info.Backend, Device: info.Device, Model: info.Model, ModelSHA256: sha, Version: a.version,
		Arithmetic: info.Arithmetic, Sampling: info.Recommended.String(), Context: info.Context,
	}}
	stats.Add(done)
	return Answer{
		Body: c.Request.Response(openai.Answer{
			ID: c.ID, Created: c.Created, Model: c.Model, Fingerprint: stats.Fingerprint(), Seed: c.Seed,
		}, done),
		Stats: stats,
	}, nil
}

// request returns the engine's request for prompt i. The Stream function of the result holds lock
// while it calls c.Stream.
func (c *Call) request(i int, lock *sync.Mutex) generation.Request {
	req := c.Request.Generation(i, c.Seed, c.Created)
	req.Interactive = true
	if c.Stream != nil {
		req.Stream = func(p generation.Piece) error {
			lock.Lock()
			defer lock.Unlock()
			return c.Stream(i, p)
		}
	}
	return req
}

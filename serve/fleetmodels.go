package serve

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ingot-run/ingot/queue"
)

const (
	// modelsAge is the age from which the list of models is read again.
	modelsAge = time.Second
	// listTime is the time limit for reading the list.
	listTime = 5 * time.Second
	// modelMemory is the time for which a model stays known after its last worker has gone.
	modelMemory = time.Hour
	// maxAbsence is the time that requests wait for another worker when the last one has gone.
	maxAbsence = 5 * time.Second
)

// fleetModels knows the models that the workers of a queue serve, and those that they have served
// lately.
type fleetModels struct {
	queue queue.Queue

	mu      sync.Mutex
	byAlias map[string]*fleetModel
	from    time.Time // when the workers were listed
	err     error     // why they could not be listed then
}

type fleetModel struct {
	Model
	gone time.Time // when the queue was first seen without a worker of the model; zero while there is one
}

// watch reads the list of models at intervals, so that models are known although no request asked
// for them, until ctx is done.
func (m *fleetModels) watch(ctx context.Context) {
	tick := time.NewTicker(2 * modelsAge)
	defer tick.Stop()
	for {
		m.list(ctx) //nolint:errcheck // requests report that the queue cannot be used
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// list returns the known models, sorted by alias.
func (m *fleetModels) list(ctx context.Context) ([]Model, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.refresh(ctx); err != nil {
		return nil, err
	}
	all := make([]Model, 0, len(m.byAlias))
	for _, known := range m.byAlias {
		all = append(all, known.Model)
	}
	slices.SortFunc(all, func(a, b Model) int { return strings.Compare(a.Alias, b.Alias) })
	return all, nil
}

// abandoned reports whether a request for a model should wait no longer, because no worker has
// served the model for maxAbsence. It is false while the queue cannot be used.
func (m *fleetModels) abandoned(ctx context.Context, alias string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.refresh(ctx) != nil {
		return false
	}
	known := m.byAlias[alias]
	return known == nil || known.Away && time.Since(known.gone) >= maxAbsence
}

// refresh lists the workers, unless this was done a moment ago. m.mu must be held. The list does
// not end with the request that needs it first, since others wait for it too.
func (m *fleetModels) refresh(ctx context.Context) error {
	if time.Since(m.from) < modelsAge {
		return m.err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), listTime)
	defer cancel()
	var workers []queue.Worker
	workers, m.err = m.queue.Fleet(ctx)
	m.from = time.Now()
	if m.err != nil {
		return m.err
	}
	live := map[string]Model{}
	for _, w := range workers {
		for _, alias := range w.Aliases {
			if first, ok := live[alias]; w.Live() && (!ok || w.Started.Before(first.Since)) {
				live[alias] = Model{Alias: alias, Name: w.Model, Since: w.Started, Context: w.Context, Chat: w.Chat}
			}
			if m.byAlias[alias] == nil && (w.Live() || m.from.Sub(w.Lost) < modelMemory) {
				m.byAlias[alias] = &fleetModel{Model: Model{Alias: alias, Name: w.Model, Since: w.Started, Context: w.Context, Chat: w.Chat}}
			}
		}
	}
	for alias, known := range m.byAlias {
		now, ok := live[alias]
		switch {
		case ok:
			*known = fleetModel{Model: now}
		case !known.Away:
			known.Away, known.gone = true, m.from
		case m.from.Sub(known.gone) > modelMemory:
			delete(m.byAlias, alias)
		}
	}
	return nil
}

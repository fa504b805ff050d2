package worker

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/ingot-run/ingot/job"
)

// Device is an engine with the number of its device.
type Device struct {
	Number int
	Engine Engine
}

// Group is the workers of one process, one for each device. They share the jobs through the queue: each takes jobs as it has room.
type Group struct {
	workers  []*Worker
	registry *prometheus.Registry
}

// NewGroup makes a worker on each engine, each with the Concurrency of c. If there are several engines, the number of the device is added
// to their names and is a label of their metrics.
func NewGroup(devices []Device, queue job.Queue, c Config) (*Group, error) {
	g := &Group{registry: newRegistry()}
	rows := newAdmission() // shared, since a row that ends the process ends all its workers
	for _, d := range devices {
		one, to := c, prometheus.Registerer(g.registry)
		if len(devices) > 1 {
			number := strconv.Itoa(d.Number)
			one.Name = c.name() + "/" + number
			to = prometheus.WrapRegistererWith(prometheus.Labels{"device": number}, to)
		}
		w, err := newWorker(d.Engine, queue, one, g.registry, to, rows)
		if err != nil {
			return nil, err
		}
		g.workers = append(g.workers, w)
	}
	return g, nil
}

// Run runs the workers as Worker.Run does. If one of them ends with an error, the others stop too.
func (g *Group) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, w := range g.workers {
		group.Go(func() error { return w.Run(ctx) })
	}
	return group.Wait()
}

// Handler serves the pages of Worker.Handler for all workers together. The group is ready or healthy if all its workers are.
func (g *Group) Handler() http.Handler {
	return handler(g.registry, g.each((*Worker).ready), g.each((*Worker).healthy))
}

// each returns a check of all workers.
func (g *Group) each(check func(*Worker) error) func() error {
	return func() error {
		if len(g.workers) == 1 {
			return check(g.workers[0])
		}
		var failed error
		for _, w := range g.workers {
			if err := check(w); err != nil {
				failed = errors.Join(failed, fmt.Errorf("%s: %w", w.config.Name, err))
			}
		}
		return failed
	}
}

// Serve serves Handler on an address until ctx is done. An error means that it could not listen or serve.
func (g *Group) Serve(ctx context.Context, addr string) error {
	return listenAndServe(ctx, addr, g.Handler(), g.workers[0].log)
}

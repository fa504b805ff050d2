package worker

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/ingot-run/ingot/queue"
)

// Device is an engine and the number of the GPU on which it runs.
type Device struct {
	Number int
	Engine Engine
}

// Group has the workers of one process, one for each device. Each worker takes jobs from the queue by itself.
type Group struct {
	workers  []*Worker
	registry *prometheus.Registry
}

// NewGroup makes a worker on each engine. c applies to each worker, including its Concurrency. If there are several engines, the device
// number is part of each worker's name and a label of its metrics.
func NewGroup(devices []Device, queue queue.Queue, c Config) (*Group, error) {
	g := &Group{registry: newRegistry()}
	rows := newAdmission() // shared by all workers, since a row that kills the process kills all of them
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

// each returns a function that runs a check on all workers and joins their errors.
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

// Serve serves Handler on an address until ctx is done. It returns an error if it cannot listen or serve.
func (g *Group) Serve(ctx context.Context, addr string) error {
	return listenAndServe(ctx, addr, g.Handler(), g.workers[0].log)
}

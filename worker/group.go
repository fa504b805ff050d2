package worker

import (
	"context"
	"errors"
	"fmt"
	"net"
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

// Group has the workers of one process, one for each device. Each worker takes jobs from the queue
// by itself.
type Group struct {
	workers  []*Worker
	registry *prometheus.Registry
}

// NewGroup makes a worker on each engine. c applies to each worker, including its Concurrency. If
// there are several engines, the device number is part of each worker's name and a label of its
// metrics.
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
		w, err := newWorker(d.Engine, queue, one, to, rows)
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

// Handler serves /metrics for Prometheus, and the checks /readyz and /healthz. A check answers 200
// if it holds for all workers, or 503 with the reason. A worker is not ready if it could not take
// rows or record results for readyTimeout, and not healthy after aliveTimeout. A worker whose
// engine makes no progress is neither ready nor healthy. A stopping worker is healthy but not
// ready.
func (g *Group) Handler() http.Handler {
	return handler(g.registry, g.each((*Worker).ready), g.each((*Worker).healthy))
}

func (g *Group) each(check func(*Worker, context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		if len(g.workers) == 1 {
			return check(g.workers[0], ctx)
		}
		var failed error
		for _, w := range g.workers {
			if err := check(w, ctx); err != nil {
				failed = errors.Join(failed, fmt.Errorf("%s: %w", w.config.Name, err))
			}
		}
		return failed
	}
}

// Serve serves Handler on an address until ctx is done. It returns an error if it cannot listen or
// serve.
func (g *Group) Serve(ctx context.Context, addr string) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("serve metrics: %w", err)
	}
	g.workers[0].log.Info("serving /metrics, /healthz and /readyz", "address", listener.Addr().String())
	return serve(ctx, listener, g.Handler())
}

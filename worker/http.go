package worker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// If a worker could not get an answer to a request for rows, or could not record a result, it is
// not ready after readyTimeout and not healthy after aliveTimeout.
const (
	readyTimeout = 10 * time.Second
	aliveTimeout = time.Minute
)

func handler(registry *prometheus.Registry, ready, healthy func(context.Context) error) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.Handle("GET /readyz", Check(ready))
	mux.Handle("GET /healthz", Check(healthy))
	return mux
}

func (w *Worker) ready(context.Context) error {
	if w.drain.stopping.Load() {
		return errors.New("the worker is stopping")
	}
	return w.health(w.readyTimeout)
}

func (w *Worker) healthy(context.Context) error { return w.health(w.aliveTimeout) }

// Check returns a handler that answers 200 if health returns nil, otherwise 503 with the error.
func Check(health func(context.Context) error) http.Handler {
	return http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if err := health(r.Context()); err != nil {
			http.Error(out, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(out, "ok") //nolint:errcheck // fails only if the client has closed the connection
	})
}

func (w *Worker) health(limit time.Duration) error {
	now := time.Now()
	if err := w.pulse.check(now, w.queue.LastFetch(), limit); err != nil {
		return err
	}
	return w.watchdog.check(w.snapshot(), now)
}

func serve(ctx context.Context, listener net.Listener, h http.Handler) error {
	server := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       2 * time.Minute,
	}
	stop := context.AfterFunc(ctx, func() {
		server.Close() //nolint:errcheck // running scrapes are cut off
	})
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve metrics: %w", err)
	}
	return nil
}

package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// If a worker could not get an answer to a request for rows, or could not record a result, it is not ready after readyPatience and not
// healthy after alivePatience.
const (
	readyPatience = 10 * time.Second
	alivePatience = time.Minute
)

// Handler serves /metrics for Prometheus, and the checks /readyz and /healthz. A check answers 200, or 503 with the reason. A worker is
// not ready if it could not take rows or record results for readyPatience, and not healthy after alivePatience. A worker whose engine
// makes no progress is neither ready nor healthy. A stopping worker is healthy but not ready.
func (w *Worker) Handler() http.Handler { return handler(w.registry, w.ready, w.healthy) }

func handler(registry *prometheus.Registry, ready, healthy func() error) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.Handle("GET /readyz", check(ready))
	mux.Handle("GET /healthz", check(healthy))
	return mux
}

func (w *Worker) ready() error {
	if w.stopping.Load() {
		return errors.New("the worker is stopping")
	}
	return w.health(w.readyPatience)
}

func (w *Worker) healthy() error { return w.health(w.alivePatience) }

// check returns a handler that answers 200 if health returns nil, otherwise 503 with the error.
func check(health func() error) http.Handler {
	return http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) {
		if err := health(); err != nil {
			http.Error(out, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(out, "ok") //nolint:errcheck // fails only if the client has closed the connection
	})
}

func (w *Worker) health(patience time.Duration) error {
	now := time.Now()
	if err := w.pulse.check(now, w.queue.LastFetch(), patience); err != nil {
		return err
	}
	return w.engine.check(w.snapshot(), now)
}

// Serve serves Handler on an address until ctx is done. It returns an error if it cannot listen or serve.
func (w *Worker) Serve(ctx context.Context, addr string) error {
	return listenAndServe(ctx, addr, w.Handler(), w.log)
}

func listenAndServe(ctx context.Context, addr string, h http.Handler, log *slog.Logger) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("serve metrics: %w", err)
	}
	log.Info("serving /metrics, /healthz and /readyz", "address", listener.Addr().String())
	return serve(ctx, listener, h)
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

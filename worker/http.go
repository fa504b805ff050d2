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

// A worker is not ready if it could not reach the queue for rows, or record a result, for readyPatience. It is not healthy after
// alivePatience.
const (
	readyPatience = 10 * time.Second
	alivePatience = time.Minute
)

// Handler serves /metrics for Prometheus, and /readyz and /healthz, which answer 200, or 503 with the reason. A worker is ready if
// it can take rows and record results. It is healthy until it has failed to do so for a longer time. If the engine makes no
// progress, the worker is neither ready nor healthy. A worker that is stopping is healthy but not ready.
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

// check serves the outcome of a check.
func check(health func() error) http.Handler {
	return http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) {
		if err := health(); err != nil {
			http.Error(out, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(out, "ok") //nolint:errcheck // the client is gone
	})
}

func (w *Worker) health(patience time.Duration) error {
	now := time.Now()
	if err := w.pulse.check(now, w.queue.LastFetch(), patience); err != nil {
		return err
	}
	return w.engine.check(w.snapshot(), now)
}

// Serve serves Handler on an address until ctx is done. An error means that it could not listen or serve.
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
		server.Close() //nolint:errcheck // scrapes can be cut
	})
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve metrics: %w", err)
	}
	return nil
}

package worker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Handler serves /metrics for Prometheus, and /healthz. The latter answers 200 if the queue is reachable and the engine makes
// progress, otherwise 503 with the reason.
func (w *Worker) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(w.metrics.registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(out http.ResponseWriter, r *http.Request) {
		if err := w.health(r.Context()); err != nil {
			http.Error(out, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(out, "ok") //nolint:errcheck // the client is gone
	})
	return mux
}

func (w *Worker) health(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	if err := w.queue.Ping(ctx); err != nil {
		return err
	}
	return w.engine.check(w.snapshot(), time.Now())
}

// Serve serves Handler on an address until ctx is done. An error means that it could not listen or serve.
func (w *Worker) Serve(ctx context.Context, addr string) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("serve metrics: %w", err)
	}
	w.log.Info("serving /metrics and /healthz", "address", listener.Addr().String())
	return w.serve(ctx, listener)
}

func (w *Worker) serve(ctx context.Context, listener net.Listener) error {
	server := &http.Server{
		Handler:           w.Handler(),
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

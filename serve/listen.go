package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
)

// maxHeader is the maximum size of a request's headers, in bytes.
const maxHeader = 64 << 10

// Serve answers requests on a listener until ctx is done. Running requests then have Options.DrainTime to finish; the connections of
// others are closed. config is nil for HTTP without TLS.
func (s *Server) Serve(ctx context.Context, listener net.Listener, config *tls.Config) error {
	server := &http.Server{
		Handler:           s.Handler(),
		ReadHeaderTimeout: s.options.HeaderTimeout,
		IdleTimeout:       s.options.IdleTimeout,
		MaxHeaderBytes:    maxHeader,
		TLSConfig:         config,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug), // what clients do wrong
	}
	ended := make(chan error, 1)
	go func() {
		if config != nil {
			ended <- server.ServeTLS(listener, "", "")
			return
		}
		ended <- server.Serve(listener)
	}()
	select {
	case err := <-ended:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	s.draining.Store(true)
	s.log.Info("stopping: running requests may finish", "timeout", s.options.DrainTime)
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.options.DrainTime)
	defer cancel()
	if err := server.Shutdown(limited); err != nil {
		s.cut()
		if err := server.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			return fmt.Errorf("serve: %w", err)
		}
	}
	s.log.Info("stopped")
	return nil
}

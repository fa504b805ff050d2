package serve

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

const maxHeader = 64 << 10

// cutTime is the time that handlers get for sending errors to the clients of requests that were cut
// off.
const cutTime = time.Second

// Serve answers requests on a listener until ctx is done. It then waits at most limits.drain for
// running requests, and closes the connections of those that are not finished. config is nil for
// HTTP without TLS.
func (s *Server) Serve(ctx context.Context, listener net.Listener, config *tls.Config) error {
	server := &http.Server{
		Handler:           s.Handler(),
		ReadHeaderTimeout: s.options.limits.header,
		IdleTimeout:       s.options.limits.idle,
		MaxHeaderBytes:    maxHeader,
		TLSConfig:         config,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug), // errors caused by clients
	}
	recording, stopRecording := context.WithCancel(ctx)
	defer stopRecording()
	go s.console.Record(recording)
	ended := make(chan error, 1)
	go func() {
		if config != nil {
			ended <- server.ServeTLS(listener, "", "")
		} else {
			ended <- server.Serve(listener)
		}
	}()
	select {
	case err := <-ended:
		return fmt.Errorf("accept connections: %w", err)
	case <-ctx.Done():
	}
	s.draining.Store(true)
	s.log.Info("stopping: waiting for running requests", "timeout", s.options.limits.drain)
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.options.limits.drain)
	defer cancel()
	if server.Shutdown(limited) != nil {
		s.cutConnections(context.WithoutCancel(ctx), server)
	}
	s.log.Info("stopped")
	return nil
}

// cutConnections cuts off the requests that are still running: each gets an error. After cutTime,
// it closes all connections.
func (s *Server) cutConnections(ctx context.Context, server *http.Server) {
	s.log.Warn("running requests are cut off")
	s.cut()
	limited, cancel := context.WithTimeout(ctx, cutTime)
	defer cancel()
	if server.Shutdown(limited) != nil {
		server.Close() //nolint:errcheck // the listener is closed already
	}
}

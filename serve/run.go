package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"

	"golang.org/x/sync/errgroup"

	"github.com/ingot-run/ingot/serve/batch"
)

// ErrPublic means that other machines could use a server without API keys.
var ErrPublic = errors.New("other machines could use the server without a key")

// Listen opens the address of a server. Unless public is true, the error is ErrPublic for an
// address that other machines can reach.
func Listen(ctx context.Context, address string, public bool) (net.Listener, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("serve: %w (--listen sets the address)", err)
	}
	if at, ok := listener.Addr().(*net.TCPAddr); public || ok && at.IP.IsLoopback() {
		return listener, nil
	}
	return nil, errors.Join(ErrPublic, listener.Close())
}

// ReadCertificate returns the settings of HTTPS for the files of a certificate and its key.
func ReadCertificate(certificate, key string) (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("read the files of --tls-cert and --tls-key: %w", err)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, nil
}

// Source is what a server gets its answers from.
type Source struct {
	Answerer Answerer
	Queued   Queued // nil without a fleet
	Batches  batch.Runner
	Run      func(ctx context.Context) error // runs until the server has ended; nil if the source needs no goroutine
	Close    func() error
}

// Run calls Serve, and runs the batches of the server's store and the source. When ctx is done,
// batches stop at once. The source stops when the server has finished its running requests.
func (s *Server) Run(ctx context.Context, from *Source, listener net.Listener, config *tls.Config) error {
	group, ctx := errgroup.WithContext(ctx)
	if store := s.options.Store; store != nil {
		group.Go(func() error {
			store.Run(ctx, from.Batches)
			return nil
		})
	}
	working, stop := context.WithCancel(context.WithoutCancel(ctx)) // not cancelled while running requests finish
	defer stop()
	if from.Run != nil {
		group.Go(func() error { return from.Run(working) })
	}
	group.Go(func() error {
		defer stop()
		return s.Serve(ctx, listener, config)
	})
	return group.Wait()
}

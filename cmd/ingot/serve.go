package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/ingot-run/ingot/config"
	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/serve"
	"github.com/ingot-run/ingot/serve/batch"
)

// defaultListen is where serve listens if --listen is not given: nobody on another machine can reach it.
const defaultListen = "127.0.0.1:8080"

func newServe() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve --model FILE",
		Short: "Answer OpenAI's API over HTTP",
		Long: `Serve answers OpenAI's API: chats, completions, files and batches. It loads the models itself; --model can be given several
times, as FILE or ALIAS=FILE. Requests name a model by its alias, which is the name of the file without .gguf if none is given.

On SIGTERM, SIGINT or SIGHUP it takes no more requests and gives running ones 20 seconds to finish.`,
		Example: `  ingot serve --model model.gguf
  ingot serve --model glm=glm-4.7-flash.gguf --model small=model.gguf --listen :8080 --api-key-file keys.txt --data /var/lib/ingot`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := settings(cmd, config.Model)
			if err != nil {
				return err
			}
			return serveHTTP(cmd, cfg)
		},
	}
	flags := cmd.Flags()
	config.AddListFlag(flags, config.Model, "`FILE` of a model, in GGUF, or ALIAS=FILE; can be given several times")
	config.AddFlagUsage(flags, config.Listen, "listen on `ADDR`, such as :8080 (default \""+defaultListen+"\")")
	for _, n := range []config.Name{config.Data, config.APIKeyFile, config.TLSCert, config.TLSKey, config.CORSOrigin, config.Concurrency, config.Context} {
		config.AddFlag(flags, n)
	}
	addComputeFlags(flags)
	return cmd
}

func serveHTTP(cmd *cobra.Command, cfg *config.Config) (err error) {
	files, err := modelFiles(cfg.Model)
	if err != nil {
		return err
	}
	certificate, err := readCertificate(cfg)
	if err != nil {
		return err
	}
	options := serve.Options{
		Origin: cfg.CORSOrigin, Version: programVersion(),
		Logger: newLogger(cfg, cfg.LogLevel, cmd.ErrOrStderr()),
	}
	if cfg.APIKeyFile != "" {
		if options.Keys, err = serve.ReadKeys(cfg.APIKeyFile); err != nil {
			return err
		}
	}
	addr := cfg.Listen
	if addr == "" {
		addr = defaultListen
	}
	listener, err := new(net.ListenConfig).Listen(cmd.Context(), "tcp", addr) // before models are loaded, which takes long
	if err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	defer listener.Close() //nolint:errcheck // the server has closed it already
	engines, err := openEngines(cmd, cfg, files)
	defer func() {
		for _, e := range engines {
			err = errors.Join(err, e.Close())
		}
	}()
	if err != nil {
		return err
	}
	if options.Answerer, err = serve.NewAlone(engines, programVersion()); err != nil {
		return err
	}
	if cfg.Data != "" {
		if options.Store, err = batch.Open(cfg.Data, batch.Options{Logger: options.Logger}); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, options.Store.Close()) }()
	}
	server, err := serve.New(options)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(cmd.Context())
	if options.Store != nil {
		runner := batch.NewAlone(engines, batch.AloneOptions{Concurrency: cfg.Concurrency, Version: programVersion(), Logger: options.Logger})
		group.Go(func() error {
			options.Store.Run(ctx, runner)
			return nil
		})
	}
	options.Logger.Info("serving OpenAI's API", "address", listener.Addr().String(), "models", len(engines))
	group.Go(func() error { return server.Serve(ctx, listener, certificate) })
	return group.Wait()
}

// modelFiles returns the model files of --model by alias.
func modelFiles(lines string) (map[string]string, error) {
	files := map[string]string{}
	for line := range strings.Lines(lines) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		alias, file, named := strings.Cut(line, "=")
		if !named {
			file = line
			alias = strings.TrimSuffix(filepath.Base(file), ".gguf")
		}
		if _, twice := files[alias]; twice {
			return nil, usagef("--model: there are two models with the name %q: give ALIAS=FILE", alias)
		}
		files[alias] = file
	}
	return files, nil
}

// openEngines loads the models, which share the memory that the settings allow.
func openEngines(cmd *cobra.Command, cfg *config.Config, files map[string]string) (map[string]*engine.Engine, error) {
	opts := engineOptions(cfg)
	opts.Memory /= int64(len(files))
	opts.MemoryPercent = max(1, opts.MemoryPercent/len(files))
	engines := map[string]*engine.Engine{}
	for alias, file := range files {
		eng, err := newLaunch(cfg, cmd.ErrOrStderr()).engine(file, opts)
		if err != nil {
			return engines, err
		}
		engines[alias] = eng
	}
	return engines, nil
}

// readCertificate returns the settings of HTTPS, or nil for HTTP.
func readCertificate(cfg *config.Config) (*tls.Config, error) {
	if cfg.TLSCert == "" && cfg.TLSKey == "" {
		return nil, nil
	}
	if cfg.TLSCert == "" || cfg.TLSKey == "" {
		return nil, usagef("--tls-cert and --tls-key belong together: give both")
	}
	pair, err := tls.LoadX509KeyPair(cfg.TLSCert, cfg.TLSKey)
	if err != nil {
		return nil, fmt.Errorf("read the certificate: %w", err)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, nil
}

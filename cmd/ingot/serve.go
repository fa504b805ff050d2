package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"slices"

	"github.com/spf13/cobra"

	"github.com/ingot-run/ingot/config"
	"github.com/ingot-run/ingot/serve"
	"github.com/ingot-run/ingot/serve/batch"
)

// defaultListen is the address if --listen is not given. Only this machine can reach it.
const defaultListen = "127.0.0.1:8080"

type serveCommand struct{ allowAnyone bool }

func newServe() *cobra.Command {
	var c serveCommand
	cmd := &cobra.Command{
		Use:   "serve {--model MODEL | --redis URL}",
		Short: "Answer OpenAI's API over HTTP",
		Args:  arguments(),
		RunE:  c.run,
	}
	flags := cmd.Flags()
	config.AddFlag(flags, config.Model)
	config.AllowList(flags, config.Model, "`MODEL` or ALIAS=MODEL: a GGUF file, or the name of a pulled model; can be given several times")
	config.AddFlag(flags, config.Redis)
	config.AddFlagUsage(flags, config.Listen, "listen on `ADDR`, such as :8080 (default \""+defaultListen+"\")")
	config.AddFlag(flags, config.Data, config.APIKeyFile, config.TLSCert, config.TLSKey, config.CORSOrigin, config.Concurrency, config.Context)
	flags.BoolVar(&c.allowAnyone, "allow-anyone", false, "without --api-key-file: answer other machines, and requests under any host name")
	addComputeFlags(flags)
	config.AddFlag(flags, config.Sampling)
	return cmd
}

func (c *serveCommand) run(cmd *cobra.Command, _ []string) (err error) {
	cfg, err := settings(cmd)
	if err != nil {
		return err
	}
	log := newLogger(cfg, cmd.ErrOrStderr())
	certificate, err := readCertificate(cfg)
	if err != nil {
		return err
	}
	options := serve.Options{Origin: cfg.CORSOrigin, Version: programVersion(), Logger: log, AnyHost: c.allowAnyone}
	if cfg.APIKeyFile != "" {
		if options.Keys, err = serve.ReadKeys(cfg.APIKeyFile); err != nil {
			return err
		}
	}
	listener, err := c.listen(cmd.Context(), cfg) // an address in use is reported before models are loaded
	if err != nil {
		return err
	}
	defer listener.Close() //nolint:errcheck // the server has closed it already
	if options.Host, _, err = net.SplitHostPort(cmp.Or(cfg.Listen, defaultListen)); err != nil {
		return err
	}
	from, err := openSource(cmd, cfg, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	options.Answerer, options.Queued = from.Answerer, from.Queued
	if cfg.Data != "" {
		if options.Store, err = batch.Open(cfg.Data, batch.Options{Logger: log}); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, options.Store.Close()) }()
	}
	log.Info("serving OpenAI's API", "address", listener.Addr().String(), "https", certificate != nil, "keys", options.Keys != nil)
	return serve.New(options).Run(cmd.Context(), from, listener, certificate)
}

// listen opens the address of the server. Without API keys, it must be one that only this machine
// can reach, unless the user allows anyone.
func (c *serveCommand) listen(ctx context.Context, cfg *config.Config) (net.Listener, error) {
	if c.allowAnyone && cfg.APIKeyFile != "" {
		return nil, usagef("--allow-anyone and --api-key-file cannot be combined: with keys, only requests with a key are answered")
	}
	listener, err := serve.Listen(ctx, cmp.Or(cfg.Listen, defaultListen), c.allowAnyone || cfg.APIKeyFile != "")
	if errors.Is(err, serve.ErrPublic) {
		return nil, usagef("--listen %s lets other machines use the server: give --api-key-file FILE, so that only requests with a key in FILE are answered, "+
			"or --allow-anyone", cfg.Listen)
	}
	return listener, err
}

// chooseSource leaves only one of the settings model and redis: the one that a flag gives, since
// machines of a fleet may have both in their environment or config file.
func chooseSource(cfg *config.Config) error {
	model, redis := slices.Contains(cfg.FromFlags, config.Model), slices.Contains(cfg.FromFlags, config.Redis)
	switch {
	case cfg.Model == "" || cfg.Redis == "":
	case model && !redis:
		cfg.Redis = ""
	case redis && !model:
		cfg.Model = ""
	default:
		return usagef("--model and --redis cannot be combined: give --model to load models here, or --redis to send requests to a fleet "+
			"(a flag overrides %s and %s)", config.Model.Env(), config.Redis.Env())
	}
	return nil
}

func openSource(cmd *cobra.Command, cfg *config.Config, log *slog.Logger) (*serve.Source, error) {
	if err := chooseSource(cfg); err != nil {
		return nil, err
	}
	switch {
	case cfg.Redis != "":
		return openFleet(cmd, cfg, log)
	case cfg.Model != "":
		return openModels(cmd, cfg, log)
	}
	return nil, usagef("a model is missing: give --model FILE, or --redis URL for the models of a fleet")
}

// readCertificate returns the settings of HTTPS, or nil for HTTP.
func readCertificate(cfg *config.Config) (*tls.Config, error) {
	if cfg.TLSCert == "" && cfg.TLSKey == "" {
		return nil, nil
	}
	if cfg.TLSCert == "" || cfg.TLSKey == "" {
		return nil, usagef("one of --tls-cert and --tls-key is missing: HTTPS needs both")
	}
	return serve.ReadCertificate(cfg.TLSCert, cfg.TLSKey)
}

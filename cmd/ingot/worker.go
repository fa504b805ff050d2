package main

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/ingot-run/ingot/config"
	"github.com/ingot-run/ingot/config/launch"
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/worker"
)

func newWorker() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "worker --redis URL --model MODEL",
		Short: "Answer queued rows",
		Args:  arguments(),
		RunE:  runWorker,
	}
	config.AddFlag(cmd.Flags(), config.Redis, config.Alias, config.Listen)
	addEngineFlags(cmd.Flags())
	config.AddFlag(cmd.Flags(), config.Sampling)
	return cmd
}

// loadingWorker describes this process while it loads its model.
func loadingWorker(cfg *config.Config) queue.Worker {
	return queue.Worker{
		Name: worker.DefaultName(), Loading: cfg.Alias, Model: strings.TrimSuffix(filepath.Base(cfg.Model), ".gguf"), Version: programVersion(), Concurrency: cfg.Concurrency,
	}
}

func runWorker(cmd *cobra.Command, _ []string) (err error) {
	cfg, err := settings(cmd, config.Redis, config.Model)
	if err != nil {
		return err
	}
	q, err := dial(cmd, cfg)
	if err != nil && cmd.Context().Err() != nil {
		return nil // stopped before it had a row
	}
	if err != nil {
		return err
	}
	defer q.Close() //nolint:errcheck // Redis has answered every command
	log := newLogger(cfg, cmd.ErrOrStderr())
	loaded := q.ListLoading(cmd.Context(), loadingWorker(cfg), log)
	start := time.Now()
	engines, err := newLaunch(cmd.Context(), cfg, cmd.ErrOrStderr()).Engines(cfg.Model, launch.EngineOptions(cfg))
	loaded()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, launch.CloseEngines(engines)) }()
	log.Info("loaded the model", "model", cfg.Model, "took", time.Since(start).Round(time.Millisecond))
	devices := make([]worker.Device, len(engines))
	for i, eng := range engines {
		devices[i] = worker.Device{Number: cfg.Devices[i], Engine: eng}
	}
	w, err := worker.NewGroup(devices, q, worker.Config{
		Alias: cfg.Alias, Version: programVersion(), Concurrency: cfg.Concurrency, Prefetch: cfg.Concurrency, Interactive: worker.DefaultInteractive,
		Logger: log,
	})
	if err != nil {
		return err
	}
	// The web server of /healthz and /metrics runs until the last job is finished or returned to
	// the queue.
	web, stopWeb := context.WithCancel(context.WithoutCancel(cmd.Context()))
	defer stopWeb()
	group, ctx := errgroup.WithContext(cmd.Context())
	group.Go(func() error {
		defer stopWeb()
		return w.Run(ctx)
	})
	if cfg.Listen != "" {
		group.Go(func() error { return w.Serve(web, cfg.Listen) })
	}
	return group.Wait()
}

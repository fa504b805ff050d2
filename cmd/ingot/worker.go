package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/ingot-run/ingot/config"
	"github.com/ingot-run/ingot/worker"
)

func newWorker() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "worker --redis URL --model MODEL",
		Short: "Answer queued rows",
		Long: `Worker loads a model and answers the rows that are queued for its model name. On SIGTERM, SIGINT or SIGHUP it takes no
more rows, gives running ones 20 seconds to finish, and returns the rest to the queue. With --listen it serves /healthz,
/readyz and /metrics (Prometheus) over HTTP.

With --device 0,1 it loads the model on several GPUs. Each GPU answers up to --concurrency rows at a time in
its own memory, and "ingot workers" lists it as a worker.`,
		Example: `  ingot worker --redis redis://localhost:6379/0 --model model.gguf
  ingot worker --redis redis://queue:6379/0 --model glm-4.7-flash.gguf --name glm --concurrency 32 --listen :9090
  ingot worker --redis redis://queue:6379/0 --model model.gguf --device 0,1`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := settings(cmd, config.Redis, config.Model)
			if err != nil {
				return err
			}
			return runWorker(cmd, cfg)
		},
	}
	config.AddFlag(cmd.Flags(), config.Redis)
	config.AddFlagAs(cmd.Flags(), config.ModelName, "name")
	config.AddFlag(cmd.Flags(), config.Listen)
	addEngineFlags(cmd.Flags())
	return cmd
}

func runWorker(cmd *cobra.Command, cfg *config.Config) (err error) {
	queue, err := dial(cmd, cfg)
	if err != nil {
		return err
	}
	defer queue.Close() //nolint:errcheck // Redis has answered every command
	engines, err := newLaunch(cfg, cmd.ErrOrStderr()).engines(cfg.Model, engineOptions(cfg))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeEngines(engines)) }()
	devices := make([]worker.Device, len(engines))
	for i, eng := range engines {
		devices[i] = worker.Device{Number: cfg.Devices[i], Engine: eng}
	}
	w, err := worker.NewGroup(devices, queue, worker.Config{
		Alias: cfg.ModelName, Version: programVersion(), Concurrency: cfg.Concurrency, Prefetch: cfg.Concurrency, Interactive: worker.DefaultInteractive,
		Logger: newLogger(cfg, cfg.LogLevel, cmd.ErrOrStderr()),
	})
	if err != nil {
		return err
	}
	// The web server of /healthz and /metrics runs until the last job is finished or returned to the queue.
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

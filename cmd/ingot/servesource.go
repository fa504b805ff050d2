package main

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/ingot-run/ingot/config"
	"github.com/ingot-run/ingot/config/launch"
	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/hub"
	"github.com/ingot-run/ingot/serve"
	"github.com/ingot-run/ingot/serve/batch"
)

func openModels(cmd *cobra.Command, cfg *config.Config, log *slog.Logger) (*serve.Source, error) {
	models, err := aliasedModels(cfg.Model)
	if err != nil {
		return nil, err
	}
	engines, err := openEngines(cmd, cfg, models)
	closeAll := func() error { return launch.CloseEngines(slices.Collect(maps.Values(engines))) }
	if err != nil {
		return nil, errors.Join(err, closeAll())
	}
	answerer, err := serve.NewAlone(engines, programVersion())
	if err != nil {
		return nil, errors.Join(&usageError{err}, closeAll())
	}
	runner := batch.NewAlone(engines, batch.AloneOptions{Concurrency: cfg.Concurrency, Version: programVersion(), Logger: log})
	return &serve.Source{Answerer: answerer, Batches: runner, Close: closeAll}, nil
}

func openFleet(cmd *cobra.Command, cfg *config.Config, log *slog.Logger) (*serve.Source, error) {
	queue, err := dial(cmd, cfg)
	if err != nil {
		return nil, err
	}
	fleet := serve.NewFleet(queue, log)
	return &serve.Source{
		Answerer: fleet,
		Queued:   fleet.Batches,
		Batches:  batch.NewFleet(queue, programVersion()),
		Run:      func(ctx context.Context) error { return fleet.Run(ctx, func() {}) },
		Close:    queue.Close,
	}, nil
}

func aliasedModels(lines string) ([]hub.Aliased, error) {
	all, err := modelStore().ParseAliased(lines)
	if errors.Is(err, hub.ErrSameAlias) {
		return nil, usagef("--model: %w", err)
	}
	return all, err
}

// openEngines loads the models, which share the memory that the settings allow. If one cannot be
// loaded, it returns the error and the engines opened so far, which the caller closes.
func openEngines(cmd *cobra.Command, cfg *config.Config, models []hub.Aliased) (map[string]*engine.Engine, error) {
	opts := launch.EngineOptions(cfg)
	opts.Memory /= int64(len(models))
	opts.MemoryPercent /= len(models)
	if opts.Memory == 0 && opts.MemoryPercent == 0 {
		opts.MemoryPercent = 1
	}
	engines := map[string]*engine.Engine{}
	for _, m := range models {
		eng, err := newLaunch(cmd.Context(), cfg, cmd.ErrOrStderr()).Engine(m.Model, opts)
		if err != nil {
			return engines, err
		}
		engines[m.Alias] = eng
	}
	return engines, nil
}

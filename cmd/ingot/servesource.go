package main

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ingot-run/ingot/config"
	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/serve"
	"github.com/ingot-run/ingot/serve/batch"
)

// openModels loads the models of a server that answers itself.
func openModels(cmd *cobra.Command, cfg *config.Config, log *slog.Logger) (*source, error) {
	files, err := modelFiles(cfg.Model)
	if err != nil {
		return nil, err
	}
	engines, err := openEngines(cmd, cfg, files)
	closeAll := func() (err error) {
		for _, e := range engines {
			err = errors.Join(err, e.Close())
		}
		return err
	}
	if err != nil {
		return nil, errors.Join(err, closeAll())
	}
	answerer, err := serve.NewAlone(engines, programVersion())
	if err != nil {
		return nil, errors.Join(&usageError{err}, closeAll())
	}
	runner := batch.NewAlone(engines, batch.AloneOptions{Concurrency: cfg.Concurrency, Version: programVersion(), Logger: log})
	return &source{answerer: answerer, batches: runner, close: closeAll}, nil
}

// openFleet connects to the queue of a server that is the front of a fleet.
func openFleet(cmd *cobra.Command, cfg *config.Config, log *slog.Logger) (*source, error) {
	queue, err := dial(cmd, cfg)
	if err != nil {
		return nil, err
	}
	fleet := serve.NewFleet(queue, log)
	return &source{
		answerer: fleet,
		batches:  batch.NewFleet(queue, programVersion()),
		run:      func(ctx context.Context) error { return fleet.Run(ctx, func() {}) },
		close:    queue.Close,
	}, nil
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

// openEngines loads the models, which share the memory that the settings allow. It returns those that were loaded also if it fails.
func openEngines(cmd *cobra.Command, cfg *config.Config, files map[string]string) (map[string]*engine.Engine, error) {
	opts := engineOptions(cfg)
	opts.Memory /= int64(len(files))
	opts.MemoryPercent /= len(files)
	if opts.Memory == 0 && opts.MemoryPercent == 0 {
		opts.MemoryPercent = 1
	}
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

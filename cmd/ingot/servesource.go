package main

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ingot-run/ingot/config"
	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/hub"
	"github.com/ingot-run/ingot/serve"
	"github.com/ingot-run/ingot/serve/batch"
)

// openModels loads the models of a server that answers requests itself.
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

// openFleet connects to the queue, for a server that passes requests on to workers.
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

// aliasOf returns the default alias of a model: the short name of a pulled model, else the file's name without .gguf.
func aliasOf(model string) (string, error) {
	if n, err := hub.ParseName(model); err == nil && n.Short != "" {
		return n.Short, nil
	}
	file, err := modelFile(model)
	if err != nil {
		return "", err
	}
	name := strings.TrimSuffix(filepath.Base(file), ".gguf")
	if i := strings.Index(name, "-00001-of-"); i > 0 {
		name = name[:i]
	}
	return name, nil
}

// namedModel is a model of --model: its alias, and its file or name.
type namedModel struct{ alias, file string }

// namedModels returns the models of --model, in order.
func namedModels(lines string) ([]namedModel, error) {
	var all []namedModel
	for line := range strings.Lines(lines) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		alias, file, named := strings.Cut(line, "=")
		if named = named && !strings.ContainsAny(alias, "/:"); !named { // a URL may contain =
			file = line
			var err error
			if alias, err = aliasOf(file); err != nil {
				return nil, err
			}
		}
		if slices.ContainsFunc(all, func(m namedModel) bool { return m.alias == alias }) {
			return nil, usagef("--model: two models have the alias %q: give them different ones as ALIAS=FILE", alias)
		}
		all = append(all, namedModel{alias, file})
	}
	return all, nil
}

// modelFiles returns the models of --model by alias.
func modelFiles(lines string) (map[string]string, error) {
	all, err := namedModels(lines)
	if err != nil {
		return nil, err
	}
	files := map[string]string{}
	for _, m := range all {
		files[m.alias] = m.file
	}
	return files, nil
}

// openEngines loads the models, which share the memory that the settings allow. If one cannot be loaded, it returns the error and the
// engines opened so far, which the caller closes.
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

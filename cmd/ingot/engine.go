package main

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/ingot-run/ingot/config"
	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/compute"
)

// addEngineFlags adds the flags of commands that load a model.
func addEngineFlags(flags *pflag.FlagSet) {
	for _, n := range []config.Name{config.Model, config.Concurrency, config.Context} {
		config.AddFlag(flags, n)
	}
	addComputeFlags(flags)
}

// addComputeFlags adds the flags that say how and in how much memory a model computes.
func addComputeFlags(flags *pflag.FlagSet) {
	for _, n := range []config.Name{
		config.Backend, config.Kernels, config.Threads, config.KV, config.MemoryLimit, config.Draft, config.DraftTokens,
	} {
		config.AddFlag(flags, n)
	}
}

// engine loads the model of a file on the backend that the settings ask for. opts holds what no setting says.
func (l *launch) engine(path string, opts engine.Options) (*engine.Engine, error) {
	be, err := l.backend()
	if err != nil {
		return nil, err
	}
	if opts, err = l.options(be, opts); err != nil {
		return nil, errors.Join(err, be.Close())
	}
	eng, err := engine.Open(path, be, opts)
	if err == nil {
		l.ready()
	}
	return eng, err
}

// options adds what the settings say.
func (l *launch) options(be compute.Backend, opts engine.Options) (engine.Options, error) {
	var err error
	opts.Memory, err = memory(l.cfg, be)
	opts.KV = l.cfg.KV
	opts.Draft, opts.DraftModel, opts.DraftTokens = l.cfg.Draft, l.cfg.DraftModel, l.cfg.DraftTokens
	return opts, err
}

// memory is the limit of the settings in bytes.
func memory(cfg *config.Config, be compute.Backend) (int64, error) {
	if cfg.Memory.Bytes > 0 {
		return cfg.Memory.Bytes, nil
	}
	free, err := be.Free()
	if err != nil {
		return 0, fmt.Errorf("find out how much memory is free (give --memory a size instead): %w", err)
	}
	return free / 100 * int64(cfg.Memory.Percent), nil
}

package main

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/ingot-run/ingot/config"
	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/cpu"
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
		config.Backend, config.Threads, config.KV, config.MemoryLimit, config.Draft, config.DraftTokens,
	} {
		config.AddFlag(flags, n)
	}
}

// openEngine loads the model of a file on the backend that the settings ask for. The CPU is the only one, which auto takes.
// opts holds what no setting says.
func openEngine(cfg *config.Config, path string, opts engine.Options) (*engine.Engine, error) {
	be, err := cpu.New(cfg.Threads)
	if err != nil {
		return nil, err
	}
	if opts.Memory, err = memory(cfg, be); err != nil {
		return nil, errors.Join(err, be.Close())
	}
	opts.KV = cfg.KV
	opts.Draft, opts.DraftModel, opts.DraftTokens = cfg.Draft, cfg.DraftModel, cfg.DraftTokens
	return engine.Open(path, be, opts)
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

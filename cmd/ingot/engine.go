package main

import (
	"github.com/spf13/pflag"

	"github.com/ingot-run/ingot/config"
	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/cpu"
)

// addEngineFlags adds the flags of commands that load a model.
func addEngineFlags(flags *pflag.FlagSet) {
	for _, n := range []config.Name{config.Model, config.Concurrency, config.Backend, config.Context, config.Threads} {
		config.AddFlag(flags, n)
	}
}

// openEngine loads the model on the backend that the settings ask for. The CPU is the only one, which auto takes.
func openEngine(cfg *config.Config, trace func(compute.Checkpoint)) (*engine.Engine, error) {
	be, err := cpu.New(cfg.Threads)
	if err != nil {
		return nil, err
	}
	return engine.Open(cfg.Model, be, engine.Options{
		Context: cfg.Context, MaxSequences: cfg.Concurrency, Trace: trace,
	})
}

package main

import (
	"errors"

	"github.com/spf13/pflag"

	"github.com/ingot-run/ingot/config"
	"github.com/ingot-run/ingot/engine"
)

// addEngineFlags adds the flags of commands that load a model.
func addEngineFlags(flags *pflag.FlagSet) {
	for _, n := range []config.Name{config.Model, config.Concurrency, config.Context} {
		config.AddFlag(flags, n)
	}
	addComputeFlags(flags)
}

// addComputeFlags adds the flags that set how a model is computed and how much memory it may use.
func addComputeFlags(flags *pflag.FlagSet) {
	for _, f := range []struct {
		name    config.Name
		section string
	}{
		{config.MemoryLimit, ""},
		{config.Backend, tuning},
		{config.Device, tuning},
		{config.Threads, tuning},
		{config.KV, tuning},
		{config.Draft, tuning},
		{config.DraftTokens, tuning},
		{config.StepTime, tuning},
		{config.Kernels, debugging},
	} {
		config.AddFlag(flags, f.name)
		section(flags, f.section, string(f.name))
	}
}

// engine loads a model, given by its file or its name, on the backend that the settings select.
func (l *launch) engine(name string, opts engine.Options) (*engine.Engine, error) {
	path, err := modelFile(name)
	if err != nil {
		return nil, err
	}
	if opts.DraftModel != "" {
		if opts.DraftModel, err = modelFile(opts.DraftModel); err != nil {
			return nil, err
		}
	}
	be, err := l.backend()
	if err != nil {
		return nil, err
	}
	eng, err := engine.Open(path, be, opts)
	if err == nil {
		l.ready()
		l.rows += eng.Info().Fit.Rows
		limitHeap(l.rows)
	}
	return eng, err
}

// engines loads a model file on each device that the settings name, or once on the CPU. If there is an error, no engine stays open.
func (l *launch) engines(path string, opts engine.Options) (all []*engine.Engine, err error) {
	whole := *l.cfg
	for _, device := range whole.Devices {
		one := whole
		one.Device, one.Devices = device, []int{device}
		l.cfg = &one
		eng, err := l.engine(path, opts)
		if err != nil {
			return nil, errors.Join(err, closeEngines(all))
		}
		all = append(all, eng)
		if eng.Info().Backend == config.BackendCPU {
			break
		}
	}
	return all, nil
}

func closeEngines(all []*engine.Engine) (err error) {
	for _, eng := range all {
		err = errors.Join(err, eng.Close())
	}
	return err
}

// engineOptions returns the options of an engine that answers rows.
func engineOptions(cfg *config.Config) engine.Options {
	opts := cfg.Engine
	opts.MaxSequences = cfg.Concurrency
	return opts
}

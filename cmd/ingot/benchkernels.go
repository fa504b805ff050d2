package main

import (
	"cmp"
	"errors"
	"runtime"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ingot-run/ingot/bench/kernels"
	"github.com/ingot-run/ingot/config"
	"github.com/ingot-run/ingot/config/launch"
)

func newBenchKernels() *cobra.Command {
	k := benchKernels{weights: weightFlags{launch.Weights{Quant: "q4_0"}}}
	cmd := &cobra.Command{
		Use:   "kernels",
		Short: "Measure single operations",
		Args:  arguments(),
		RunE:  k.run,
	}
	k.add(cmd.Flags())
	return cmd
}

type benchKernels struct {
	json           string
	sweep, profile bool
	weights        weightFlags
}

func (k *benchKernels) add(flags *pflag.FlagSet) {
	flags.StringVar(&k.json, "json", "", "write JSON to `FILE` (default bench-kernels.json, ingot/geometry.json with --sweep, measured.json with --profile); - for stdout, without the table")
	flags.BoolVar(&k.sweep, "sweep", false, "find the best geometry of a GPU's kernels for a model")
	flags.BoolVar(&k.profile, "profile", false, "time the kernels of steps of a model on a GPU, for the roofline")
	config.AddFlag(flags, config.Model)
	k.weights.add(flags)
	config.AddFlag(flags, config.KV, config.Backend, config.Kernels, config.Threads, config.Precision)
	section(flags, debugging, string(config.Kernels))
}

func (k *benchKernels) run(cmd *cobra.Command, _ []string) (err error) {
	cfg, err := settings(cmd)
	if err != nil {
		return err
	}
	if k.sweep || k.profile {
		if err := k.weights.either(cmd.Flags()); err != nil {
			return err
		}
	}
	switch {
	case k.sweep && k.profile:
		return usagef("--sweep and --profile cannot be combined: give one")
	case k.profile:
		return profileKernels(cmd, cfg, &k.weights.Weights, cmp.Or(k.json, "measured.json"))
	case k.sweep:
		return sweepGeometry(cmd, cfg, &k.weights.Weights, cmp.Or(k.json, config.GeometryFile()))
	}
	for _, name := range []string{string(config.Model), "shape", "quant", string(config.KV)} {
		if cmd.Flags().Changed(name) {
			return usagef("--%s requires --sweep or --profile", name)
		}
	}
	threads := cmp.Or(cfg.Threads, runtime.GOMAXPROCS(0))
	var list []kernels.Measurement
	l := newLaunch(cmd.Context(), cfg, cmd.ErrOrStderr())
	l.Cached = true
	defer func() { err = errors.Join(err, l.Close()) }()
	err = kernels.Measure(cmd.Context(), l.Backend, func(m kernels.Measurement) {
		m.Threads = threads
		list = append(list, m)
	})
	if err != nil {
		return err
	}
	return writeFigures(cmd, cmp.Or(k.json, "bench-kernels.json"), list, func() error { return kernels.WriteTable(cmd.OutOrStdout(), list) })
}

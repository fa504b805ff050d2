package main

import (
	"cmp"
	"errors"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/ingot-run/ingot/bench/kernels"
	"github.com/ingot-run/ingot/config"
)

func newBenchKernels() *cobra.Command {
	var json string
	var sweep, profile bool
	weights := weightFlags{quant: "q4_0"}
	cmd := &cobra.Command{
		Use:   "kernels",
		Short: "Measure single operations",
		Long: `Kernels measures the operations of a backend on random values: products by weight type and rows, experts, attention and
MLA by cache type and context, norm and rotation. A measurement reads more memory than the caches hold.

With --sweep it finds the best geometry of a GPU's kernels for a model: for each type and shape of weights and cache it
measures all geometries of each kernel, and the number of rows from which tiles are faster. It takes minutes. The results are
added to ingot/geometry.json in $XDG_CONFIG_HOME and are used from then on. They change the speed, never an answer.

With --profile it runs steps of a model, of 1, 16 and 64 streams and of prompts, and prints the time of each kernel. It
always uses the portable kernels, which Apple's GPUs run too. It writes the times to a file from which "ingot bench
--roofline" predicts; docs/metal.md explains it. Without a model it measures the shapes that the roofline predicts.`,
		Example: `  ingot bench kernels --threads 2
  ingot bench kernels --sweep --model model.gguf --backend metal
  ingot bench kernels --sweep --shape glm-4.7-flash --quant q4_k
  ingot bench kernels --profile --backend cuda --json measured.json`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			cfg, err := settings(cmd)
			if err != nil {
				return err
			}
			if sweep || profile {
				if err := weights.either(cmd.Flags()); err != nil {
					return err
				}
			}
			switch {
			case sweep && profile:
				return usagef("--sweep and --profile cannot be combined: give one")
			case profile:
				return profileKernels(cmd, cfg, &weights, cmp.Or(json, "measured.json"))
			case sweep:
				return sweepGeometry(cmd, cfg, &weights, cmp.Or(json, config.GeometryFile()))
			}
			for _, name := range []string{string(config.Model), "shape", "quant", string(config.KV)} {
				if cmd.Flags().Changed(name) {
					return usagef("--%s requires --sweep or --profile", name)
				}
			}
			threads := cmp.Or(cfg.Threads, runtime.GOMAXPROCS(0))
			var list []kernels.Measurement
			l := newLaunch(cfg, cmd.ErrOrStderr())
			l.cached = true
			defer func() { err = errors.Join(err, l.end()) }()
			err = kernels.Measure(cmd.Context(), l.backend, func(m kernels.Measurement) {
				m.Threads = threads
				list = append(list, m)
			})
			if err != nil {
				return err
			}
			return report(cmd, cmp.Or(json, "bench-kernels.json"), list, func() error { return kernels.WriteTable(cmd.OutOrStdout(), list) })
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().StringVar(&json, "json", "", "write JSON to `FILE` (default bench-kernels.json, ingot/geometry.json with --sweep, measured.json with --profile); - for stdout, without the table")
	cmd.Flags().BoolVar(&sweep, "sweep", false, "find the best geometry of a GPU's kernels for a model")
	cmd.Flags().BoolVar(&profile, "profile", false, "time the kernels of steps of a model on a GPU, for the roofline")
	config.AddFlag(cmd.Flags(), config.Model)
	weights.add(cmd.Flags())
	config.AddFlag(cmd.Flags(), config.KV)
	config.AddFlag(cmd.Flags(), config.Backend)
	config.AddFlag(cmd.Flags(), config.Kernels)
	config.AddFlag(cmd.Flags(), config.Threads)
	section(cmd.Flags(), debugging, string(config.Kernels))
	return cmd
}

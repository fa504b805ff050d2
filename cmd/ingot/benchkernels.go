package main

import (
	"cmp"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/ingot-run/ingot/config"
	"github.com/ingot-run/ingot/engine/bench"
	"github.com/ingot-run/ingot/metal"
)

func newBenchKernels() *cobra.Command {
	var json string
	var sweep bool
	cmd := &cobra.Command{
		Use:   "kernels",
		Short: "Measure single operations",
		Long: `Kernels measures each family of a backend's operations on random values: products by weight type and rows,
experts, attention and MLA by cache type and context, norm and rotation. A step goes through more memory than caches
hold.

With --sweep it measures products and experts of a GPU with the kernels for few rows and with those for many, and says
from how many rows on the latter are quicker.`,
		Example: `  ingot bench kernels --threads 2
  ingot bench kernels --sweep --backend metal`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := settings(cmd)
			if err != nil {
				return err
			}
			if sweep {
				return sweepRows(cmd, cfg, json)
			}
			threads := cmp.Or(cfg.Threads, runtime.GOMAXPROCS(0))
			var list []bench.Kernel
			open := newLaunch(cfg, cmd.ErrOrStderr()).backend
			err = bench.Kernels(cmd.Context(), open, func(k bench.Kernel) {
				k.Threads = threads
				list = append(list, k)
			})
			if err != nil {
				return err
			}
			return report(cmd, cmp.Or(json, "bench-kernels.json"), list, func() error { return bench.WriteKernels(cmd.OutOrStdout(), list) })
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().StringVar(&json, "json", "", "write the figures to `FILE`, by default bench-kernels.json or bench-sweep.json; - for stdout, in place of the table")
	cmd.Flags().BoolVar(&sweep, "sweep", false, "find from how many rows on a GPU's kernels for many rows are quicker")
	config.AddFlag(cmd.Flags(), config.Backend)
	config.AddFlag(cmd.Flags(), config.Kernels)
	config.AddFlag(cmd.Flags(), config.Threads)
	return cmd
}

// sweepRows compares the two kinds of kernels of a GPU.
func sweepRows(cmd *cobra.Command, cfg *config.Config, json string) error {
	const never = 1 << 20
	few, many := newLaunch(cfg, cmd.ErrOrStderr()), newLaunch(cfg, cmd.ErrOrStderr())
	for _, kernel := range []string{metal.ProductTile, metal.ExpertGatedTile, metal.ExpertDownTile} {
		few.geometry = append(few.geometry, metal.Choice{Kernel: kernel, From: never})
		many.geometry = append(many.geometry, metal.Choice{Kernel: kernel, From: 2})
	}
	be, err := few.backend()
	if err != nil {
		return err
	}
	if err := be.Close(); err != nil {
		return err
	}
	if few.device == nil {
		return usagef("--sweep is for the kernels of a GPU, and the backend here is cpu")
	}
	many.told = true
	var list []bench.Crossing
	err = bench.Sweep(cmd.Context(), bench.SweepRows, few.backend, many.backend, func(c bench.Crossing) { list = append(list, c) })
	if err != nil {
		return err
	}
	return report(cmd, cmp.Or(json, "bench-sweep.json"), list, func() error { return bench.WriteSweep(cmd.OutOrStdout(), list) })
}

package main

import (
	"cmp"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/ingot-run/ingot/config"
	"github.com/ingot-run/ingot/engine/bench"
)

func newBenchKernels() *cobra.Command {
	var json string
	cmd := &cobra.Command{
		Use:   "kernels",
		Short: "Measure single operations",
		Long: `Kernels measures each family of a backend's operations on random values: products by weight type and rows,
experts, attention and MLA by cache type and context, norm and rotation. A step goes through more memory than caches
hold.`,
		Example: `  ingot bench kernels --threads 2`,
		Args:    arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := settings(cmd)
			if err != nil {
				return err
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
			return report(cmd, json, list, func() error { return bench.WriteKernels(cmd.OutOrStdout(), list) })
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().StringVar(&json, "json", "bench-kernels.json", "write the figures to `FILE`; - for stdout, in place of the table")
	config.AddFlag(cmd.Flags(), config.Backend)
	config.AddFlag(cmd.Flags(), config.Kernels)
	config.AddFlag(cmd.Flags(), config.Threads)
	return cmd
}

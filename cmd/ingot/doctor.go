package main

import (
	"github.com/spf13/cobra"

	"github.com/ingot-run/ingot/config"
	"github.com/ingot-run/ingot/config/doctor"
)

func newDoctor() *cobra.Command {
	var out jsonFlag
	var tune bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Show the backends of this machine, the one that would be used, and an answer of a model",
		Args:  arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := settings(cmd)
			if err != nil {
				return err
			}
			if tune && cfg.Tuning == 0 {
				return usagef("--tune and --tuning off cannot be combined")
			}
			stderr := cmd.ErrOrStderr()
			d, problems := doctor.Examine(cmd.Context(), cfg, newTuner(cmd.Context(), cfg, newLogger(cfg, stderr), stderr), tune)
			if err := out.write(cmd, d, d.Write); err != nil {
				return err
			}
			return problems
		},
	}
	out.add(cmd.Flags())
	cmd.Flags().BoolVar(&tune, "tune", false, "measure the GPU's kernels again, store the fastest sizes, and print a report")
	config.AddFlag(cmd.Flags(), config.Redis)
	addEngineFlags(cmd.Flags())
	return cmd
}

package main

import (
	"github.com/spf13/cobra"

	"github.com/ingot-run/ingot/config"
	"github.com/ingot-run/ingot/config/doctor"
)

func newDoctor() *cobra.Command {
	var out jsonFlag
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Show the backends of this machine, the one that would be used, and an answer of a model",
		Args:  arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := settings(cmd)
			if err != nil {
				return err
			}
			d, problems := doctor.Examine(cmd.Context(), cfg, programVersion())
			if err := out.write(cmd, d, d.Write); err != nil {
				return err
			}
			return problems
		},
	}
	out.add(cmd.Flags())
	config.AddFlag(cmd.Flags(), config.Redis)
	addEngineFlags(cmd.Flags())
	return cmd
}

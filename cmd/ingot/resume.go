package main

import (
	"github.com/spf13/cobra"

	"github.com/ingot-run/ingot/config"
	"github.com/ingot-run/ingot/queue/redisqueue"
)

func newResume() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "resume [ALIAS] --redis URL",
		Short:   "Let workers take rows again",
		Long:    `Resume lets the workers of model name ALIAS, or of all model names, take rows again after "ingot pause".`,
		Example: "  ingot resume glm --redis redis://localhost:6379/0",
		Args:    optionalArgument,
		RunE: onAliases(func(cmd *cobra.Command, q *redisqueue.Queue, alias string) error {
			return reportChange(cmd, alias, q.Resume, "resumed", "was not paused")
		}),
	}
	config.AddFlag(cmd.Flags(), config.Redis)
	return cmd
}

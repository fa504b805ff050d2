package main

import (
	"github.com/spf13/cobra"

	"github.com/ingot-run/ingot/config"
	"github.com/ingot-run/ingot/queue/redisqueue"
)

func newPurge() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "purge BATCH --redis URL",
		Short: "Delete a finished or cancelled batch from Redis",
		Long: `Purge deletes a finished or cancelled batch and its results from Redis at once, instead of after its retention. It works
while Redis has no memory left. "ingot results --forget" does the same after it has written all results to a file.`,
		Example: "  ingot purge nightly-2026-01-02 --redis redis://localhost:6379/0",
		Args:    arguments("BATCH"),
		RunE: onRedis(func(cmd *cobra.Command, queue *redisqueue.Queue, args []string) error {
			if err := queue.Purge(cmd.Context(), args[0]); err != nil {
				return err
			}
			cmd.PrintErrf("%s: deleted\n", args[0])
			return nil
		}),
	}
	config.AddFlag(cmd.Flags(), config.Redis)
	return cmd
}

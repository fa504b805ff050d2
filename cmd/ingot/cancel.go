package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ingot-run/ingot/config"
	"github.com/ingot-run/ingot/queue/redisqueue"
)

func newCancel() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cancel BATCH --redis URL",
		Short: "Cancel an unfinished batch",
		Long: `Cancel ends a batch that is not finished: running rows are stopped, and waiting rows are dropped. "ingot results" can
read the results recorded so far until the batch's retention is over; only then can its id be used again.
Cancelling a finished batch changes nothing.`,
		Example: "  ingot cancel nightly-2026-01-02 --redis redis://localhost:6379/0",
		Args:    arguments("BATCH"),
		RunE: onRedis(func(cmd *cobra.Command, queue *redisqueue.Queue, args []string) error {
			finished, err := queue.Cancel(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			s, err := queue.Status(cmd.Context(), args[0])
			if err != nil {
				return fmt.Errorf("read status: %w", err)
			}
			text := "cancelled"
			if finished {
				text = "finished before"
			}
			cmd.PrintErrf("%s: %s, with %d answered and %d failed\n", s.Batch, text, s.Done, s.Failed)
			return nil
		}),
	}
	config.AddFlag(cmd.Flags(), config.Redis)
	return cmd
}

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ingot-run/ingot/config"
	"github.com/ingot-run/ingot/queue/redisqueue"
)

func newRetry() *cobra.Command {
	var code string
	cmd := &cobra.Command{
		Use:   "retry BATCH --redis URL",
		Short: "Queue the failed rows of a batch again",
		Long: `Retry queues again the rows of a batch that failed in a worker; with --code, only those with one error code. The batch
is in progress again until all of them are recorded. "ingot results" replaces their error lines in its output by the new
results. Invalid rows stay error lines: correct them in a new file. A deadline that has passed is removed.`,
		Example: `  ingot retry nightly-2026-01-02 --redis redis://localhost:6379/0
  ingot retry nightly-2026-01-02 --redis redis://localhost:6379/0 --code timeout`,
		Args: arguments("BATCH"),
		RunE: onRedis(func(cmd *cobra.Command, q *redisqueue.Queue, args []string) error {
			done, err := q.Requeue(cmd.Context(), args[0], code)
			if err != nil {
				return fmt.Errorf("retry: %w", err)
			}
			text := fmt.Sprintf("%s: %s queued again", args[0], countRows(done.Queued))
			if done.Kept > 0 {
				text += fmt.Sprintf(", %s cannot be used", countRows(done.Kept))
			}
			cmd.PrintErrln(text)
			return nil
		}),
	}
	config.AddFlag(cmd.Flags(), config.Redis)
	cmd.Flags().StringVar(&code, "code", "", "retry only rows with error code `CODE`; \"ingot errors\" lists the codes")
	return cmd
}

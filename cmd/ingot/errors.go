package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ingot-run/ingot/enqueue"
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/redisqueue"
)

type errorsCommand struct{ asJSON bool }

func newErrors() *cobra.Command {
	var c errorsCommand
	cmd := redisCommand(&cobra.Command{
		Use:   "errors BATCH --redis URL",
		Short: "List the rows of a batch that failed, and why",
		Args:  arguments("BATCH"),
	}, c.run)
	cmd.Flags().BoolVar(&c.asJSON, "json", false, "print a JSON object per error line")
	return cmd
}

func (c *errorsCommand) run(cmd *cobra.Command, q *redisqueue.Queue, args []string) error {
	if _, err := q.Status(cmd.Context(), args[0]); err != nil {
		return fmt.Errorf("read errors: %w", err)
	}
	if c.asJSON {
		enc := json.NewEncoder(cmd.OutOrStdout())
		enc.SetEscapeHTML(false)
		return queue.Errors(cmd.Context(), q, args[0], func(e queue.RowError) error { return enc.Encode(e) })
	}
	g, err := enqueue.ReadErrors(cmd.Context(), q, args[0])
	if err != nil {
		return err
	}
	if len(g) == 0 {
		cmd.PrintErrf("no row of %s failed\n", args[0])
	}
	return g.Write(cmd.OutOrStdout())
}

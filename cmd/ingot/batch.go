package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ingot-run/ingot/enqueue"
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/redisqueue"
)

func newCancel() *cobra.Command {
	return redisCommand(&cobra.Command{
		Use:   "cancel BATCH --redis URL",
		Short: "Cancel an unfinished batch",
		Args:  arguments("BATCH"),
	}, runCancel)
}

func runCancel(cmd *cobra.Command, q *redisqueue.Queue, args []string) error {
	finished, err := q.Cancel(cmd.Context(), args[0])
	if err != nil {
		return err
	}
	s, err := q.Status(cmd.Context(), args[0])
	if err != nil {
		return fmt.Errorf("read status: %w", err)
	}
	text := "cancelled"
	if finished {
		text = "finished before"
	}
	cmd.PrintErrf("%s: %s, with %d answered and %d failed\n", s.Batch, text, s.Done, s.Failed)
	return nil
}

type retryCommand struct{ code string }

func newRetry() *cobra.Command {
	var c retryCommand
	cmd := redisCommand(&cobra.Command{
		Use:   "retry BATCH --redis URL",
		Short: "Queue the failed rows of a batch again",
		Args:  arguments("BATCH"),
	}, c.run)
	cmd.Flags().StringVar(&c.code, "code", "", "retry only rows with error code `CODE`; \"ingot errors\" lists the codes")
	return cmd
}

func (c *retryCommand) run(cmd *cobra.Command, q *redisqueue.Queue, args []string) error {
	s, err := q.Status(cmd.Context(), args[0])
	if err == nil && s.State == queue.Cancelled {
		err = fmt.Errorf("%w, so its rows are not answered: enqueue the file as another batch", queue.ErrCancelled)
	}
	if err != nil {
		return fmt.Errorf("retry %s: %w", args[0], err)
	}
	done, err := q.Requeue(cmd.Context(), args[0], c.code)
	if err != nil {
		return fmt.Errorf("retry: %w", err)
	}
	text := fmt.Sprintf("%s: %s queued again", args[0], countRows(done.Queued))
	if done.Kept > 0 {
		text += fmt.Sprintf(", %s cannot be used", countRows(done.Kept))
	}
	if done == (redisqueue.Requeued{}) && c.code != "" {
		failed, err := enqueue.ReadErrors(cmd.Context(), q, args[0])
		if err != nil {
			return fmt.Errorf("retry: %w", err)
		}
		text += ", since " + failed.OtherCodes(c.code)
	}
	cmd.PrintErrln(text)
	return nil
}

func newPurge() *cobra.Command {
	return redisCommand(&cobra.Command{
		Use:   "purge BATCH --redis URL",
		Short: "Delete a finished or cancelled batch from Redis",
		Args:  arguments("BATCH"),
	}, func(cmd *cobra.Command, q *redisqueue.Queue, args []string) error {
		if err := q.Purge(cmd.Context(), args[0]); err != nil {
			return err
		}
		cmd.PrintErrf("%s: deleted\n", args[0])
		return nil
	})
}

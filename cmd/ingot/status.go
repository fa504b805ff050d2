package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/ingot-run/ingot/enqueue/fleet"
	"github.com/ingot-run/ingot/internal/textfmt"
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/redisqueue"
)

type statusCommand struct {
	watch bool
	out   jsonFlag
}

func newStatus() *cobra.Command {
	var c statusCommand
	cmd := redisCommand(&cobra.Command{
		Use:   "status [BATCH] --redis URL",
		Short: "Show the progress of a batch, or list all batches",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 && c.watch {
				return usagef("--watch needs BATCH, the batch to watch")
			}
			return optionalArgument(nil, args)
		},
	}, c.run)
	cmd.Flags().BoolVar(&c.watch, "watch", false, "show the progress until the batch has ended")
	c.out.add(cmd.Flags())
	return cmd
}

func (c *statusCommand) run(cmd *cobra.Command, q *redisqueue.Queue, args []string) error {
	if len(args) == 0 {
		return c.list(cmd, q)
	}
	if c.watch {
		if err := watch(cmd, q, args[0]); err != nil {
			return err
		}
	}
	b, err := fleet.ReadBatch(cmd.Context(), q, args[0])
	if err != nil {
		return fmt.Errorf("read status: %w", err)
	}
	return c.out.write(cmd, b, b.Write)
}

func watch(cmd *cobra.Command, q *redisqueue.Queue, batch string) error {
	err := fleet.Watch(cmd.Context(), q, batch, cmd.ErrOrStderr())
	if err != nil && cmd.Context().Err() != nil {
		return errors.New("stopped watching: the batch has not ended")
	}
	if err != nil {
		return fmt.Errorf("read status: %w", err)
	}
	return nil
}

func (c *statusCommand) list(cmd *cobra.Command, q *redisqueue.Queue) error {
	all, err := fleet.Batches(cmd.Context(), q, func(damage string) { cmd.PrintErrf("skipped %s\n", textfmt.Printable(damage)) })
	if err != nil {
		return fmt.Errorf("read status: %w", err)
	}
	all = append([]queue.Status{}, all...) // an empty list is written as [], not null
	return c.out.write(cmd, all, func(w io.Writer) error { return fleet.WriteBatches(w, all) })
}

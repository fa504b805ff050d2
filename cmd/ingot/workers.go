package main

import (
	"github.com/spf13/cobra"

	"github.com/ingot-run/ingot/enqueue/fleet"
	"github.com/ingot-run/ingot/queue/redisqueue"
)

func newWorkers() *cobra.Command {
	var out jsonFlag
	cmd := redisCommand(&cobra.Command{
		Use:   "workers --redis URL",
		Short: "List the workers, and those lost in the last hour",
		Args:  arguments(),
	}, func(cmd *cobra.Command, q *redisqueue.Queue, _ []string) error {
		all, err := fleet.ReadWorkers(cmd.Context(), q)
		if err != nil {
			return err
		}
		return out.write(cmd, all.List, all.Write)
	})
	out.add(cmd.Flags())
	return cmd
}

package main

import (
	"cmp"
	"errors"

	"github.com/spf13/cobra"

	"github.com/ingot-run/ingot/config"
	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/internal/textfmt"
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/redisqueue"
)

func redisCommand(cmd *cobra.Command, run func(cmd *cobra.Command, queue *redisqueue.Queue, args []string) error) *cobra.Command {
	config.AddFlag(cmd.Flags(), config.Redis)
	cmd.RunE = onRedis(run)
	return cmd
}

// onRedis returns the RunE of a command that uses Redis. The command takes at most one argument, a
// batch id.
func onRedis(run func(cmd *cobra.Command, queue *redisqueue.Queue, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		cfg, err := settings(cmd, config.Redis)
		if err != nil {
			return err
		}
		queue, err := dialBatch(cmd, cfg, args)
		if err != nil {
			return err
		}
		defer queue.Close() //nolint:errcheck // Redis has answered every command
		return run(cmd, queue, args)
	}
}

func dialBatch(cmd *cobra.Command, cfg *config.Config, args []string) (*redisqueue.Queue, error) {
	for _, batch := range args {
		if err := queue.CheckBatch(batch); err != nil {
			return nil, &usageError{err}
		}
	}
	queue, _, err := redisqueue.Dial(cmd.Context(), cfg.Redis, 1, waiting(cmd)) // only enqueue and worker print the warnings
	return queue, err
}

// dial connects to Redis for a command that queues or answers rows. It checks the server, and logs
// settings of the server with which jobs can be lost.
func dial(cmd *cobra.Command, cfg *config.Config) (*redisqueue.Queue, error) {
	queue, warnings, err := redisqueue.Dial(cmd.Context(), cfg.Redis, cmp.Or(cfg.Concurrency, engine.MaxAutomatic), waiting(cmd))
	if err != nil {
		return nil, err
	}
	if err := queue.CheckServer(cmd.Context()); err != nil {
		return nil, errors.Join(err, queue.Close())
	}
	log := newLogger(cfg, cmd.ErrOrStderr())
	for _, w := range warnings {
		log.WarnContext(cmd.Context(), "redis can lose jobs", "reason", w)
	}
	return queue, nil
}

func waiting(cmd *cobra.Command) func(reason string) {
	return func(reason string) { cmd.PrintErrf("%s\n", textfmt.Printable(reason)) }
}

package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/ingot-run/ingot/config"
	"github.com/ingot-run/ingot/enqueue/fleet"
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/redisqueue"
)

func newPause() *cobra.Command {
	return aliasCommand("pause", "Stop workers from taking rows", "paused", "was paused before", (*redisqueue.Queue).Pause)
}

func newResume() *cobra.Command {
	return aliasCommand("resume", "Let workers take rows again", "resumed", "was not paused", (*redisqueue.Queue).Resume)
}

// aliasCommand returns a command that calls change with an alias or, without an argument, with
// every known alias.
func aliasCommand(name, short, changed, unchanged string, change func(*redisqueue.Queue, context.Context, string) (bool, error)) *cobra.Command {
	cmd := &cobra.Command{
		Use:   name + " [ALIAS] --redis URL",
		Short: short,
		Args:  optionalArgument,
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, alias := range args {
				if err := queue.CheckAlias(alias); err != nil {
					return &usageError{err}
				}
			}
			return onRedis(func(cmd *cobra.Command, q *redisqueue.Queue, _ []string) error {
				aliases, err := fleet.Aliases(cmd.Context(), q, args...)
				if err != nil {
					return err
				}
				if len(aliases) == 0 {
					cmd.PrintErrln("there are no model names yet")
				}
				for _, alias := range aliases {
					do := func(ctx context.Context, alias string) (bool, error) { return change(q, ctx, alias) }
					if err := reportChange(cmd, alias, do, changed, unchanged); err != nil {
						return err
					}
				}
				return nil
			})(cmd, nil)
		},
	}
	config.AddFlag(cmd.Flags(), config.Redis)
	return cmd
}

func optionalArgument(_ *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usagef("unexpected argument %q", args[1])
	}
	return nil
}

// reportChange calls do, which pauses or resumes an alias or an entry of a schedule, and prints
// whether this changed anything.
func reportChange(cmd *cobra.Command, alias string, do func(context.Context, string) (bool, error), changed, unchanged string) error {
	changes, err := do(cmd.Context(), alias)
	if err != nil {
		return err
	}
	text := unchanged
	if changes {
		text = changed
	}
	cmd.PrintErrf("%s: %s\n", alias, text)
	return nil
}

package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ingot-run/ingot/config"
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
				aliases, err := knownAliases(cmd, q, args)
				if err != nil {
					return err
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

// knownAliases returns the alias in args if it is known or, without an argument, all known aliases.
func knownAliases(cmd *cobra.Command, q *redisqueue.Queue, args []string) ([]string, error) {
	known, err := q.Aliases(cmd.Context())
	if err != nil {
		return nil, err
	}
	all := slices.Sorted(maps.Keys(known))
	if len(args) == 0 {
		if len(all) == 0 {
			cmd.PrintErrln("there are no model names yet")
		}
		return all, nil
	}
	if _, ok := known[args[0]]; !ok {
		hint := "there are no model names yet"
		if len(all) > 0 {
			hint = "the known names are: " + strings.Join(all, ", ")
		}
		return nil, fmt.Errorf("no rows were queued for model name %q, and no worker serves it; %s", args[0], hint)
	}
	return args, nil
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

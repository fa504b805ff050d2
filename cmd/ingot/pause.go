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
	cmd := &cobra.Command{
		Use:   "pause [ALIAS] --redis URL",
		Short: "Stop workers from taking rows",
		Long: `Pause stops the workers of model name ALIAS, or of all model names, from taking rows, until "ingot resume". Rows that are
running are finished. Rows can be queued and results collected meanwhile.`,
		Example: "  ingot pause glm --redis redis://localhost:6379/0",
		Args:    optionalArgument,
		RunE: onAliases(func(cmd *cobra.Command, q *redisqueue.Queue, alias string) error {
			return reportChange(cmd, alias, q.Pause, "paused", "was paused before")
		}),
	}
	config.AddFlag(cmd.Flags(), config.Redis)
	return cmd
}

// optionalArgument checks that there is at most one argument.
func optionalArgument(_ *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usagef("unexpected argument %q", args[1])
	}
	return nil
}

// onAliases returns the RunE of a command that takes an optional model name. It calls run with this name or, without an argument, with every
// known name.
func onAliases(run func(cmd *cobra.Command, q *redisqueue.Queue, alias string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		for _, alias := range args {
			if err := queue.CheckAlias(alias); err != nil {
				return &usageError{err}
			}
		}
		return onRedis(func(cmd *cobra.Command, q *redisqueue.Queue, _ []string) error {
			known, err := q.Aliases(cmd.Context())
			if err != nil {
				return err
			}
			names := slices.Sorted(maps.Keys(known))
			if len(names) == 0 && len(args) == 0 {
				cmd.PrintErrln("there are no model names yet")
			}
			for _, alias := range args {
				if _, ok := known[alias]; !ok {
					hint := "there are no model names yet"
					if len(names) > 0 {
						hint = "the known names are: " + strings.Join(names, ", ")
					}
					return fmt.Errorf("no rows were queued for model name %q, and no worker serves it; %s", alias, hint)
				}
				names = args
			}
			for _, alias := range names {
				if err := run(cmd, q, alias); err != nil {
					return err
				}
			}
			return nil
		})(cmd, nil)
	}
}

// reportChange calls do, which pauses or resumes an alias or an entry of a schedule, and prints whether this changed anything.
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

package main

import (
	"fmt"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/ingot-run/ingot/eval"
)

func newEvalBaseline() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "baseline",
		Short: "Pin runs under names, for gates to compare with",
		Long: `Baseline pins a run under a name. "ingot eval gate --baseline NAME" and the gates of a schedule compare with it until
another run is pinned. A fixed baseline shows a slow decline, which comparing with last night's run would miss.`,
		Example: `  ingot eval baseline set production runs/2026-01-02
  ingot eval gate --baseline production runs/tonight`,
		Args: noCommand,
		RunE: noneGiven,
	}
	cmd.AddCommand(newBaselineSet(), newBaselineList(), newBaselineRemove())
	return cmd
}

func newBaselineSet() *cobra.Command {
	var folder string
	cmd := &cobra.Command{
		Use:   "set NAME RUN",
		Short: "Pin a run under a name",
		Long: `Set pins RUN, the name of a run in the folder of runs or the path of its directory, under NAME. A gate refuses the
baseline if the scores or samples of the run change later.`,
		Example: "  ingot eval baseline set production runs/2026-01-02",
		Args:    arguments("NAME", "RUN"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := eval.CheckName("baseline", args[0]); err != nil {
				return &usageError{err}
			}
			b, err := eval.Pin(folder, args[0], args[1])
			if err != nil {
				return err
			}
			cmd.PrintErrf("%s: run %s\n", args[0], printable(b.Run))
			return nil
		},
	}
	addRunsFlag(cmd.Flags(), &folder)
	return cmd
}

func newBaselineList() *cobra.Command {
	var folder string
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the pinned baselines",
		Long:    "List prints the pinned baselines of a folder of runs, and whether their runs have changed since.",
		Example: "  ingot eval baseline list",
		Args:    arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := eval.Baselines(folder)
			if err != nil {
				return err
			}
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), all)
			}
			t := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(t, "name\trun\tpinned\tstate") //nolint:errcheck // Flush reports it
			for _, name := range slices.Sorted(maps.Keys(all)) {
				state := "ready"
				if _, err := eval.PinnedRun(folder, name); err != nil {
					state = oneLine(err.Error())
				}
				fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", //nolint:errcheck // Flush reports it
					printable(name), printable(all[name].Run), all[name].Pinned.Local().Format(time.DateTime), state)
			}
			return t.Flush()
		},
	}
	addRunsFlag(cmd.Flags(), &folder)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func newBaselineRemove() *cobra.Command {
	var folder string
	cmd := &cobra.Command{
		Use:     "rm NAME",
		Short:   "Remove a baseline; its run stays",
		Long:    "Rm removes the baseline NAME. The run stays in the folder.",
		Example: "  ingot eval baseline rm production",
		Args:    arguments("NAME"),
		RunE: func(_ *cobra.Command, args []string) error {
			return eval.Unpin(folder, args[0])
		},
	}
	addRunsFlag(cmd.Flags(), &folder)
	return cmd
}

package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/ingot-run/ingot/eval"
	"github.com/ingot-run/ingot/eval/statistics"
)

// ownMargin is the value of --margin that selects each task's own margin.
const ownMargin = -1

func newEvalCompare() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "compare BASELINE CANDIDATE",
		Short: "Compare two runs",
		Long: `Compare prints how the scores of CANDIDATE differ from those of BASELINE, row by row: the mean difference, its 95 %
interval, the probability that chance alone causes a difference at least as large (p), and the smallest loss that a comparison
of so many rows is likely to find (shows). Runs whose prompts differ are refused.`,
		Example: "  ingot eval compare runs/baseline runs/tonight",
		Args:    arguments("BASELINE", "CANDIDATE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			list, err := eval.Compare(args[0], args[1], ownMargin)
			if err != nil {
				return err
			}
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), list)
			}
			return writeComparison(cmd.OutOrStdout(), list)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func newEvalGate() *cobra.Command {
	var g gate
	cmd := &cobra.Command{
		Use:   "gate (BASELINE CANDIDATE | --baseline NAME CANDIDATE)",
		Short: "Fail if a run is worse than a baseline",
		Long: `Gate compares CANDIDATE with BASELINE, and prints a verdict. The exit code is 0 for pass, 1 for fail, and 3 for
inconclusive: the rows are too few, or too noisy, to exclude a loss as large as the margin. It is 2 if the runs cannot be
compared, because they have different tasks, prompts or metrics. A run in which more than 1 % of the rows have no answer
fails. The chance of a false alarm is at most 5 %, over all tasks together.

BASELINE and CANDIDATE are directories of runs. With --baseline the run that is pinned as NAME is the baseline, and
CANDIDATE can be the name of a run in the same folder.`,
		Example: `  ingot eval gate runs/baseline runs/tonight
  ingot eval gate runs/baseline runs/tonight --margin 0.02
  ingot eval gate --baseline production runs/tonight`,
		Args: func(cmd *cobra.Command, args []string) error {
			if g.name != "" {
				return arguments("CANDIDATE")(cmd, args)
			}
			return arguments("BASELINE", "CANDIDATE")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("margin") && (g.margin < 0 || g.margin > 1) {
				return usagef("--margin %v: give a number from 0 to 1", g.margin)
			}
			err := g.run(cmd.OutOrStdout(), args)
			var worse *worseError
			var unknown *inconclusiveError
			if err != nil && !errors.As(err, &worse) && !errors.As(err, &unknown) {
				return &usageError{err}
			}
			return err
		},
	}
	cmd.Flags().StringVar(&g.name, "baseline", "", "compare with the run that is pinned as `NAME`")
	addRunsFlag(cmd.Flags(), &g.folder)
	cmd.Flags().Float64Var(&g.margin, "margin", ownMargin, "accept a loss of `X`, such as 0.01 (default each task's margin)")
	cmd.Flags().Lookup("margin").DefValue = "0" // the help prints no default of 0
	return cmd
}

// gate is one execution of "ingot eval gate", with its settings.
type gate struct {
	name, folder string // name of a pinned baseline, or empty; folder of runs
	margin       float64
}

func (g *gate) run(w io.Writer, args []string) error {
	var list []eval.Compared
	candidate, baseline := args[len(args)-1], "baseline "+g.name
	if g.name == "" {
		baseline = args[0]
		var err error
		if list, err = eval.CompareAll(baseline, candidate, g.margin); err != nil {
			return err
		}
	} else {
		run, err := eval.FindRun(g.folder, candidate)
		if err != nil {
			return err
		}
		j, err := eval.Gate(g.folder, g.name, run, g.margin)
		if err != nil {
			return err
		}
		list = j.Compared
	}
	if err := writeComparison(w, list); err != nil {
		return err
	}
	verdict := eval.Verdict(list)
	fmt.Fprintln(w, "verdict:", verdict) //nolint:errcheck // the exit code reports the verdict too
	switch verdict {
	case statistics.Fail:
		return &worseError{candidate, baseline}
	case statistics.Inconclusive:
		writeRowsToPass(w, list)
		return &inconclusiveError{candidate, baseline}
	}
	return nil
}

// writeRowsToPass prints how many rows each inconclusive comparison needs.
func writeRowsToPass(w io.Writer, list []eval.Compared) {
	for i := range list {
		c := &list[i]
		if n := c.RowsToPass(c.Margin); c.Verdict == statistics.Inconclusive && n > c.N {
			fmt.Fprintf(w, "%s %s: to exclude a loss of %.4f, about %d rows are needed\n", c.Task, c.Metric, c.Margin, n) //nolint:errcheck // the verdict was printed
		}
	}
}

// worseError is the result of a gate that fails.
type worseError struct{ candidate, baseline string }

func (e *worseError) Error() string {
	return fmt.Sprintf("%s is worse than %s", e.candidate, e.baseline)
}

// inconclusiveError is the result of a gate that can neither pass nor fail the candidate.
type inconclusiveError struct{ candidate, baseline string }

func (e *inconclusiveError) Error() string {
	return fmt.Sprintf("%s cannot be judged against %s: use more rows, or a larger --margin", e.candidate, e.baseline)
}

func newEvalDiff() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "diff TASK BASELINE CANDIDATE",
		Short:   "List the rows whose answers changed",
		Long:    "Diff lists the rows of a task whose answers or scores differ between two runs, with both answers.",
		Example: "  ingot eval diff capitals runs/baseline runs/tonight | less",
		Args:    arguments("TASK", "BASELINE", "CANDIDATE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			list, err := eval.Changes(args[0], args[1], args[2])
			if err != nil {
				return err
			}
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), list)
			}
			return writeChanges(cmd.OutOrStdout(), list)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func writeComparison(w io.Writer, list []eval.Compared) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "task\tmetric\tfilter\tbaseline\tcandidate\tdifference\t95 % interval\tp\trows\tlost\twon\tchanged\tfailed\tcut\tshows\tverdict") //nolint:errcheck // Flush reports it
	for _, c := range list {
		fmt.Fprintf(t, "%s\t%s\t%s\t%.4f\t%.4f\t%+.4f\t%+.4f to %+.4f\t%.4f\t%d\t%d\t%d\t%d\t%d\t%d\t%.4f\t%s\n", //nolint:errcheck // Flush reports it
			c.Task, c.Metric, c.Filter, c.Baseline, c.Candidate, c.Mean, c.Low, c.High, c.P, c.N, c.Lost, c.Won, c.Changed, c.Failed, c.Cut, c.Smallest, c.Verdict)
	}
	return t.Flush()
}

func writeChanges(w io.Writer, list []eval.Change) error {
	var b strings.Builder
	for _, c := range list {
		fmt.Fprintf(&b, "%s row %d\n  prompt:    %s\n  target:    %s\n  baseline:  %s  %v\n  candidate: %s  %v\n",
			printable(c.Task), c.Row, printable(c.Context), printable(c.Target),
			printable(strings.Join(c.Baseline, " | ")), c.Scores[0], printable(strings.Join(c.Candidate, " | ")), c.Scores[1])
	}
	fmt.Fprintf(&b, "%s differ\n", countRows(len(list)))
	_, err := io.WriteString(w, b.String())
	return err
}

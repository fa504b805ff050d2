package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/ingot-run/ingot/eval"
	"github.com/ingot-run/ingot/eval/report"
	"github.com/ingot-run/ingot/eval/statistics"
)

func newEvalCompare() *cobra.Command {
	return printing(&cobra.Command{
		Use:   "compare BASELINE CANDIDATE",
		Short: "Compare two runs",
		Args:  arguments("BASELINE", "CANDIDATE"),
	}, func(args []string) ([]eval.Compared, error) { return eval.Compare(args[0], args[1], eval.OwnMargin) }, report.WriteComparison)
}

func newEvalGate() *cobra.Command {
	var g gate
	cmd := &cobra.Command{
		Use:   "gate (BASELINE CANDIDATE | --baseline NAME CANDIDATE)",
		Short: "Fail if a run is worse than a baseline",
		Args: func(cmd *cobra.Command, args []string) error {
			if g.name != "" {
				return arguments("CANDIDATE")(cmd, args)
			}
			return arguments("BASELINE", "CANDIDATE")(cmd, args)
		},
		RunE: g.run,
	}
	cmd.Flags().StringVar(&g.name, "baseline", "", "compare with the run that is pinned as `NAME`")
	g.runs.add(cmd.Flags())
	cmd.Flags().BoolVarP(&g.quiet, "quiet", "q", false, "print nothing but the error; the exit code is the verdict")
	g.out.add(cmd.Flags())
	cmd.Flags().Float64Var(&g.margin, "margin", eval.OwnMargin, "accept a loss of `X`, such as 0.02 (default each task's margin)")
	cmd.Flags().Lookup("margin").DefValue = "0" // the help prints no default of 0
	return cmd
}

type gate struct {
	runs   runsFlag
	name   string // of a pinned baseline; empty if the command line names a run
	margin float64
	quiet  bool
	out    jsonFlag
}

func (g *gate) run(cmd *cobra.Command, args []string) error {
	if cmd.Flags().Changed("margin") && !(g.margin >= 0 && g.margin <= 1) { // NaN is neither
		return usagef("--margin %v: give a number from 0 to 1", g.margin)
	}
	list, err := g.compare(args)
	if err == nil && !g.quiet {
		err = g.out.write(cmd, gateSummary{string(eval.Verdict(list)), list}, func(w io.Writer) error { return report.WriteVerdict(w, list) })
	}
	if err != nil {
		return &usageError{err}
	}
	candidate, baseline := args[len(args)-1], args[0]
	if g.name != "" {
		baseline = "baseline " + g.name
	}
	switch eval.Verdict(list) {
	case statistics.Fail:
		return fmt.Errorf("%s is worse than %s", candidate, baseline)
	case statistics.Inconclusive:
		return &inconclusiveError{candidate, baseline}
	}
	return nil
}

// gateSummary is the verdict of a gate in JSON.
type gateSummary struct {
	Verdict  string          `json:"verdict"`
	Compared []eval.Compared `json:"compared"`
}

func (g *gate) compare(args []string) ([]eval.Compared, error) {
	if g.name == "" {
		return eval.CompareAll(args[0], args[1], g.margin)
	}
	run, err := eval.FindRun(g.runs.folder, args[0])
	if err != nil {
		return nil, err
	}
	v, err := eval.Gate(g.runs.folder, g.name, run, g.margin)
	if err != nil {
		return nil, err
	}
	return v.Compared, nil
}

// inconclusiveError is the result of a gate that can neither pass nor fail the candidate.
type inconclusiveError struct{ candidate, baseline string }

func (e *inconclusiveError) Error() string {
	return fmt.Sprintf("%s cannot be judged against %s: use more rows, or a larger --margin", e.candidate, e.baseline)
}

func newEvalDiff() *cobra.Command {
	return printing(&cobra.Command{
		Use:   "diff [TASK] BASELINE CANDIDATE",
		Short: "List the rows whose answers changed, of one task or of all",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 2 {
				return nil
			}
			return arguments("TASK", "BASELINE", "CANDIDATE")(cmd, args)
		},
	}, func(args []string) ([]eval.Change, error) {
		if len(args) == 2 {
			return eval.Changes("", args[0], args[1])
		}
		return eval.Changes(args[0], args[1], args[2])
	}, report.WriteChanges)
}

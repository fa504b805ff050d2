package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ingot-run/ingot/eval"
	"github.com/ingot-run/ingot/eval/report"
	"github.com/ingot-run/ingot/internal/textfmt"
)

type runsFlag struct{ folder string }

func (r *runsFlag) add(flags *pflag.FlagSet) {
	flags.StringVar(&r.folder, "runs", "runs", "the folder of runs is `DIR`")
}

type jsonFlag bool

func (j *jsonFlag) add(flags *pflag.FlagSet) {
	flags.BoolVar((*bool)(j), "json", false, "print JSON")
}

// write prints a value as JSON if the flag is given, else as the text that the function writes.
func (j *jsonFlag) write(cmd *cobra.Command, v any, text func(w io.Writer) error) error {
	if *j {
		return writeJSON(cmd.OutOrStdout(), v)
	}
	return text(cmd.OutOrStdout())
}

// printing completes a command that prints what read returns: as JSON, or by the function text.
func printing[T any](cmd *cobra.Command, read func(args []string) (T, error), text func(w io.Writer, v T) error) *cobra.Command {
	var out jsonFlag
	out.add(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		v, err := read(args)
		if err != nil {
			return err
		}
		return out.write(cmd, v, func(w io.Writer) error { return text(w, v) })
	}
	return cmd
}

func newEvalList() *cobra.Command {
	var runs runsFlag
	cmd := &cobra.Command{Use: "list", Short: "List the runs of a folder with their scores", Args: arguments()}
	runs.add(cmd.Flags())
	return printing(cmd, func([]string) ([]eval.Run, error) {
		index, err := eval.ReadIndex(runs.folder)
		if err != nil {
			return nil, err
		}
		for _, err := range index.Damaged {
			cmd.PrintErrln("skipped: " + textfmt.OneLine(err.Error()))
		}
		return index.Runs, nil
	}, func(w io.Writer, list []eval.Run) error {
		pinned, err := eval.Baselines(runs.folder)
		if err != nil {
			return err
		}
		return report.WriteRuns(w, list, pinned)
	})
}

func newEvalBaseline() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "baseline",
		Short: "Pin runs under names, for gates to compare with",
		Args:  noCommand,
		RunE:  noneGiven,
	}
	cmd.AddCommand(newBaselineSet(), newBaselineList(), newBaselineRemove())
	return cmd
}

func newBaselineSet() *cobra.Command {
	var runs runsFlag
	cmd := &cobra.Command{
		Use:   "set NAME RUN",
		Short: "Pin a run under a name",
		Args:  arguments("NAME", "RUN"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := eval.CheckName("baseline", args[0]); err != nil {
				return &usageError{err}
			}
			b, err := eval.Pin(runs.folder, args[0], args[1])
			if err != nil {
				return err
			}
			cmd.PrintErrf("%s: run %s\n", args[0], textfmt.Printable(b.Run))
			return nil
		},
	}
	runs.add(cmd.Flags())
	return cmd
}

func newBaselineList() *cobra.Command {
	var runs runsFlag
	cmd := &cobra.Command{Use: "list", Short: "List the pinned baselines", Args: arguments()}
	runs.add(cmd.Flags())
	return printing(cmd,
		func([]string) (map[string]eval.Baseline, error) { return eval.Baselines(runs.folder) },
		func(w io.Writer, all map[string]eval.Baseline) error {
			return report.WriteBaselines(w, runs.folder, all)
		})
}

func newBaselineRemove() *cobra.Command {
	var runs runsFlag
	cmd := &cobra.Command{
		Use:   "rm NAME",
		Short: "Remove a baseline; its run stays",
		Args:  arguments("NAME"),
		RunE: func(_ *cobra.Command, args []string) error {
			return eval.Unpin(runs.folder, args[0])
		},
	}
	runs.add(cmd.Flags())
	return cmd
}

func newEvalReport() *cobra.Command {
	e := evalReport{options: report.Options{Version: programVersion()}}
	cmd := &cobra.Command{
		Use:   "report -o FILE.html [CANDIDATE]",
		Short: "Write a page about a folder of runs",
		Args:  optionalArgument,
		RunE:  e.run,
	}
	cmd.Flags().StringVarP(&e.out, "out", "o", "", "write the page to `FILE`; - for stdout")
	cmd.Flags().StringVar(&e.options.Baseline, "baseline", "", "compare with the run that is pinned as `NAME`, or has this name")
	e.runs.add(cmd.Flags())
	return cmd
}

type evalReport struct {
	runs    runsFlag
	out     string
	options report.Options
}

func (e *evalReport) run(cmd *cobra.Command, args []string) error {
	if e.out == "" {
		return usagef("-o FILE.html is missing")
	}
	if len(args) > 0 {
		e.options.Candidate = args[0]
	}
	var page bytes.Buffer
	if err := report.Write(&page, e.runs.folder, e.options); err != nil {
		return err
	}
	if e.out == stdio {
		_, err := page.WriteTo(cmd.OutOrStdout())
		return err
	}
	if err := os.WriteFile(e.out, page.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	path, err := filepath.Abs(e.out)
	if err != nil {
		return err
	}
	cmd.PrintErrln("report: " + textfmt.Printable(path))
	return nil
}

package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ingot-run/ingot/eval"
)

// addRunsFlag adds the flag --runs.
func addRunsFlag(flags *pflag.FlagSet, folder *string) {
	flags.StringVar(folder, "runs", "runs", "the folder of runs is `DIR`")
}

func newEvalList() *cobra.Command {
	var folder string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the runs of a folder with their scores",
		Long: `List prints the finished runs in a folder, the oldest first: their scores, the models that answered, and the verdict of
a schedule's gate. If a run is a pinned baseline, its line has the baseline's name.`,
		Example: `  ingot eval list
  ingot eval list --runs /data/evaluations --json`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			index, err := eval.ReadIndex(folder)
			if err != nil {
				return err
			}
			for _, err := range index.Damaged {
				cmd.PrintErrln("skipped: " + oneLine(err.Error()))
			}
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), index.Runs)
			}
			pinned, err := eval.Baselines(folder)
			if err != nil {
				return err
			}
			return writeRuns(cmd.OutOrStdout(), index.Runs, pinned)
		},
	}
	addRunsFlag(cmd.Flags(), &folder)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func writeRuns(w io.Writer, runs []eval.Run, pinned map[string]eval.Baseline) error {
	names := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(pinned)) {
		names[pinned[name].Run] = append(names[pinned[name].Run], name)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "run\tbaseline\tdate\tmodel\ttask\tscores\trows\tfailed\tverdict") //nolint:errcheck // Flush reports it
	for _, r := range runs {
		verdict := ""
		if r.Gate != nil {
			verdict = string(r.Gate.Verdict)
		}
		for _, task := range slices.Sorted(maps.Keys(r.Results.Results)) {
			n := r.Results.Samples[task]
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%d\t%s\n", //nolint:errcheck // Flush reports it
				printable(r.Name), strings.Join(names[r.Name], ","), r.Results.Date.Local().Format(time.DateTime), models(r.Results.Config.ModelSHA256),
				printable(task), scoresOf(r.Results.Results[task]), n.Effective, n.Failed, verdict)
		}
	}
	return t.Flush()
}

// models lists the hashes of models, shortened as in "ingot workers".
func models(sums []string) string {
	short := make([]string, len(sums))
	for i, s := range sums {
		short[i] = printable(fmt.Sprintf("%.12s", s))
	}
	return strings.Join(short, ",")
}

// scoresOf shows the scores of a task with their standard errors. The filter is shown if it has a name.
func scoresOf(scores map[string]float64) string {
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(scores)) {
		metric, filter, _ := strings.Cut(key, ",")
		if strings.HasSuffix(metric, "_stderr") {
			continue
		}
		text := metric
		if filter != "none" {
			text += "," + filter
		}
		text = fmt.Sprintf("%s %.4f", text, scores[key])
		if v, ok := scores[metric+"_stderr,"+filter]; ok {
			text += fmt.Sprintf("±%.4f", v)
		}
		parts = append(parts, printable(text))
	}
	return strings.Join(parts, " ")
}

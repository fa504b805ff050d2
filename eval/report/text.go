package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ingot-run/ingot/eval"
	"github.com/ingot-run/ingot/eval/statistics"
	"github.com/ingot-run/ingot/internal/textfmt"
)

// WriteScores writes the scores of a run as a table: first the tasks, then the groups. The counts
// of a group's score are those of the tasks that have the metric.
func WriteScores(w io.Writer, r *eval.Results) error {
	t := textfmt.NewTable(w, "task", "metric", "filter", "score", "stderr", "rows", "failed", "truncated")
	add := func(name string, scores map[string]float64, tasks []string) {
		if len(scores) == 0 {
			n := countOf(r, tasks, "")
			t.Line(name, "", "", "", "", n.Effective, n.Failed, n.Truncated)
		}
		for _, v := range eval.Scores(scores) {
			n := countOf(r, tasks, v.Metric+","+v.Filter)
			t.Line(name, v.Metric, v.Filter, shownScore(v.Value), plusMinus(v), n.Effective, n.Failed, n.Truncated)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Results)) {
		add(name, r.Results[name], []string{name})
	}
	for _, name := range slices.Sorted(maps.Keys(r.Groups)) {
		add(name+" (group)", r.Groups[name], r.Subtasks[name])
	}
	return t.Flush()
}

// countOf returns the sum of the counts of the tasks that have a score, given as "metric,filter",
// or of all tasks if score is empty.
func countOf(r *eval.Results, tasks []string, score string) (n eval.Count) {
	for _, name := range tasks {
		if _, ok := r.Results[name][score]; ok || score == "" {
			count := r.Samples[name]
			n.Effective, n.Failed, n.Truncated = n.Effective+count.Effective, n.Failed+count.Failed, n.Truncated+count.Truncated
		}
	}
	return n
}

func shownScore(v float64) string { return fmt.Sprintf("%.4f", v) }

// plusMinus formats a standard error; it is empty if the error is not known.
func plusMinus(v eval.MetricScore) string {
	if !v.Certain {
		return ""
	}
	return "±" + shownScore(v.Stderr)
}

// WriteRuns writes a line for each task of each run, with the names under which the runs are
// pinned.
func WriteRuns(w io.Writer, runs []eval.Run, pinned map[string]eval.Baseline) error {
	names := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(pinned)) {
		names[pinned[name].Run] = append(names[pinned[name].Run], name)
	}
	t := textfmt.NewTable(w, "run", "baseline", "date", "model", "task", "scores", "rows", "failed", "verdict")
	for _, r := range runs {
		var verdict statistics.Verdict
		if r.Gate != nil {
			verdict = r.Gate.Verdict
		}
		models := []string{r.Results.Config.Model}
		if models[0] == "" {
			models = nil
			for _, sum := range r.Results.Config.ModelSHA256 {
				models = append(models, fmt.Sprintf("%.12s", sum)) // as in "ingot workers"
			}
		}
		for _, task := range slices.Sorted(maps.Keys(r.Results.Results)) {
			var scores []string
			for _, v := range eval.Scores(r.Results.Results[task]) {
				scores = append(scores, v.Name()+" "+shownScore(v.Value)+plusMinus(v))
			}
			n := r.Results.Samples[task]
			t.Line(r.Name, strings.Join(names[r.Name], ","), r.Results.Date.Local().Format(time.DateTime), strings.Join(models, ","),
				task, strings.Join(scores, " "), n.Effective, n.Failed, verdict)
		}
	}
	return t.Flush()
}

// WriteBaselines writes the pinned baselines of a folder of runs, and whether their runs have
// changed.
func WriteBaselines(w io.Writer, folder string, all map[string]eval.Baseline) error {
	t := textfmt.NewTable(w, "name", "run", "pinned", "state")
	for _, name := range slices.Sorted(maps.Keys(all)) {
		state := "ready"
		if _, err := eval.PinnedRun(folder, name); err != nil {
			state = textfmt.OneLine(err.Error())
		}
		t.Line(name, all[name].Run, all[name].Pinned.Local().Format(time.DateTime), state)
	}
	return t.Flush()
}

// WriteComparison writes the comparisons of two runs as a table.
func WriteComparison(w io.Writer, list []eval.Compared) error {
	t := textfmt.NewTable(w, "task", "metric", "filter", "baseline", "candidate", "difference", "90 % interval", "p",
		"rows", "lost", "won", "changed", "failed", "cut", "shows", "verdict")
	for _, c := range list {
		t.Line(c.Task, c.Metric, c.Filter, shownScore(c.Baseline), shownScore(c.Candidate), fmt.Sprintf("%+.4f", c.Mean),
			fmt.Sprintf("%+.4f to %+.4f", c.Low, c.High), shownScore(c.P),
			c.N, c.Lost, c.Won, c.Changed, c.Failed, c.Cut, shownScore(c.Smallest), c.Verdict)
	}
	return t.Flush()
}

// WriteVerdict writes the comparisons and the verdict of a gate. If the verdict is inconclusive, it
// adds how many rows are needed.
func WriteVerdict(w io.Writer, list []eval.Compared) error {
	if err := WriteComparison(w, list); err != nil {
		return err
	}
	fmt.Fprintln(w, "verdict:", eval.Verdict(list)) //nolint:errcheck // the caller reports the verdict too
	if eval.Verdict(list) != statistics.Inconclusive {
		return nil
	}
	for i := range list {
		c := &list[i]
		if n := c.RowsToPass(c.Margin); c.Verdict == statistics.Inconclusive && n > c.N {
			fmt.Fprintf(w, "%s %s: to exclude a loss of %.4f, about %d rows are needed\n", c.Task, c.Metric, c.Margin, n) //nolint:errcheck // the verdict was printed
		}
	}
	return nil
}

// WriteChanges writes the rows whose answers changed, with both answers.
func WriteChanges(w io.Writer, list []eval.Change) error {
	var b strings.Builder
	shown := func(answers []string) string { return textfmt.Printable(strings.Join(answers, " | ")) }
	for _, c := range list {
		fmt.Fprintf(&b, "%s row %d\n  prompt:    %s\n  target:    %s\n  baseline:  %s  (%s)\n  candidate: %s  (%s)\n",
			textfmt.Printable(c.Task), c.Row, textfmt.Printable(c.Context), textfmt.Printable(c.Target),
			shown(c.Baseline), shownScores(c.Scores[0]), shown(c.Candidate), shownScores(c.Scores[1]))
	}
	verb := "differ"
	if len(list) == 1 {
		verb = "differs"
	}
	fmt.Fprintf(&b, "%s %s\n", textfmt.Count(len(list), "row"), verb)
	_, err := io.WriteString(w, b.String())
	return err
}

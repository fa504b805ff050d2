package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ingot-run/ingot/eval"
)

func (c *content) histories(runs []eval.Run) error {
	called := axisNames(runs)
	for _, s := range c.Scores {
		var points []point
		var names []string
		var before *eval.Run
		for i := range runs {
			run := &runs[i]
			v, ok := run.Results.Score(s.Task, s.Metric, s.Filter)
			if !ok || math.IsNaN(v.Value) || math.IsInf(v.Value, 0) {
				continue
			}
			pt := point{value: v.Value, Interval: v.Interval(run.Results.Samples[s.Task].Effective), name: run.Name, role: c.role(run.Name)}
			if before != nil {
				pt.change = changesOf(before.Results, run.Results, s.Task)
			}
			before = run
			points, names = append(points, pt), append(names, called[run.Name])
		}
		if len(points) == 0 {
			continue
		}
		f := figure{Title: s.Task + " · " + s.Metric}
		if s.Filter != "none" {
			f.Title += " · " + s.Filter
		}
		if !c.Candidate.Results.HigherBetter[s.Task][s.Metric] {
			f.Note = "lower is better"
		}
		label := fmt.Sprintf("%s over %d runs, from %.4f to %.4f", f.Title, len(points), points[0].value, points[len(points)-1].value)
		drawn := history(points, names, eval.Possible(s.Metric), label)
		var err error
		if f.Chart, err = drawn.SVG(); err != nil {
			return err
		}
		c.Histories = append(c.Histories, f)
	}
	return nil
}

func changesOf(before, after *eval.Results, task string) string {
	var list []string
	if !slices.Equal(before.Config.ModelSHA256, after.Config.ModelSHA256) {
		list = append(list, "model")
	}
	if before.Config.Version != after.Config.Version {
		list = append(list, "engine")
	}
	scoring, then := after.ScoreHashes[task], before.ScoreHashes[task] // empty in runs of earlier versions
	if before.TaskHashes[task] != after.TaskHashes[task] || scoring != then && scoring != "" && then != "" {
		list = append(list, "task")
	}
	return strings.Join(list, ", ")
}

// maxName is the maximum length of a run's name under a chart.
const maxName = 10

// axisNames returns the labels of runs under a chart: dates, or times if all runs are of one day.
// If two runs would get the same label, the labels are the names of the runs or, if one of them is
// too long, the numbers that they have in the list of runs.
func axisNames(runs []eval.Run) map[string]string {
	form := "Jan 2"
	first, last := runs[0].Results.Date.UTC(), runs[len(runs)-1].Results.Date.UTC()
	if first.Format(time.DateOnly) == last.Format(time.DateOnly) {
		form = "15:04"
	}
	names, used := map[string]string{}, map[string]bool{}
	for i := range runs {
		name := runs[i].Results.Date.UTC().Format(form)
		names[runs[i].Name], used[name] = name, true
	}
	if len(used) == len(runs) {
		return names
	}
	long := false
	for name := range names {
		names[name] = name
		long = long || utf8.RuneCountInString(name) > maxName
	}
	for i := range runs {
		if long {
			names[runs[i].Name] = fmt.Sprintf("#%d", i+1)
		}
	}
	return names
}

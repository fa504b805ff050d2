// Package report writes an HTML page about a folder of evaluation runs: the latest run compared
// with a baseline, scores over time, answer lengths and latencies, and the rows that changed. The
// page needs no other file and no network.
package report

import (
	"bytes"
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	template "github.com/DataDog/datadog-agent/pkg/template/html"

	"github.com/ingot-run/ingot/eval"
	"github.com/ingot-run/ingot/eval/statistics"
)

// Options are the settings of a report. A zero value stands for the default that the field's
// comment names.
type Options struct {
	Baseline  string // name of a pinned baseline or of a run; default: the pinned baseline if there is exactly one, else the oldest run
	Candidate string // name of a run; default: the latest run that is not the baseline
	Version   string // version of the program
}

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"score":   shownScore,
	"signed":  func(v float64) string { return fmt.Sprintf("%+.4f", v) },
	"p":       shownP,
	"day":     func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04") },
	"short":   func(s string) string { return s[:min(len(s), 12)] },
	"scores":  shownScores,
	"width":   compared.width,
	"heading": change.heading,
	"join":    func(answers []string) string { return strings.Join(answers, "\n— ") },
}).Parse(pageText))

func shownP(p float64) string {
	if p < 0.0001 {
		return "< 0.0001"
	}
	return shownScore(p)
}

func shownScores(scores map[string]float64) string {
	var b bytes.Buffer
	for i, name := range slices.Sorted(maps.Keys(scores)) {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s %.4g", name, scores[name])
	}
	return b.String()
}

type content struct {
	Made       time.Time
	Version    string
	Candidate  *eval.Run
	Baseline   *eval.Run // nil if there is no other run
	Pinned     string    // name under which the baseline is pinned; empty if it is not pinned
	Verdict    statistics.Verdict
	Refused    string // why the runs cannot be compared; empty if they can
	Missing    string // tasks that lack so many answers that a gate fails, with the reason of the first; empty if there are none
	Compared   []compared
	Scale      float64  // difference that the ends of the bars of Compared stand for
	Scores     []scored // scores of the candidate if there is no comparison
	Histories  []figure
	Figures    []figure // charts of answer lengths and latencies
	Quantiles  []quantiles
	Changes    []changed
	Runs       []listed // the latest first
	Rows       int
	ChangedAll int
	Failed     int
	Truncated  int
	Damaged    []string
}

type figure struct {
	Title, Note string
	Chart       template.HTML
}

type scored struct {
	Task string
	eval.MetricScore
	Count eval.Count
}

type listed struct {
	eval.Run
	Role   string // see content.role
	Number int    // in the order of dates, from 1
	Rows   int
	Failed int
}

// Write writes the report on a folder of runs to w as HTML.
func Write(w io.Writer, folder string, o Options) error {
	index, err := eval.ReadIndex(folder)
	if err != nil {
		return err
	}
	if len(index.Runs) == 0 {
		return fmt.Errorf("report on %s: the folder has no finished run: make one with \"ingot eval run\"", folder)
	}
	c := &content{Made: time.Now(), Version: o.Version}
	for _, err := range index.Damaged {
		c.Damaged = append(c.Damaged, err.Error())
	}
	if err := c.choose(index, folder, o); err != nil {
		return err
	}
	if err := cmp.Or(c.compare(folder), c.histories(index.Runs), c.distributions(folder)); err != nil {
		return err
	}
	c.list(index.Runs)
	var b bytes.Buffer
	err = page.Execute(&b, c)
	if err == nil {
		_, err = b.WriteTo(w)
	}
	if err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

func (c *content) choose(index *eval.Index, folder string, o Options) error {
	pinned, err := eval.Baselines(folder)
	if err != nil {
		return err
	}
	base := o.Baseline
	if base == "" && len(pinned) == 1 {
		base = slices.Collect(maps.Keys(pinned))[0]
	}
	if _, ok := pinned[base]; ok {
		c.Pinned = base
		if base, err = eval.PinnedRun(folder, base); err != nil {
			return err
		}
	}
	base = cmp.Or(base, index.Runs[0].Name)
	if c.Baseline, err = find(index, folder, base); err != nil {
		return err
	}
	name := o.Candidate
	if name == "" {
		for i := range index.Runs {
			if index.Runs[i].Name != c.Baseline.Name {
				name = index.Runs[i].Name
			}
		}
	}
	if name == "" { // the only run
		c.Candidate, c.Baseline = c.Baseline, nil
		return nil
	}
	c.Candidate, err = find(index, folder, name)
	return err
}

func find(index *eval.Index, folder, run string) (*eval.Run, error) {
	name, err := eval.FindRun(folder, run)
	if err != nil {
		return nil, err
	}
	for i := range index.Runs {
		if index.Runs[i].Name == name {
			return &index.Runs[i], nil
		}
	}
	return nil, fmt.Errorf("report on run %q: its results.json or gate.json cannot be read: run \"ingot eval list\" for the reason", run)
}

func (c *content) compare(folder string) error {
	r := c.Candidate.Results
	for _, n := range r.Samples {
		c.Rows += n.Original
		c.Failed += n.Failed
		c.Truncated += n.Truncated
	}
	c.Scores = scoresOf(r)
	if c.Missing = r.Unanswered(); c.Missing != "" {
		reason, err := firstFailure(filepath.Join(folder, c.Candidate.Name), r)
		if err != nil {
			return err
		}
		c.Missing += ". The first reason: " + reason
	}
	if c.Baseline == nil {
		return nil
	}
	base, cand := filepath.Join(folder, c.Baseline.Name), filepath.Join(folder, c.Candidate.Name)
	list, err := eval.CompareAll(base, cand, -1)
	switch {
	case errors.Is(err, eval.ErrOtherPrompts), errors.Is(err, eval.ErrOtherTasks), errors.Is(err, eval.ErrOtherScores):
		c.Refused = err.Error()
		return nil
	case err != nil:
		return err
	}
	c.Verdict = eval.Verdict(list)
	c.Scale = barScale(list)
	for _, each := range list {
		c.Compared = append(c.Compared, newCompared(each, c.Scale))
	}
	return c.changes(base, cand, list)
}

func scoresOf(r *eval.Results) []scored {
	var list []scored
	for _, task := range slices.Sorted(maps.Keys(r.Results)) {
		for _, v := range eval.Scores(r.Results[task]) {
			list = append(list, scored{task, v, r.Samples[task]})
		}
	}
	return list
}

// firstFailure returns why the first row without an answer has none.
func firstFailure(run string, r *eval.Results) (string, error) {
	for _, task := range slices.Sorted(maps.Keys(r.Samples)) {
		if _, reason, err := eval.FirstFailure(run, task); err != nil || reason != "" {
			return reason, err
		}
	}
	return "unknown", nil
}

func (c *content) role(run string) string {
	switch {
	case run == c.Candidate.Name:
		return "candidate"
	case c.Baseline != nil && run == c.Baseline.Name:
		return "baseline"
	}
	return ""
}

// list sets the list of runs, the latest first.
func (c *content) list(runs []eval.Run) {
	for i, run := range slices.Backward(runs) {
		l := listed{Run: run, Role: c.role(run.Name), Number: i + 1}
		for _, n := range run.Results.Samples {
			l.Rows += n.Original
			l.Failed += n.Failed
		}
		c.Runs = append(c.Runs, l)
	}
}

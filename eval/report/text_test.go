package report_test

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/eval"
	"github.com/ingot-run/ingot/eval/report"
	"github.com/ingot-run/ingot/eval/statistics"
)

// cells returns the cells of the lines of a table of text, each as its words.
func cells(text string) (lines []string) {
	for line := range strings.Lines(text) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return lines
}

// TestScoresAsText: tasks stand before groups, whose counts are the sums of the tasks with the
// metric.
func TestScoresAsText(t *testing.T) {
	t.Parallel()
	r := &eval.Results{
		Results:  map[string]eval.Values{"b": {"acc,none": 0.25}, "a": {"acc,none": 0.5, "acc_stderr,none": 0.125}, "c": {}, "d": {"f1,none": 1}},
		Groups:   map[string]eval.Values{"g": {"acc,none": math.NaN()}, "h": {}},
		Subtasks: map[string][]string{"g": {"a", "b", "d"}, "h": {"a", "d"}},
		Samples:  map[string]eval.Count{"a": {Effective: 10, Failed: 1, Truncated: 2}, "b": {Effective: 20, Failed: 3, Truncated: 5}, "c": {Failed: 7}, "d": {Effective: 40}},
	}
	var b bytes.Buffer
	require.NoError(t, report.WriteScores(&b, r))
	require.Equal(t, []string{"task metric filter score stderr rows failed truncated", "a acc none 0.5000 ±0.1250 10 1 2", "b acc none 0.2500 20 3 5", "c 0 7 0", "d f1 none 1.0000 40 0 0", "g (group) acc none NaN 30 4 7", "h (group) 50 1 2"}, cells(b.String()))
}

// TestRunsAsText: a line for each task of each run, with the names of its baselines.
func TestRunsAsText(t *testing.T) {
	t.Parallel()
	date := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	shown := date.Local().Format(time.DateTime)
	results := &eval.Results{
		Date: date, Results: map[string]eval.Values{"b": {"acc,none": 0.25}, "a": {"acc,none": 0.5, "acc_stderr,none": 0.125}},
		Samples: map[string]eval.Count{"a": {Effective: 10, Failed: 1}}, Config: eval.Config{ModelSHA256: []string{strings.Repeat("a", 64), "b"}},
	}
	var b bytes.Buffer
	runs := []eval.Run{{Name: "one", Results: results, Gate: &eval.GateVerdict{Verdict: statistics.Fail}}, {Name: "two", Results: results}}
	require.NoError(t, report.WriteRuns(&b, runs, map[string]eval.Baseline{"main": {Run: "one"}, "also": {Run: "one"}, "gone": {Run: "three"}}))
	named := *results
	named.Config.Model = "model.gguf"
	var other bytes.Buffer
	require.NoError(t, report.WriteRuns(&other, []eval.Run{{Name: "three", Results: &named}}, nil))
	require.Contains(t, cells(other.String())[1], " model.gguf a acc")
	require.Equal(t, []string{
		"run baseline date model task scores rows failed verdict",
		"one also,main " + shown + " aaaaaaaaaaaa,b a acc 0.5000±0.1250 10 1 fail", "one also,main " + shown + " aaaaaaaaaaaa,b b acc 0.2500 0 0 fail",
		"two " + shown + " aaaaaaaaaaaa,b a acc 0.5000±0.1250 10 1", "two " + shown + " aaaaaaaaaaaa,b b acc 0.2500 0 0",
	}, cells(b.String()))
}

// TestBaselinesAsText: a baseline whose run has changed says so.
func TestBaselinesAsText(t *testing.T) {
	t.Parallel()
	runs := t.TempDir()
	run(t, runs, "night-1", 30, nil)
	run(t, runs, "night-2", 30, nil)
	for name, of := range map[string]string{"main": "night-1", "later": "night-2"} {
		_, err := eval.Pin(runs, name, of)
		require.NoError(t, err)
	}
	require.NoError(t, os.Remove(filepath.Join(runs, "night-2", eval.SamplesFile("quiz"))))
	all, err := eval.Baselines(runs)
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, report.WriteBaselines(&b, runs, all))
	lines := cells(b.String())
	require.Len(t, lines, 3)
	require.Equal(t, "name run pinned state", lines[0])
	require.Regexp(t, `^later night-2 \S+ \S+ use baseline later: read a run: `, lines[1])
	require.Equal(t, "main night-1 "+all["main"].Pinned.Local().Format(time.DateTime)+" ready", lines[2])
}

// A line of the table has all figures of its comparison. Rows are needed only if the whole verdict
// is inconclusive, and of the comparisons that are.
func TestComparisonsAsText(t *testing.T) {
	t.Parallel()
	open := eval.Compared{Task: "quiz", Metric: "acc", Filter: "none", Baseline: 0.5, Candidate: 0.25, Margin: 0.02, Changed: 7, Failed: 8, Cut: 9, Verdict: statistics.Inconclusive}
	open.Comparison = statistics.Comparison{Lost: 5, Won: 6, P: 0.75, Smallest: 0.125}
	open.Difference = statistics.Difference{N: 10, Clusters: 10, Mean: -0.25, Interval: statistics.Interval{Low: -0.5, High: 0.0625}}
	passed, failed := open, open
	passed.Metric, passed.Verdict, failed.Metric, failed.Verdict = "f1", statistics.Pass, "em", statistics.Fail
	const row = "none 0.5000 0.2500 -0.2500 -0.5000 to +0.0625 0.7500 10 5 6 7 8 9 0.1250 "
	write := func(list ...eval.Compared) []string {
		var b bytes.Buffer
		require.NoError(t, report.WriteVerdict(&b, list))
		return cells(b.String())[1:]
	}
	require.Equal(t, []string{"quiz acc " + row + "inconclusive", "quiz f1 " + row + "pass", "verdict: inconclusive",
		"quiz acc: to exclude a loss of 0.0200, about 149 rows are needed"}, write(open, passed))
	require.Equal(t, []string{"quiz acc " + row + "inconclusive", "quiz em " + row + "fail", "verdict: fail"}, write(open, failed))
	for n, lines := range map[int]int{148: 3, 149: 2} { // the rows are enough, but the answers differ too much
		open.N, open.Clusters = n, n
		require.Len(t, write(open), lines)
	}
}

// TestVerdictsAsText: an inconclusive verdict says how many rows are needed.
func TestVerdictsAsText(t *testing.T) {
	t.Parallel()
	runs := t.TempDir()
	run(t, runs, "night-1", 30, nil)
	run(t, runs, "night-2", 29, nil)
	run(t, runs, "night-3", 5, nil)
	for name, c := range map[string]struct {
		candidate string
		margin    float64
		verdict   string
		needed    bool
	}{
		"the same":     {"night-1", 0.1, "pass", false},
		"a little":     {"night-2", 0.03, "inconclusive", true},
		"much worse":   {"night-3", 0.03, "fail", false},
		"much allowed": {"night-2", 0.5, "pass", false},
	} {
		list, err := eval.Compare(filepath.Join(runs, "night-1"), filepath.Join(runs, c.candidate), c.margin)
		require.NoError(t, err)
		var b bytes.Buffer
		require.NoError(t, report.WriteVerdict(&b, list))
		require.Equal(t, "task metric filter baseline candidate difference 90 % interval p rows lost won changed failed cut shows verdict", cells(b.String())[0])
		require.Contains(t, b.String(), "\nverdict: "+c.verdict+"\n", name)
		require.Equal(t, c.needed, strings.Contains(b.String(), "quiz exact_match: to exclude a loss of 0.0300, about "), "%s: %s", name, b.String())
	}
	changes, err := eval.Changes("quiz", filepath.Join(runs, "night-1"), filepath.Join(runs, "night-2"))
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, report.WriteChanges(&b, changes))
	require.Contains(t, b.String(), "quiz row 29\n  prompt:    question 29 ")
	require.Contains(t, b.String(), "\n  target:    yes\n  baseline:  yes  (exact_match 1)\n  candidate: no, ")
	require.True(t, strings.HasSuffix(b.String(), "(exact_match 0)\n1 row differs\n"), b.String())
}

// TestRowsOfRuns: the list of runs has the number of all their rows.
func TestRowsOfRuns(t *testing.T) {
	t.Parallel()
	runs := t.TempDir()
	run(t, runs, "night-1", 30, nil)
	run(t, runs, "night-2", 30, nil)
	has(t, write(t, runs, report.Options{}), `<td class="n" data-l="rows">40<td class="n" data-l="no answer">0<`)
}

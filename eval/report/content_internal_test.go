package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/eval"
	"github.com/ingot-run/ingot/eval/statistics"
)

// save writes the samples of a task of a run.
func save(t *testing.T, folder, run, task string, samples ...eval.Sample) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Join(folder, run), 0o755))
	f, err := os.Create(filepath.Join(folder, run, eval.SamplesFile(task)))
	require.NoError(t, err)
	for _, s := range samples {
		require.NoError(t, json.NewEncoder(f).Encode(s))
	}
	require.NoError(t, f.Close())
}

// TestDistributions: a row counts once although it has a sample for each filter. Rows without an
// answer, without tokens or without a latency do not count.
func TestDistributions(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	tasks := &eval.Results{Results: map[string]eval.Values{"a": {}, "b": {}}}
	save(t, folder, "base", "a", eval.Sample{DocID: 0, Tokens: 4, Latency: 10}, eval.Sample{DocID: 0, Filter: "x", Tokens: 4, Latency: 10}, eval.Sample{DocID: 1, Failed: "x", Tokens: 9})
	save(t, folder, "base", "b", eval.Sample{DocID: 0, Tokens: 6}, eval.Sample{DocID: 1, Latency: 0.5})
	save(t, folder, "cand", "a", eval.Sample{DocID: 0, Tokens: 8, Latency: 40})
	save(t, folder, "cand", "b")
	base, cand := &eval.Run{Name: "base", Results: tasks}, &eval.Run{Name: "cand", Results: tasks}
	c := &content{Baseline: base, Candidate: cand}
	require.NoError(t, c.distributions(folder))
	require.Equal(t, []quantiles{
		{"Length of answers", "baseline", 2, "6 tokens", "6 tokens", "6 tokens"}, {"Length of answers", "candidate", 1, "8 tokens", "8 tokens", "8 tokens"},
		{"Latency", "baseline", 2, "10 ms", "10 ms", "10 ms"}, {"Latency", "candidate", 1, "40 ms", "40 ms", "40 ms"},
	}, c.Quantiles)
	require.Len(t, c.Figures, 2)
	require.Equal(t, "Latency: from a row's start to its last token; rows run concurrently", c.Figures[1].Title+": "+c.Figures[1].Note)
	require.Contains(t, string(c.Figures[0].Chart), "Length of answers of 1 rows")
	require.Contains(t, string(c.Figures[0].Chart), "var(--baseline)")

	alone := &content{Candidate: cand}
	require.NoError(t, alone.distributions(folder))
	require.Len(t, alone.Quantiles, 2)
	require.NotContains(t, string(alone.Figures[0].Chart), "var(--candidate)")
	save(t, folder, "silent", "a", eval.Sample{Tokens: 1})
	save(t, folder, "silent", "b")
	silent := &content{Candidate: &eval.Run{Name: "silent", Results: tasks}}
	require.NoError(t, silent.distributions(folder))
	require.Len(t, silent.Figures, 1)
	lost := &eval.Run{Name: "lost", Results: tasks}
	require.Error(t, (&content{Baseline: lost, Candidate: cand}).distributions(folder))
	require.Error(t, (&content{Baseline: base, Candidate: lost}).distributions(folder))
}

// TestChangedRows: lost rows come first, then won ones; of many rows, only some are shown.
func TestChangedRows(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	var before, after []eval.Sample
	for i := range 30 {
		b, a := eval.Sample{DocID: i, Scores: map[string]float64{"acc": 0.5}, Responses: []string{"x"}}, eval.Sample{DocID: i, Scores: map[string]float64{"acc": 0.5}, Responses: []string{"y"}}
		a.Scores["acc"] = []float64{0.5, 1, 0}[i%3]
		before, after = append(before, b), append(after, a)
	}
	for _, task := range []string{"a", "b", "same"} {
		save(t, folder, "base", task, before...)
		n := map[string]int{"a": 30, "b": 25}[task]
		save(t, folder, "cand", task, append(append([]eval.Sample{}, after[:n]...), before[n:]...)...)
	}
	for _, run := range []string{"base", "cand"} {
		n := eval.Count{Original: 30, Effective: 30}
		text, err := json.Marshal(eval.Results{
			Results: map[string]eval.Values{"a": {}, "b": {}, "same": {}}, Samples: map[string]eval.Count{"a": n, "b": n, "same": n},
		})
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(folder, run, eval.ResultsFile), text, 0o600))
	}
	c := &content{}
	of := func(task, metric string) eval.Compared { return eval.Compared{Task: task, Metric: metric} }
	base, cand := filepath.Join(folder, "base"), filepath.Join(folder, "cand")
	require.NoError(t, c.changes(base, cand, []eval.Compared{of("b", "acc"), of("a", "acc"), of("a", "other"), of("same", "acc")}))
	require.Len(t, c.Changes, 2)
	require.Equal(t, 55, c.ChangedAll)
	a, b := c.Changes[0], c.Changes[1]
	require.Equal(t, []any{"a", "acc", 30, 10, 10, 5, 25}, []any{a.Task, a.Metric, a.Total, a.Lost, a.Won, a.Left, len(a.Rows)})
	require.Equal(t, []any{"b", "acc", 25, 8, 8, 0, 25}, []any{b.Task, b.Metric, b.Total, b.Lost, b.Won, b.Left, len(b.Rows)})
	require.Equal(t, "lost row 3, lost row 6, won row 2, other row 1", fmt.Sprintf("%s %s, %s %s, %s %s, %s %s",
		a.Rows[0].Kind, a.Rows[0].heading(), a.Rows[1].Kind, a.Rows[1].heading(), a.Rows[10].Kind, a.Rows[10].heading(), a.Rows[20].Kind, a.Rows[20].heading()))
	require.Error(t, c.changes(base, folder, []eval.Compared{of("a", "acc")}))
	for want, scores := range map[string][2]map[string]float64{"won": {{"m": -2}, {"m": -1}}, "lost": {{"m": 1}, {"m": 0}}} {
		require.Equal(t, want, kindOf(scores, "m"))
		require.Equal(t, "other", kindOf(scores, "n"))
		require.Equal(t, "other", kindOf([2]map[string]float64{scores[0], {}}, "m"))
		require.Equal(t, "other", kindOf([2]map[string]float64{{}, scores[1]}, "m"))
	}
}

// TestBars: all bars of the table have one scale, on which the largest interval or margin fits.
func TestBars(t *testing.T) {
	t.Parallel()
	with := func(low, mean, high, margin float64) (c eval.Compared) {
		c.Interval, c.Mean, c.Margin = statistics.Interval{Low: low, High: high}, mean, margin
		return c
	}
	list := []eval.Compared{with(-0.1, 0, 0.05, 0.03), with(0, 0.1, 0.2, 0.03)}
	require.InDelta(t, 0.2, barScale(list), 1e-12)
	require.InDelta(t, 0.1, barScale(list[:1]), 1e-12)
	require.InDelta(t, 0.5, barScale([]eval.Compared{with(0, 0, 0, 0.5)}), 1e-12)
	require.InDelta(t, 0.001, barScale(nil), 1e-12)
	c := newCompared(list[0], 0.2)
	require.InDeltaSlice(t, []float64{50, 25, 62.5, 50, 42.5, 37.5}, []float64{c.Zero, c.From, c.To, c.At, c.MarginAt, c.width()}, 1e-9)
	c = newCompared(with(-9, 9, 9, 0.1), 0.2)
	require.InDeltaSlice(t, []float64{0, 100, 100, 25}, []float64{c.From, c.To, c.At, c.MarginAt}, 1e-9)
	require.InDelta(t, 0.5, newCompared(with(0, 0, 0, 0), 1).width(), 0)
}

func TestShownNumbers(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"< 0.0001", "0.0001", "0.0412"}, []string{shownP(0.00009), shownP(0.0001), shownP(0.0412)})
	require.Equal(t, "acc 0.25, em 1", shownScores(map[string]float64{"em": 1, "acc": 0.25}))
	require.Empty(t, shownScores(nil))
}

// TestFirstFailure: the reason is that of the first row without an answer in the first such task.
func TestFirstFailure(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	save(t, folder, "run", "a", eval.Sample{})
	save(t, folder, "run", "b", eval.Sample{}, eval.Sample{Failed: "first"}, eval.Sample{Failed: "second"})
	save(t, folder, "run", "c", eval.Sample{Failed: "third"})
	reason := func(tasks ...string) (string, error) {
		r := &eval.Results{Samples: map[string]eval.Count{}}
		for _, task := range tasks {
			r.Samples[task] = eval.Count{}
		}
		return firstFailure(filepath.Join(folder, "run"), r)
	}
	for want, tasks := range map[string][]string{"first": {"c", "b", "a"}, "third": {"a", "c"}, "unknown": {"a"}} {
		got, err := reason(tasks...)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err := reason("a", "missing")
	require.Error(t, err)
}

// fails is a writer without room.
type fails struct{}

func (fails) Write([]byte) (int, error) { return 0, errors.New("no room") }

// TestWritersReportErrors: no table is written in part without an error.
func TestWritersReportErrors(t *testing.T) {
	t.Parallel()
	r := &eval.Results{Results: map[string]eval.Values{"a": {"acc,none": 1}}}
	list := []eval.Compared{{Task: "a"}}
	folder := t.TempDir()
	save(t, folder, "one", "a")
	require.NoError(t, os.WriteFile(filepath.Join(folder, "one", eval.ResultsFile), []byte(`{"results": {"a": {"acc,none": 1}}}`), 0o600))
	for name, err := range map[string]error{
		"scores": WriteScores(fails{}, r), "runs": WriteRuns(fails{}, []eval.Run{{Results: r}}, nil), "comparison": WriteComparison(fails{}, list),
		"page": Write(fails{}, folder, Options{}), "verdict": WriteVerdict(fails{}, list), "changes": WriteChanges(fails{}, nil),
		"baselines": WriteBaselines(fails{}, t.TempDir(), map[string]eval.Baseline{"x": {}}),
	} {
		require.ErrorContains(t, err, "no room", name)
	}
}

// TestFilesThatCannotBeRead: a report is not written if a file of its runs cannot be read.
func TestFilesThatCannotBeRead(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	results := func(failed int) {
		text := fmt.Sprintf(`{"results": {"a": {"acc,none": 1}}, "n-samples": {"a": {"original": 2, "failed": %d}}}`, failed)
		require.NoError(t, os.WriteFile(filepath.Join(folder, "one", eval.ResultsFile), []byte(text), 0o600))
	}
	save(t, folder, "one", "a")
	for failed, want := range map[int]string{0: "read samples: ", 2: "read samples: "} {
		results(failed)
		require.NoError(t, Write(new(bytes.Buffer), folder, Options{}))
		require.NoError(t, os.Remove(filepath.Join(folder, "one", eval.SamplesFile("a"))))
		require.ErrorContains(t, Write(new(bytes.Buffer), folder, Options{}), want)
		save(t, folder, "one", "a", eval.Sample{Failed: "x"})
	}
	c := &content{Candidate: &eval.Run{Name: "none", Results: &eval.Results{Samples: map[string]eval.Count{"a": {Original: 2, Failed: 2}}}}}
	require.ErrorContains(t, c.compare(folder), "read samples: ")
	require.NoError(t, os.WriteFile(filepath.Join(folder, eval.BaselinesFile), []byte("{"), 0o600))
	require.ErrorContains(t, Write(new(bytes.Buffer), folder, Options{}), "delete the file and pin the baselines again")
}

// TestListOfRuns checks the list of runs: the latest first, with the sums of rows over tasks.
func TestListOfRuns(t *testing.T) {
	t.Parallel()
	run := func(name string, counts ...eval.Count) eval.Run {
		r := eval.Run{Name: name, Results: &eval.Results{Samples: map[string]eval.Count{}}}
		for i, n := range counts {
			r.Results.Samples[fmt.Sprint("task ", i)] = n
		}
		return r
	}
	runs := []eval.Run{
		run("first", eval.Count{Original: 10, Failed: 1}, eval.Count{Original: 20, Failed: 3}),
		run("second"), run("third", eval.Count{Original: 5}),
	}
	c := &content{Candidate: &runs[2], Baseline: &runs[0]}
	c.list(runs)
	type row struct {
		name, role           string
		number, rows, failed int
	}
	var got []row
	for _, l := range c.Runs {
		got = append(got, row{l.Name, l.Role, l.Number, l.Rows, l.Failed})
	}
	require.Equal(t, []row{{"third", "candidate", 3, 5, 0}, {"second", "", 2, 0, 0}, {"first", "baseline", 1, 30, 4}}, got)
}

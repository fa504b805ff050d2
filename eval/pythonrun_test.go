package eval_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/eval"
	"github.com/ingot-run/ingot/eval/harnesstest"
	"github.com/ingot-run/ingot/eval/report"
	"github.com/ingot-run/ingot/eval/task"
)

// TestRunsWithPython: a filter in Python can leave no answer. An error of a function is the reason
// why a row has no score, or ends the scoring if it is about all rows.
func TestRunsWithPython(t *testing.T) {
	t.Parallel()
	python := harnesstest.Python(t)
	folder := t.TempDir()
	for name, text := range map[string]string{
		"rows.jsonl": `{"q": "Q", "a": "yes"}` + "\n" + `{"q": "R", "a": "yes"}` + "\n",
		"own.py": `
def nothing(resps, docs):
    return [[] for _ in resps]

def broken(resps, docs):
    raise ValueError("no such filter")

def bad(items):
    raise ValueError("no such mean")

def text(items):
    return "many"

def metric(references, predictions, **kwargs):
    raise ValueError("no such metric")

def mean(items):
    return 0.25 * len(items)
`,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	load := func(t *testing.T, settings string) *eval.Set {
		path := filepath.Join(folder, "task.yaml")
		require.NoError(t, os.WriteFile(path, []byte("task: a\ndata: rows.jsonl\ndoc_to_text: q\n"+settings), 0o600))
		read, err := task.ReadTrusted(path, python)
		require.NoError(t, err)
		s, err := eval.Load(read, 0)
		require.NoError(t, err)
		return s
	}
	const filter = "filter_list: [{name: none, filter: [{function: custom, filter_fn: !function own."
	const judge = "output_type: judge\njudge: {rubric: '{{answer}}'}\n"
	for name, c := range map[string]struct {
		settings string
		failed   string // of each row
		err      string
		scores   eval.Values
	}{
		"a filter leaves nothing":               {settings: "doc_to_target: a\n" + filter + "nothing}]}]\n", scores: eval.Values{"exact_match,none": 0, "exact_match_stderr,none": 0}},
		"a filter leaves nothing for the judge": {settings: judge + filter + "nothing}]}]\n", failed: "no answer is left after the filters"},
		"a filter fails":                        {settings: "doc_to_target: a\n" + filter + "broken}]}]\n", failed: "no such filter"},
		"a filter fails before the judge":       {settings: judge + filter + "broken}]}]\n", err: "filter the answer to row 1 of task a: "},
		"a metric fails":                        {settings: "doc_to_target: a\nmetric_list: [{metric: !function own.metric}]\n", failed: "no such metric"},
		"an aggregation fails":                  {settings: "doc_to_target: a\nmetric_list: [{metric: exact_match, aggregation: !function own.bad}]\n", err: "aggregate the metric exact_match of task a: "},
		"an aggregation gives no number":        {settings: "doc_to_target: a\nmetric_list: [{metric: exact_match, aggregation: !function own.text}]\n", scores: eval.Values{}},
		"an aggregation of all rows":            {settings: "doc_to_target: a\nmetric_list: [{metric: exact_match, aggregation: !function own.mean}]\n", scores: eval.Values{"exact_match,none": 0.5}},
	} {
		t.Run(name, func(t *testing.T) {
			s := load(t, c.settings)
			dir := t.TempDir()
			require.NoError(t, eval.Prepare(dir, []*eval.Set{s}))
			answerWith(t, dir, eval.RequestsFile, eval.AnswersFile, yes)
			var err error
			if eval.Judged([]*eval.Set{s}) {
				err = eval.PrepareJudge(dir, []*eval.Set{s})
			}
			var r *eval.Results
			if err == nil {
				r, err = eval.Score(dir, []*eval.Set{s}, nil, eval.Config{})
			}
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
			samples, err := eval.ReadSamples(dir, "a")
			require.NoError(t, err)
			require.Len(t, samples, 2)
			for _, sample := range samples {
				if c.failed == "" {
					require.Empty(t, sample.Failed)
				} else {
					require.Contains(t, sample.Failed, c.failed)
				}
			}
			if c.scores != nil {
				require.Equal(t, c.scores, r.Results["a"])
			}
		})
	}
	s := load(t, "output_type: multiple_choice\ndoc_to_choice: [x, y]\ndoc_to_target: 0\nmetric_list: [{metric: likelihood, aggregation: !function own.mean}]\n")
	dir := t.TempDir()
	require.NoError(t, eval.Prepare(dir, []*eval.Set{s}))
	var lines string
	for _, id := range []string{"a:0:0", "a:0:1", "a:1:0", "a:1:1"} {
		lines += `{"custom_id":"` + id + `","response":{"body":{"choices":[{"logprobs":{"tokens":["` + map[byte]string{'0': "Q", '1': "R"}[id[2]] + `"," ` + map[byte]string{'0': "x", '1': "y"}[id[4]] + `"],"token_logprobs":[null,-1]}}]}}}` + "\n"
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, eval.AnswersFile), []byte(lines), 0o600))
	r, err := eval.Score(dir, []*eval.Set{s}, nil, eval.Config{})
	require.NoError(t, err)
	require.Equal(t, eval.Values{"likelihood,none": 0.5}, r.Results["a"])
	samples, err := eval.ReadSamples(dir, "a")
	require.NoError(t, err)
	require.Empty(t, samples[0].Scores, "a row has no likelihood of its own")
}

// TestRunAfterPythonEnded: a row whose function ends python3 has no score, and says why. The rows
// after it are scored.
func TestRunAfterPythonEnded(t *testing.T) {
	t.Parallel()
	python := harnesstest.Python(t)
	folder := t.TempDir()
	for name, text := range map[string]string{
		"rows.jsonl": `{"q": "Q", "a": "yes"}` + "\n" + `{"q": "R", "a": "end"}` + "\n" + `{"q": "S", "a": "yes"}` + "\n",
		"own.py":     "import os\n\ndef metric(references, predictions):\n    return references == predictions if references != ['end'] else os._exit(3)\n",
		"task.yaml":  "task: a\ndata: rows.jsonl\ndoc_to_text: q\ndoc_to_target: a\nmetric_list: [{metric: !function own.metric}]\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	read, err := task.ReadTrusted(filepath.Join(folder, "task.yaml"), python)
	require.NoError(t, err)
	s, err := eval.Load(read, 0)
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, eval.Prepare(dir, []*eval.Set{s}))
	answerWith(t, dir, eval.RequestsFile, eval.AnswersFile, yes)
	r, err := eval.Score(dir, []*eval.Set{s}, nil, eval.Config{})
	require.NoError(t, err)
	require.Equal(t, eval.Count{Original: 3, Effective: 2, Failed: 1}, r.Samples["a"])
	samples, err := eval.ReadSamples(dir, "a")
	require.NoError(t, err)
	require.Contains(t, samples[1].Failed, "python3 ended: exit status 3")
}

// TestScoresThatAreNaN: as in the harness, the mean of scores with NaN is NaN, and a nanmean leaves
// them out. Files hold null, and comparisons leave the rows out.
func TestScoresThatAreNaN(t *testing.T) {
	t.Parallel()
	python := harnesstest.Python(t)
	folder := t.TempDir()
	for name, text := range map[string]string{
		"rows.jsonl": `{"q": "Q"}` + "\n" + `{"q": "R"}` + "\n" + `{"q": "S"}` + "\n",
		"own.py": `
def process_results(doc, results):
    nan = float("nan")
    one = {"Q": 1.0, "R": nan if results[0] == "yes" else 0.0, "S": 0.5}[doc["q"]]
    return {"all": 0.25, "mean": one, "nanmean": one, "median": one, "high": float("inf"), "own": one}

def own(items):
    return sum(items)
`,
		"task.yaml": `
task: a
data: rows.jsonl
doc_to_text: q
doc_to_target: q
process_results: !function own.process_results
metric_list:
- {metric: all}
- {metric: mean}
- {metric: nanmean, aggregation: nanmean}
- {metric: median, aggregation: median}
- {metric: high}
- {metric: own, aggregation: !function own.own}
`,
		"both.yaml": "group: both\ntask: [a]\naggregate_metric_list: [{metric: mean}]\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	tasks, groups, err := task.ReadAll([]string{filepath.Join(folder, "both.yaml")}, python)
	require.NoError(t, err)
	sets, err := eval.LoadAll(tasks, eval.Settings{})
	require.NoError(t, err)
	runs := t.TempDir()
	evaluate := func(name string, answer func(string) []string) *eval.Results {
		dir := filepath.Join(runs, name)
		require.NoError(t, eval.Prepare(dir, sets))
		answerWith(t, dir, eval.RequestsFile, eval.AnswersFile, answer)
		r, err := eval.Score(dir, sets, groups, eval.Config{})
		require.NoError(t, err)
		require.NoError(t, eval.Save(dir, sets, nil, r))
		return r
	}
	numbers := evaluate("numbers", func(string) []string { return []string{"no"} })
	require.InDelta(t, 0.5, numbers.Results["a"]["mean,none"], 1e-12)
	evaluate("nan", yes)
	dir := filepath.Join(runs, "nan")
	files, err := filepath.Glob(filepath.Join(dir, "lm-eval", "*.json*"))
	require.NoError(t, err)
	for _, path := range append(files, filepath.Join(dir, eval.ResultsFile), filepath.Join(dir, eval.SamplesFile("a"))) {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		for d := json.NewDecoder(bytes.NewReader(text)); d.More(); {
			require.NoError(t, d.Decode(new(any)), path)
		}
	}
	r, err := eval.ReadResults(dir)
	require.NoError(t, err)
	require.Equal(t, eval.Count{Original: 3, Effective: 3, NaN: 1}, r.Samples["a"])
	got := r.Results["a"]
	for _, key := range []string{"mean,none", "median,none", "own,none"} {
		v, ok := got[key]
		require.True(t, ok && math.IsNaN(v), "%s: %v", key, got)
		require.NotContains(t, got, strings.Replace(key, ",", "_stderr,", 1))
	}
	require.True(t, math.IsNaN(r.Groups["both"]["mean,none"]))
	require.InDelta(t, 0.75, got["nanmean,none"], 1e-12)
	require.InDelta(t, 0.25, got["all,none"], 1e-12)
	require.InEpsilon(t, 1e300, got["high,none"], 1e-9)
	saved, err := eval.ReadSamples(eval.SavedFolder(dir, r.Config), "a")
	require.NoError(t, err)
	samples, err := eval.ReadSamples(dir, "a")
	require.NoError(t, err)
	for _, list := range [][]eval.Sample{samples, saved} {
		require.Equal(t, []bool{false, true, false}, []bool{math.IsNaN(list[0].Scores["mean"]), math.IsNaN(list[1].Scores["mean"]), math.IsNaN(list[2].Scores["mean"])})
	}
	var text bytes.Buffer
	require.NoError(t, report.WriteScores(&text, r))
	require.Regexp(t, `a +mean +none +NaN +3`, text.String())

	list, err := eval.Compare(filepath.Join(runs, "numbers"), dir, -1)
	require.NoError(t, err)
	byMetric := map[string]eval.Compared{}
	for _, c := range list {
		byMetric[c.Metric] = c
	}
	require.Len(t, slices.Collect(maps.Keys(byMetric)), 6)
	require.Equal(t, 2, byMetric["mean"].N)
	require.Equal(t, 1, byMetric["mean"].Failed, "the score of a row is lost")
	require.Equal(t, 3, byMetric["all"].N)
	require.Equal(t, 0, byMetric["all"].Failed)
	require.Equal(t, 0, byMetric["high"].N)
	_, err = json.Marshal(list)
	require.NoError(t, err)
	list, err = eval.Compare(dir, dir, -1)
	require.NoError(t, err)
	for _, c := range list {
		require.Zero(t, c.Changed+c.Failed, c.Metric)
	}
	text.Reset()
	require.NoError(t, report.Write(&text, runs, report.Options{Baseline: "numbers", Candidate: "nan"}))
	require.Contains(t, text.String(), "by all 0 lost, 0 won")
}

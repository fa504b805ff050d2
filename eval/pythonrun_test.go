package eval_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/eval"
	"github.com/ingot-run/ingot/eval/harnesstest"
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
		scores   map[string]float64
	}{
		"a filter leaves nothing":               {settings: "doc_to_target: a\n" + filter + "nothing}]}]\n", scores: map[string]float64{"exact_match,none": 0, "exact_match_stderr,none": 0}},
		"a filter leaves nothing for the judge": {settings: judge + filter + "nothing}]}]\n", failed: "no answer is left after the filters"},
		"a filter fails":                        {settings: "doc_to_target: a\n" + filter + "broken}]}]\n", failed: "no such filter"},
		"a filter fails before the judge":       {settings: judge + filter + "broken}]}]\n", err: "filter the answer to row 1 of task a: "},
		"a metric fails":                        {settings: "doc_to_target: a\nmetric_list: [{metric: !function own.metric}]\n", failed: "no such metric"},
		"an aggregation fails":                  {settings: "doc_to_target: a\nmetric_list: [{metric: exact_match, aggregation: !function own.bad}]\n", err: "aggregate the metric exact_match of task a: "},
		"an aggregation gives no number":        {settings: "doc_to_target: a\nmetric_list: [{metric: exact_match, aggregation: !function own.text}]\n", scores: map[string]float64{}},
		"an aggregation of all rows":            {settings: "doc_to_target: a\nmetric_list: [{metric: exact_match, aggregation: !function own.mean}]\n", scores: map[string]float64{"exact_match,none": 0.5}},
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
	require.Equal(t, map[string]float64{"likelihood,none": 0.5}, r.Results["a"])
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

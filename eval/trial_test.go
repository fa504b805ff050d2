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

// TestFunctionsAreTried: functions that fail for all answers to the first rows are errors before a
// model is asked.
func TestFunctionsAreTried(t *testing.T) {
	t.Parallel()
	python := harnesstest.Python(t)
	if python.Unsandboxed {
		t.Skip("trials without network are not tested: this system has no network namespaces for this user")
	}
	folder := t.TempDir()
	for name, text := range map[string]string{
		"rows.jsonl": `{"q": "Q", "a": "yes"}` + "\n" + `{"q": "R", "a": "yes"}` + "\n",
		"own.py": `
calls = []

def broken(doc, results):
    raise ValueError("no such score")

def picky(doc, results):
    return {"exact_match": {"yes": 1}[results[0]]}

def empty(doc, results):
    return {"exact_match": {"": 1}[results[0]]}

def second(doc, results):
    return {"exact_match": {"R": 1}[doc["q"]]}

def counted(doc, results):
    calls.append(doc)
    return {"exact_match": len(calls)}

def choice(doc, results):
    return {"acc": {(-1.0, True): 1}[results[0]] + {(-2.0, False): 1}[results[1]]}

def words(doc, results):
    return {"word_perplexity": (results[0].real, 1)}

def same(resps, docs):
    return resps

def filter(resps, docs):
    raise ValueError("no such filter")

def metric(references, predictions, **kwargs):
    raise ValueError("no such metric")
`,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	load := func(t *testing.T, settings string) ([]*eval.Set, error) {
		path := filepath.Join(folder, "task.yaml")
		require.NoError(t, os.WriteFile(path, []byte("task: a\ndata: rows.jsonl\ndoc_to_text: q\n"+settings), 0o600))
		read, err := task.ReadTrusted(path, python)
		if err != nil {
			return nil, err
		}
		return eval.LoadAll([]*task.Task{read}, eval.Settings{})
	}
	row := "load task a: score a made-up answer to row 1 of " + filepath.Join(folder, "rows.jsonl") + ": run the Python function "
	const target, filter = "doc_to_target: a\n", "filter_list: [{name: none, filter: [{function: custom, filter_fn: !function own.filter}]}]\n"
	for name, c := range map[string]struct{ settings, err string }{
		"scores":                           {target + "process_results: !function own.broken\n", row + "broken of " + filepath.Join(folder, "own.py") + ": ValueError: no such score"},
		"a filter":                         {target + filter, row + "filter"},
		"a filter before the judge":        {"output_type: judge\njudge: {rubric: '{{answer}}'}\n" + filter, row + "filter"},
		"a filter of a judge that works":   {"output_type: judge\njudge: {rubric: '{{answer}}'}\nfilter_list: [{name: none, filter: [{function: custom, filter_fn: !function own.same}]}]\n", ""},
		"a metric":                         {target + "metric_list: [{metric: !function own.metric}]\n", row + "metric"},
		"an aggregation that is absent":    {target + "metric_list: [{metric: exact_match, aggregation: !function own.absent}]\n", "has no attribute 'absent'"},
		"scores of the target alone":       {target + "process_results: !function own.picky\n", ""},
		"scores of the empty answer alone": {target + "process_results: !function own.empty\n", ""},
		"a program is not made up":         {target + "unsafe_code: true\nprocess_results: !function own.picky\n", "KeyError: ''"},
		"scores of the second row":         {target + "process_results: !function own.second\n", ""},
		"scores of choices":                {"output_type: multiple_choice\ndoc_to_choice: [x, y]\ndoc_to_target: 0\nprocess_results: !function own.choice\n", ""},
		"broken scores of choices":         {"output_type: multiple_choice\ndoc_to_choice: [x, y]\ndoc_to_target: 0\nprocess_results: !function own.broken\n", "no such score"},
		"scores of texts":                  {"output_type: loglikelihood_rolling\ndoc_to_target: a\nprocess_results: !function own.words\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := load(t, c.settings)
			if c.err == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.err)
		})
	}
	sets, err := load(t, target+"process_results: !function own.counted\n")
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, eval.Prepare(dir, sets))
	answerWith(t, dir, eval.RequestsFile, eval.AnswersFile, yes)
	r, err := eval.Score(dir, sets, nil, eval.Config{})
	require.NoError(t, err)
	require.Equal(t, 1.5, r.Results["a"]["exact_match,none"], "the trial changes nothing")
}

package task

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/eval/taskcode"
)

// TestScoringIdentity: the hash of what scores answers changes with filters, metrics, their
// settings and aggregations, schemas, and Python functions, and with nothing else.
func TestScoringIdentity(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("Python functions of tasks are not tested: install python3")
	}
	python := &taskcode.Process{Unsandboxed: true}
	t.Cleanup(python.Close)
	files := map[string]string{
		"own.py":       "import math\nfrom other import factor\n\ndef score(doc, results):\n    return {'acc': factor}\n\ndef mean(items):\n    return sum(items)\n\ndef one(references, predictions):\n    return 1\n",
		"other.py":     "import os, math\nfactor = 1\n\ndef again():\n    import own as again, os\n",
		"unused.py":    "",
		"schema.json":  `{"type": "object"}`,
		"included.txt": "metric_list: [{metric: exact_match, ignore_case: true}]\n",
	}
	scoring := func(settings string, changed map[string]string) string {
		folder := t.TempDir()
		for name, text := range files {
			if other, ok := changed[name]; ok {
				text = other
			}
			require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
		}
		path := filepath.Join(folder, "task.yaml")
		require.NoError(t, os.WriteFile(path, []byte(plainTask+settings), 0o600))
		task, err := ReadTrusted(path, python)
		require.NoError(t, err, settings)
		return task.Scoring
	}
	const metric = "metric_list: [{metric: exact_match, ignore_case: true}]\n"
	const filter = "filter_list: [{name: a, filter: [{function: regex, regex_pattern: 'a'}, {function: take_first}]}]\n"
	const schema = "metric_list: [{metric: json_schema, schema: schema.json}]\n"
	const function = "process_results: !function own.score\nmetric_list: [{metric: acc}]\n"
	for _, c := range []struct {
		name          string
		before, after string
		changed       map[string]string // files after
		same          bool
	}{
		{"nothing", metric + filter, metric + filter, nil, true},
		{"comments and the order of keys", metric, "# a comment\nmetric_list:\n- ignore_case: true\n  metric: \"exact_match\"\n", nil, true},
		{"an included file", metric, "include: included.txt\n", nil, true},
		{"margin, split and version", metric, metric + "margin: 0.1\nmetadata: {version: 2}\ntest_split: test\n", nil, true},
		{"an alias", metric, "metadata: &m {metric: exact_match, ignore_case: true}\nmetric_list: [*m]\n", nil, true},
		{"another setting of a metric", metric, "metric_list: [{metric: exact_match, ignore_case: false}]\n", nil, false},
		{"another setting of an included file", "include: included.txt\n", "include: included.txt\n", map[string]string{"included.txt": "metric_list: [{metric: exact_match}]\n"}, false},
		{"a text for a number", "metric_list: [{metric: exact_match, regexes_to_ignore: ['1']}]\n", "metric_list: [{metric: exact_match, regexes_to_ignore: [1]}]\n", nil, false},
		{"another aggregation", function, "process_results: !function own.score\nmetric_list: [{metric: acc, aggregation: median}]\n", nil, false},
		{"an aggregation in Python", metric, "metric_list: [{metric: exact_match, ignore_case: true, aggregation: !function own.mean}]\n", nil, false},
		{"another direction", metric, "metric_list: [{metric: exact_match, ignore_case: true, higher_is_better: false}]\n", nil, false},
		{"another filter", filter, "filter_list: [{name: a, filter: [{function: regex, regex_pattern: 'b'}, {function: take_first}]}]\n", nil, false},
		{"the order of filters", filter, "filter_list: [{name: a, filter: [{function: take_first}, {function: regex, regex_pattern: 'a'}]}]\n", nil, false},
		{"another schema", schema, schema, map[string]string{"schema.json": `{"type": "array"}`}, false},
		{"another schema in the task", "metric_list: [{metric: json_schema, schema: {type: object}}]\n", "metric_list: [{metric: json_schema, schema: {type: array}}]\n", nil, false},
		{"an unused file", function, function, map[string]string{"unused.py": "x = 1\n"}, true},
		{"the file of a function", function, function, map[string]string{"own.py": files["own.py"] + "x = 1\n"}, false},
		{"an imported file", function, function, map[string]string{"other.py": "factor = 2\n"}, false},
		{"a file that no function uses", metric, metric, map[string]string{"own.py": ""}, true},
		{"the file of an aggregation", "metric_list: [{metric: exact_match, aggregation: !function own.mean}]\n", "metric_list: [{metric: exact_match, aggregation: !function own.mean}]\n", map[string]string{"other.py": "factor = 2\n"}, false},
		{"another function", "metric_list: [{metric: exact_match, aggregation: !function own.mean}]\n", "metric_list: [{metric: !function own.one}]\n", nil, false},
	} {
		before, after := scoring(c.before, nil), scoring(c.after, c.changed)
		require.Len(t, before, 64)
		require.Equal(t, c.same, before == after, c.name)
	}
}

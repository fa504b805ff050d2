package eval_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/eval"
	"github.com/ingot-run/ingot/eval/task"
)

// TestFormsOfRowFiles: rows are JSON Lines, a JSON list, or in a field of a JSON object, where the
// package datasets finds them.
func TestFormsOfRowFiles(t *testing.T) {
	t.Parallel()
	const a, b = `{"q":"A","n":1}`, `{"q":"B","n":2}`
	for name, c := range map[string]struct {
		text, field string
		rows        []string
		says        string
	}{
		"lines":                 {text: a + "\n" + b + "\n", rows: []string{a, b}},
		"a list":                {text: " \n[" + a + ",\n" + b + "]\n", rows: []string{a, b}},
		"a list after a mark":   {text: "\ufeff[" + a + "]", rows: []string{a}},
		"a field":               {text: `{"version": [1], "data": [` + a + ", " + b + `]}`, field: "data", rows: []string{a, b}},
		"a field after a mark":  {text: "\ufeff" + `{"data": [` + a + `]}`, field: "data", rows: []string{a}},
		"columns in a field":    {text: `{"data": {"q": ["A", "B"], "n": [1, 2]}}`, field: "data", rows: []string{a, b}},
		"texts in a field":      {text: `{"data": ["A", "B"]}`, field: "data", rows: []string{`{"text":"A"}`, `{"text":"B"}`}},
		"no such field":         {text: `{"rows": [` + a + `]}`, field: "data", says: `rows.json: the object has no field "data", which dataset_kwargs.field names`},
		"lines with a field":    {text: a + "\n" + b + "\n", field: "data", says: "rows.json: "},
		"a list with a field":   {text: "[" + a + "]", field: "data", says: `rows.json: the file is not a JSON object, which dataset_kwargs.field "data" needs`},
		"a text in a field":     {text: `{"data": "A"}`, field: "data", says: "the rows must be a list of JSON objects"},
		"rows and texts":        {text: `{"data": [` + a + `, "A"]}`, field: "data", says: "the rows must be a list of JSON objects"},
		"columns of two sizes":  {text: `{"data": {"q": ["A", "B"], "n": [1]}}`, field: "data", says: "the rows must be a list of JSON objects"},
		"a list of texts":       {text: `["A"]`, says: "rows.json: element 1 is not a JSON object"},
		"a list without an end": {text: "[" + a, says: "rows.json: "},
		"no rows in a field":    {text: `{"data": []}`, field: "data", says: "the file has no rows"},
	} {
		folder := t.TempDir()
		settings := map[string]any{
			"task": "a", "doc_to_text": "q", "doc_to_target": "{{n}}", "dataset_path": "json", "test_split": "test",
			"dataset_kwargs": map[string]any{"data_files": map[string]any{"test": "rows.json"}, "field": c.field},
		}
		if name == "texts in a field" {
			settings["doc_to_text"], settings["doc_to_target"] = "text", "text"
		}
		text, err := json.Marshal(settings) // JSON is YAML
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(folder, "rows.json"), []byte(c.text), 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(folder, "task.yaml"), text, 0o600))
		read, err := task.Read(filepath.Join(folder, "task.yaml"))
		require.NoError(t, err, name)
		s, err := eval.Load(read, 0)
		if c.says != "" {
			require.ErrorContains(t, err, c.says, name)
			continue
		}
		require.NoError(t, err, name)
		var rows []string
		for i := range s.Items {
			rows = append(rows, string(s.Items[i].Doc))
		}
		require.Equal(t, c.rows, rows, name)
	}
}

// TestSplitsWithoutFiles: a split that data_files lacks is named, and no other rows take the place
// of its examples. The files that the user names replace those of the task.
func TestSplitsWithoutFiles(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path, rows := filepath.Join(folder, "task.yaml"), filepath.Join(folder, "rows.jsonl")
	require.NoError(t, os.WriteFile(rows, []byte(`{"q":"A","a":"B"}`+"\n"+`{"q":"C","a":"D"}`+"\n"), 0o600))
	load := func(settings string, s eval.Settings) error {
		require.NoError(t, os.WriteFile(path, []byte("task: a\ndoc_to_text: q\ndoc_to_target: a\ndataset_path: json\n"+settings), 0o600))
		read, err := task.Read(path)
		require.NoError(t, err)
		_, err = eval.LoadAll([]*task.Task{read}, s)
		return err
	}
	const noRows = "dataset_kwargs: {data_files: {train: rows.jsonl}}\ntest_split: test\nfewshot_split: train\n"
	require.EqualError(t, load(noRows, eval.Settings{}), `load task a: its rows are missing: data_files has no file of the split "test"; it has files of: train: name their file with "data" in the task, or with --data`)
	require.NoError(t, load(noRows, eval.Settings{Data: rows}))
	const noExamples = "dataset_kwargs: {data_files: {test: rows.jsonl}}\ntest_split: test\ntraining_split: train\nnum_fewshot: 1\n"
	require.ErrorContains(t, load(noExamples, eval.Settings{}), `the examples are missing: data_files has no file of the split "train"; it has files of: test: name their file with "fewshot_data" in the task, or with --fewshot-data`)
	require.NoError(t, load(noExamples, eval.Settings{Examples: rows}))
	require.NoError(t, load(noExamples, eval.Settings{Shots: new(int)}))
	require.NoError(t, load(noExamples+"fewshot_config: {samples: [{q: E, a: F}]}\n", eval.Settings{}), "the task has examples")
}

package eval_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/eval"
	"github.com/ingot-run/ingot/eval/task"
)

// TestNumbersOfColumns: templates write numbers as with the package datasets 5.2.0, which read the
// same rows.
func TestNumbersOfColumns(t *testing.T) {
	t.Parallel()
	for rows, want := range map[string][]string{
		`{"n": 1}` + "\n" + `{"n": 1.5}`:                                           {"1.0", "1.5"},
		`{"n": 1.0}` + "\n" + `{"n": 1}`:                                           {"1.0", "1.0"},
		`{"n": 1}` + "\n" + `{"n": 2}`:                                             {"1", "2"},
		`{"n": 1}` + "\n" + `{"n": null}` + "\n" + `{"n": 2.5}`:                    {"1.0", "None", "2.5"},
		`{"n": 9007199254740993}` + "\n" + `{"n": 0.5}`:                            {"9007199254740992.0", "0.5"},
		`{"n": 9223372036854775808}` + "\n" + `{"n": 1}`:                           {"9.223372036854776e+18", "1.0"},
		`{"n": 1}` + "\n" + `{"n": 1.5}` + "\n" + `{"n": "x"}`:                     {"1", "1.5", "x"},
		`{"n": true}` + "\n" + `{"n": 1}` + "\n" + `{"n": 1.5}`:                    {"True", "1", "1.5"},
		`{"n": [1, null]}` + "\n" + `{"n": [1.5]}` + "\n" + `{"n": []}`:            {"[1.0, None]", "[1.5]", "[]"},
		`{"n": [[1], [1.5]]}`:                                                      {"[[1.0], [1.5]]"},
		`{"n": [1, "x"]}` + "\n" + `{"n": [1.5]}`:                                  {"[1, 'x']", "[1.5]"},
		`{"n": {"a": 1}}` + "\n" + `{"n": {"a": 1.5}}` + "\n" + `{"n": null}`:      {"{'a': 1.0}", "{'a': 1.5}", "None"},
		`{"n": {"a": 1}}` + "\n" + `{"n": {"a": 1.5, "b": 2}}`:                     {"{'a': 1}", "{'a': 1.5, 'b': 2}"},
		`{"n": {"a": 1, "b": 1}}` + "\n" + `{"n": {"a": 1.5, "b": "x"}}`:           {"{'a': 1.0, 'b': 1}", "{'a': 1.5, 'b': 'x'}"},
		`{"n": {}}` + "\n" + `{"n": {"a": 1}}` + "\n" + `{"n": {"a": 1.5}}`:        {"{}", "{'a': 1}", "{'a': 1.5}"},
		`{"n": [{"a": 1}, {"a": 2.5}]}` + "\n" + `{"n": 5}` + "\n" + `{"n": 0.5}`:  {"[{'a': 1}, {'a': 2.5}]", "5", "0.5"},
		`{"n": [{"a": 1}, {"a": 2.5}]}` + "\n" + `{"n": [{"a": [1]}, {"a": [2]}]}`: {"[{'a': 1}, {'a': 2.5}]", "[{'a': [1]}, {'a': [2]}]"},
	} {
		folder := t.TempDir()
		path := filepath.Join(folder, "task.yaml")
		require.NoError(t, os.WriteFile(path, []byte("task: a\ndata: rows.jsonl\ndoc_to_text: '{{ n }}'\ndoc_to_target: '{{ n }}.'\n"), 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(folder, "rows.jsonl"), []byte(rows), 0o600))
		read, err := task.Read(path)
		require.NoError(t, err)
		s, err := eval.Load(read, 0)
		require.NoError(t, err)
		var got []string
		for i := range s.Items {
			got = append(got, s.Items[i].Prompt.Context)
			require.JSONEq(t, strings.Split(rows, "\n")[i], string(s.Items[i].Doc), "the row itself is unchanged")
		}
		require.Equal(t, want, got, rows)
	}
}

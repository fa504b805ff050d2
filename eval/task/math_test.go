package task

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestExamplesOfAFunction checks that examples are read from a Python function that returns a list,
// and that other functions and files are refused.
func TestExamplesOfAFunction(t *testing.T) {
	t.Parallel()
	const settings = "task: a\ndoc_to_text: q\ndoc_to_target: a\nnum_fewshot: 1\nfewshot_config: {samples: !function utils.examples}\n"
	for source, says := range map[string]string{
		"def examples() -> list[dict]:\n    return [\n        {\n            \"q\": \"1\\n\\\\frac\",\n            'a': 'b', 'n': None,\n        },\n    ]\n\nx = 1\n": "",
		"def examples():\n    return []\n":        "",
		"def examples():\n    return [x for x]\n": "is not a text or number",
		"def examples():\n    return [1]\n":       "is not a row",
		"def examples():\n    return [{1: 2}]\n":  "texts as keys",
		"def examples():\n    return [{'a': 2\n":  "closing brace",
		"def examples():\n    return list()\n":    "not supported",
		"":                                        "put its file beside the task",
	} {
		folder := t.TempDir()
		path := filepath.Join(folder, "task.yaml")
		require.NoError(t, os.WriteFile(path, []byte(settings), 0o600))
		if source != "" {
			require.NoError(t, os.WriteFile(filepath.Join(folder, "utils.py"), []byte(source), 0o600))
		}
		task, err := Read(path)
		if says != "" {
			require.ErrorContains(t, err, says, source)
			continue
		}
		require.NoError(t, err, source)
		for _, row := range task.Examples {
			q, _ := row.Get("q")
			require.Equal(t, "1\n\\frac", q)
		}
	}
}

package task

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFunctionsOfTheLeaderboard checks the errors for rows that lack what a function needs, and
// that a function of the same name in another task is refused. Prompts are compared with the
// harness's in package eval.
func TestFunctionsOfTheLeaderboard(t *testing.T) {
	t.Parallel()
	const choices = "output_type: multiple_choice\ndoc_to_text: !function utils.doc_to_text\ndoc_to_target: answer\n"
	load := func(name, rest string) (*Task, error) {
		path := filepath.Join(t.TempDir(), "task.yaml")
		require.NoError(t, os.WriteFile(path, []byte("task: "+name+"\n"+choices+rest), 0o600))
		return Read(path)
	}
	_, err := load("other", "doc_to_choice: [a]\n")
	require.ErrorIs(t, err, ErrUnsupported)
	require.ErrorContains(t, err, `task.yaml: the Python function "utils.doc_to_text" is not supported`)
	pro, err := load("leaderboard_mmlu_pro", "doc_to_choice: !function utils.doc_to_choice\n")
	require.NoError(t, err)
	musr, err := load("leaderboard_musr_team_allocation", "doc_to_choice: '{{choices}}'\n")
	require.NoError(t, err)
	for _, c := range []struct {
		task      *Task
		row, says string
	}{
		{pro, `{"question": "q", "options": "a", "answer": "A"}`, `column "options" is not a list`},
		{pro, `{"options": ["a"], "answer": "A"}`, `no column "question"`},
		{musr, `{"narrative": "n", "question": "q", "choices": "['a'", "answer": "a"}`, "is not a list"},
		{musr, `{"question": "q", "choices": "['a']", "answer": "a"}`, `no column "narrative"`},
	} {
		_, err := c.task.Prompt(parse(t, []byte(c.row)), nil)
		require.ErrorContains(t, err, c.says, c.row)
	}
}

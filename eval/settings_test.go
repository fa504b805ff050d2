package eval_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/eval"
	"github.com/ingot-run/ingot/eval/task"
)

// Settings beat those of the task in both directions, and only if they are given.
func TestChatIsSwitchedOnAndOff(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "rows.jsonl"), []byte(`{"q":"x","a":"y"}`+"\n"), 0o600))
	yes, no := true, false
	for _, c := range []struct {
		task string
		flag *bool
		want bool
	}{
		{"chat: true\n", nil, true}, {"chat: true\n", &no, false}, {"chat: true\n", &yes, true}, {"", nil, false}, {"", &yes, true}, {"", &no, false},
	} {
		path := filepath.Join(folder, "task.yaml")
		require.NoError(t, os.WriteFile(path, []byte("task: a\ndata: rows.jsonl\ndoc_to_text: q\ndoc_to_target: a\n"+c.task), 0o600))
		read, err := task.Read(path)
		require.NoError(t, err)
		sets, err := eval.LoadAll([]*task.Task{read}, eval.Settings{Chat: c.flag})
		require.NoError(t, err)
		require.Equal(t, c.want, sets[0].Chat, "%+v", c)
	}
}

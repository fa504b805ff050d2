package eval_test

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/eval/task"
)

// TestNamedTasks: the tasks that documents name have the harness's prompts, targets, filtered
// answers and scores, with the task's own number of examples and with two. testdata/recordnamed.py
// has recorded them for 20 rows of each.
func TestNamedTasks(t *testing.T) {
	t.Parallel()
	f, err := os.Open(filepath.Join("testdata", "named.jsonl.gz"))
	require.NoError(t, err)
	defer f.Close()
	text, err := gzip.NewReader(f)
	require.NoError(t, err)
	lines, names := bufio.NewScanner(text), map[string]bool{}
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var c shareCase
		require.NoError(t, json.Unmarshal(lines.Bytes(), &c))
		require.Len(t, c.Rows, 20)
		names[c.Name] = true
		t.Run(fmt.Sprintf("%s/%d", c.Name, *c.Shots), func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			for name, text := range c.Files {
				require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
			}
			read, err := task.Read(filepath.Join(folder, c.File))
			require.NoError(t, err)
			c.onRows(t, folder, read)
			c.Compare(t, filepath.Join(folder, "run"), []*task.Task{read}, nil)
		})
	}
	require.NoError(t, lines.Err())
	for _, name := range []string{
		"arc_easy", "arc_challenge", "hellaswag", "mmlu_anatomy", "truthfulqa_mc1", "truthfulqa_mc2", "truthfulqa_gen", "winogrande", "gsm8k", "ifeval", "bbh_cot_fewshot_snarks",
		"leaderboard_bbh_snarks", "leaderboard_math_algebra_hard", "gpqa_main_zeroshot", "leaderboard_gpqa_main", "leaderboard_musr_murder_mysteries", "mmlu_pro_law", "leaderboard_mmlu_pro",
		"leaderboard_ifeval", "piqa", "boolq", "openbookqa", "sciq", "lambada_openai", "lambada_standard", "triviaqa", "nq_open", "drop", "wikitext", "blimp_wh_island",
	} {
		require.Contains(t, names, name)
	}
}

package eval_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/eval"
)

// deep returns a new folder whose path is so long that the names of files in it can have at most n
// bytes. So a file there can be read, but not be written with a longer name beside it.
func deep(t *testing.T, n int) string {
	t.Helper()
	longest := map[string]int{"linux": 4095, "darwin": 1023}[runtime.GOOS]
	if longest == 0 {
		t.Skip("files that cannot be written are not tested: the longest path of this system is not known")
	}
	folder := t.TempDir()
	for left := longest - len(folder) - n - 2; left > 0; left = longest - len(folder) - n - 2 {
		folder += "/" + strings.Repeat("x", min(left, 200))
	}
	require.NoError(t, os.MkdirAll(folder, 0o700))
	file := filepath.Join(folder, strings.Repeat("y", n))
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.Error(t, os.WriteFile(file+"y", nil, 0o600))
	require.NoError(t, os.Remove(file))
	return folder
}

// TestFilesThatCannotBeWritten: the error of a file that cannot be written says what it is for.
func TestFilesThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	s := written(t, "a", "doc_to_text: q\ndoc_to_target: a\n", rowsOf(2))
	runs := deep(t, len("b/"+eval.RequestsFile+".tmp"))
	scored := scoredRun(t, t.TempDir(), "b", s, yes)
	require.NoError(t, os.CopyFS(filepath.Join(runs, "b"), os.DirFS(scored)))
	_, err := eval.Pin(runs, "main", "b")
	require.ErrorContains(t, err, "write baselines: ")
	text := `{"main": {"run": "b"}}`
	require.NoError(t, os.WriteFile(filepath.Join(runs, eval.BaselinesFile), []byte(text), 0o600))
	require.ErrorContains(t, eval.Unpin(runs, "main"), "write baselines: ")
	index, err := eval.ReadIndex(runs)
	require.NoError(t, err, "the runs can be read without an index")
	require.Len(t, index.Runs, 1)
	require.NoFileExists(t, filepath.Join(runs, eval.IndexFile))
	require.ErrorContains(t, new(eval.GateVerdict).Write(runs), "write the verdict of a run: ")
	require.NoError(t, eval.Prepare(filepath.Join(runs, "b"), []*eval.Set{s}))

	r, err := eval.ReadResults(scored)
	require.NoError(t, err)
	for sets, says := range map[*eval.Set]string{s: "write the harness's samples: ", nil: "write the harness's results: "} {
		dir := deep(t, len("lm-eval/m/samples_a_")) // neither name with a time fits
		require.NoError(t, os.CopyFS(dir, os.DirFS(scored)))
		r.Config.Model = "m"
		list := []*eval.Set{sets}
		if sets == nil {
			list = nil
		}
		require.ErrorContains(t, eval.Save(dir, list, nil, r), says)
	}
	require.NoError(t, os.WriteFile(filepath.Join(scored, "lm-eval"), nil, 0o600))
	require.ErrorContains(t, eval.Save(scored, []*eval.Set{s}, nil, r), "write the harness's files: ")
	require.NoError(t, os.Remove(filepath.Join(scored, "lm-eval")))
	require.NoError(t, os.Remove(filepath.Join(scored, eval.SamplesFile("a"))))
	require.ErrorContains(t, eval.Save(scored, []*eval.Set{s}, nil, r), "read samples: ")
}

// TestARunThatAnotherProcessWrites: only one evaluation at a time writes into a directory.
func TestARunThatAnotherProcessWrites(t *testing.T) {
	t.Parallel()
	s := written(t, "a", "doc_to_text: q\ndoc_to_target: a\n", rowsOf(2))
	dir := filepath.Join(t.TempDir(), "run")
	never := func(context.Context, string, string) error { t.Error("called"); return nil }
	answer := func(context.Context, string, string) error {
		_, err := eval.Evaluate(t.Context(), dir, []*eval.Set{s}, nil, eval.Config{}, never, never)
		require.ErrorIs(t, err, eval.ErrBusy)
		require.ErrorContains(t, err, dir+": another evaluation is writing to the directory: wait until it has ended")
		answerWith(t, dir, eval.RequestsFile, eval.AnswersFile, yes)
		return nil
	}
	for range 2 { // the lock ends with the evaluation
		_, err := eval.Evaluate(t.Context(), dir, []*eval.Set{s}, nil, eval.Config{}, answer, never)
		require.NoError(t, err)
	}
	other := written(t, "a", "doc_to_text: q\ndoc_to_target: a\n", rowsOf(3))
	_, err := eval.Evaluate(t.Context(), dir, []*eval.Set{other}, nil, eval.Config{}, never, never)
	require.ErrorIs(t, err, eval.ErrOtherRun)
	judged := written(t, "kind", "output_type: judge\ndoc_to_text: q\njudge: {rubric: '{{answer}}'}\n", rowsOf(2))
	dir = t.TempDir()
	_, err = eval.Evaluate(t.Context(), dir, []*eval.Set{judged}, nil, eval.Config{}, func(context.Context, string, string) error {
		return os.WriteFile(filepath.Join(dir, eval.AnswersFile), nil, 0o600)
	}, never)
	require.ErrorContains(t, err, "score task kind: row 1 has no answer yet")
	broken := filepath.Join(t.TempDir(), "run")
	require.NoError(t, os.MkdirAll(filepath.Join(broken, eval.RequestsFile, "inside"), 0o700))
	require.ErrorContains(t, eval.Prepare(broken, []*eval.Set{s}), "replace the requests of a run: ")
}

// TestSavedChats: the prompt of a chat is saved as its messages, and several answers as a list.
func TestSavedChats(t *testing.T) {
	t.Parallel()
	s := written(t, "a", "chat: true\nrepeats: 2\ndescription: 'Be kind.'\ndoc_to_text: q\ndoc_to_target: a\nfilter_list: [{name: both, filter: [{function: take_first_k, k: 2}]}, {name: one, filter: [{function: take_first}]}]\n", rowsOf(2))
	dir := scoredRun(t, t.TempDir(), "run", s, func(id string) []string {
		if id == "a:1" {
			return nil
		}
		return []string{"yes", "no"}
	})
	r, err := eval.ReadResults(dir)
	require.NoError(t, err)
	r.Config.Model, r.Config.ChatTemplate = "m", "cafe"
	require.NoError(t, eval.Save(dir, []*eval.Set{s}, nil, r))
	results, err := filepath.Glob(filepath.Join(eval.SavedFolder(dir, r.Config), "results_*.json"))
	require.NoError(t, err)
	require.Len(t, results, 1)
	saved, err := os.ReadFile(results[0])
	require.NoError(t, err)
	require.Contains(t, string(saved), `"chat_template_sha": "cafe"`)
	paths, err := filepath.Glob(filepath.Join(eval.SavedFolder(dir, r.Config), "samples_a_*.jsonl"))
	require.NoError(t, err)
	require.Len(t, paths, 1)
	text, err := os.ReadFile(paths[0])
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	require.Len(t, lines, 2, "a row without an answer is left out")
	for i, want := range []struct{ filter, filtered string }{{"both", `[["yes","no"]]`}, {"one", `["yes"]`}} {
		var line struct {
			Filter    string                    `json:"filter"`
			Filtered  json.RawMessage           `json:"filtered_resps"`
			Responses json.RawMessage           `json:"resps"`
			Arguments map[string]map[string]any `json:"arguments"`
			Match     float64                   `json:"exact_match"`
		}
		require.NoError(t, json.Unmarshal([]byte(lines[i]), &line))
		require.Equal(t, want.filter, line.Filter)
		require.JSONEq(t, want.filtered, string(line.Filtered))
		require.JSONEq(t, `[["yes","no"]]`, string(line.Responses))
		require.JSONEq(t, `[{"role":"system","content":"Be kind."},{"role":"user","content":"question"}]`, line.Arguments["gen_args_0"]["arg_0"].(string))
		require.Equal(t, map[string]any{"until": []any{"\n\n"}, "max_gen_toks": 256., "temperature": 0., "do_sample": false}, line.Arguments["gen_args_0"]["arg_1"])
		require.InDelta(t, []float64{0.5, 1}[i], line.Match, 0)
	}
}

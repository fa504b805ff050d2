package eval_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/eval"
	"github.com/ingot-run/ingot/eval/harnesstest"
	"github.com/ingot-run/ingot/eval/statistics"
	"github.com/ingot-run/ingot/eval/task"
)

// readSaved reads what the harness has saved in its runs: by case and by the name of the file.
func readSaved(t *testing.T) map[string]map[string]any {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "saved.json"))
	require.NoError(t, err)
	var saved map[string]map[string]any
	require.NoError(t, json.Unmarshal(text, &saved))
	require.Len(t, saved, 9)
	return saved
}

func TestRunsOfTheHarness(t *testing.T) {
	t.Parallel()
	harnesstest.Test(t, filepath.Join("testdata", "harness.json"))
}

// TestFilesAreThoseOfTheHarness repeats runs of the harness and compares the files of Save with
// those that the harness itself has saved, key by key.
func TestFilesAreThoseOfTheHarness(t *testing.T) {
	t.Parallel()
	saved := readSaved(t)
	for _, c := range harnesstest.Read(t, filepath.Join("testdata", "harness.json")) {
		want, ok := saved[c.Name]
		if !ok {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			for name, text := range c.Files {
				require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
			}
			tasks, groups, err := task.ReadAll([]string{filepath.Join(folder, c.Name+".yaml")}, nil)
			require.NoError(t, err)
			sets, err := eval.LoadAll(tasks, eval.Settings{Shots: c.Shots})
			require.NoError(t, err)
			run := t.TempDir()
			require.NoError(t, eval.Prepare(run, sets))
			c.Answer(t, run)
			r, err := eval.Score(run, sets, groups, eval.Config{Model: "a/b.gguf"})
			require.NoError(t, err)
			require.NoError(t, eval.Save(run, sets, groups, r))
			require.NoError(t, eval.Save(run, sets, groups, r), "earlier files are replaced")
			compareSaved(t, want, readFiles(t, eval.SavedFolder(run, r.Config)))
		})
	}
}

// readFiles returns the contents of the harness's files in a directory. The names are without the
// time.
func readFiles(t *testing.T, dir string) map[string]any {
	t.Helper()
	require.True(t, strings.HasSuffix(dir, "a__b.gguf"), dir)
	paths, err := filepath.Glob(filepath.Join(dir, "*.json*"))
	require.NoError(t, err)
	files := map[string]any{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		name, ending := filepath.Base(path), filepath.Ext(path)
		name = name[:strings.LastIndex(name, "_")] + ending
		if ending == ".json" {
			var v any
			require.NoError(t, json.Unmarshal(text, &v))
			files[name] = v
			continue
		}
		var lines []any
		for line := range bytes.Lines(text) {
			var v any
			require.NoError(t, json.Unmarshal(line, &v))
			lines = append(lines, v)
		}
		files[name] = lines
	}
	return files
}

// unknown are keys of results.json whose values depend on the program and the model.
var unknown = map[string]bool{
	"config": true, "task_hashes": false, "lm_eval_version": true, "transformers_version": true, "model_source": true, "model_name": true, "model_name_sanitized": true,
	"chat_template": true, "chat_template_sha": true, "system_instruction": true, "system_instruction_sha": true, "fewshot_as_multiturn": true, "eot_token_id": true, "max_length": true,
}

func compareSaved(t *testing.T, want, got map[string]any) {
	t.Helper()
	results, _ := want["results.json"].(map[string]any)
	ours, _ := got["results.json"].(map[string]any)
	for key, v := range results {
		if !unknown[key] {
			requireSaved(t, v, ours[key], key)
		}
	}
	config, _ := results["config"].(map[string]any)
	for key := range config {
		require.Contains(t, ours["config"], key)
	}
	for name, lines := range want {
		if name != "results.json" {
			requireSaved(t, lines, got[name], name)
		}
	}
	require.Len(t, got, len(want))
}

// requireSaved compares values of JSON. Numbers may differ by rounding.
func requireSaved(t *testing.T, want, got any, where string) {
	t.Helper()
	switch want := want.(type) {
	case map[string]any:
		object, ok := got.(map[string]any)
		require.True(t, ok, "%s: %v", where, got)
		for key, v := range want {
			require.Contains(t, object, key, where)
			requireSaved(t, v, object[key], where+"."+key)
		}
		require.Len(t, object, len(want), "%s: %v, not %v", where, got, want)
	case []any:
		list, ok := got.([]any)
		require.True(t, ok, "%s: %v", where, got)
		require.Len(t, list, len(want), where)
		if strings.HasSuffix(where, ".metrics") {
			require.ElementsMatch(t, want, list, where)
			return
		}
		for i := range want {
			requireSaved(t, want[i], list[i], where)
		}
	case float64:
		number, ok := got.(float64)
		require.True(t, ok, "%s: %v", where, got)
		require.InEpsilon(t, want+1e-300, number+1e-300, 1e-9, where)
	default:
		require.Equal(t, want, got, where)
	}
}

// TestSavedRunsAreCompared compares runs that the harness has saved: with themselves, and with a
// copy in which answers of a row differ.
func TestSavedRunsAreCompared(t *testing.T) {
	t.Parallel()
	write := func(files map[string]any, change func(line map[string]any)) string {
		dir := t.TempDir()
		for name, v := range files {
			ending := filepath.Ext(name)
			path := filepath.Join(dir, strings.TrimSuffix(name, ending)+"_2026-01-02T03-04-05.000006"+ending)
			var text bytes.Buffer
			e := json.NewEncoder(&text)
			if lines, ok := v.([]any); ok {
				for _, line := range lines {
					change(line.(map[string]any)) // a line is an object
					require.NoError(t, e.Encode(line))
				}
			} else {
				require.NoError(t, e.Encode(v))
			}
			require.NoError(t, os.WriteFile(path, text.Bytes(), 0o600))
		}
		return dir
	}
	for name, files := range readSaved(t) {
		base := write(files, func(map[string]any) {})
		same, err := eval.CompareAll(base, base, -1)
		require.NoError(t, err, name)
		require.Equal(t, statistics.Pass, eval.Verdict(same), name)
		for _, c := range same {
			require.Zero(t, c.Changed, name)
			require.NotZero(t, c.N, name)
		}
		other := write(files, func(line map[string]any) {
			if line["doc_id"] == 1. {
				line["resps"] = json.RawMessage(strings.NewReplacer("-", "-9", `["`, `["other `).Replace(text(t, line["resps"])))
				if _, generated := line["exact_match"]; !generated {
					line["resps"] = json.RawMessage(strings.ReplaceAll(text(t, line["resps"]), "other ", ""))
				}
			}
		})
		changes, err := eval.Changes("", base, other)
		require.NoError(t, err, name)
		require.NotEmpty(t, changes, name)
		for _, c := range changes {
			require.Equal(t, 1, c.Row, name)
			require.NotEqual(t, c.Baseline, c.Candidate, name)
		}
	}
}

func text(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	require.NoError(t, err)
	return string(b)
}

package eval_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/eval"
)

// The first row without a score is the first of the file, counted from 1.
func TestFirstFailureOfARun(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for text, want := range map[string]struct {
		row    int
		reason string
	}{
		"": {}, `{"doc_id":0}`: {}, `{"doc_id":0,"failed":"first"}`: {1, "first"}, `{"doc_id":0}` + "\n" + `{"doc_id":4,"failed":"late"}` + "\n" + `{"doc_id":5,"failed":"x"}`: {5, "late"},
	} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, eval.SamplesFile("a")), []byte(text), 0o600))
		row, reason, err := eval.FirstFailure(folder, "a")
		require.NoError(t, err)
		require.Equal(t, want.row, row)
		require.Equal(t, want.reason, reason)
	}
	row, _, err := eval.FirstFailure(folder, "b")
	require.ErrorContains(t, err, "read samples: ")
	require.Zero(t, row)
}

// The score of a row by a metric of the whole task is the metric of this row alone.
func TestRowsOfMetricsOfAWholeTask(t *testing.T) {
	t.Parallel()
	s := written(t, "a", "doc_to_text: q\ndoc_to_target: 'yes it is so now'\nmetric_list: [{metric: bleu}, {metric: chrf}, {metric: ter}]\n", rowsOf(2))
	dir := scoredRun(t, t.TempDir(), "run", s, func(string) []string { return []string{"yes it was so"} })
	samples, err := eval.ReadSamples(dir, "a")
	require.NoError(t, err)
	require.Len(t, samples, 2)
	for i := range s.Metrics {
		c := s.Metrics[i].Corpus()
		want := c.Value(c.Answer("yes it was so", "yes it is so now")) / c.Row
		require.Positive(t, want)
		require.InDelta(t, want, samples[0].Scores[s.Metrics[i].Name], 1e-12, s.Metrics[i].Name)
	}
}

// A limit is the number of rows that are loaded; 0 is none.
func TestLimitsOfRows(t *testing.T) {
	t.Parallel()
	read := written(t, "a", "doc_to_text: q\ndoc_to_target: a\n", rowsOf(3)).Task
	for limit, want := range map[int]int{0: 3, 1: 1, 2: 2, 3: 3, 4: 3} {
		s, err := eval.Load(read, limit)
		require.NoError(t, err)
		require.Len(t, s.Items, want, "limit %d", limit)
	}
}

// The harness's results have all keys that its own files have, with what is known of a run.
func TestKeysOfSavedResults(t *testing.T) {
	t.Parallel()
	s := written(t, "a", "doc_to_text: q\ndoc_to_target: a\n", rowsOf(2))
	dir := scoredRun(t, t.TempDir(), "run", s, yes)
	r, err := eval.ReadResults(dir)
	require.NoError(t, err)
	r.Config = eval.Config{Model: "dir/m", ModelSHA256: []string{"abc"}, Server: "http://a", Limit: 5, Version: "1.2"}
	require.NoError(t, eval.Save(dir, []*eval.Set{s}, nil, r))
	paths, err := filepath.Glob(filepath.Join(eval.SavedFolder(dir, r.Config), "results_*.json"))
	require.NoError(t, err)
	require.Len(t, paths, 1)
	text, err := os.ReadFile(paths[0])
	require.NoError(t, err)
	var saved map[string]any
	require.NoError(t, json.Unmarshal(text, &saved))
	require.Equal(t, map[string]any{
		"model": "ingot", "model_args": map[string]any{"model": "dir/m", "sha256": []any{"abc"}, "base_url": "http://a"},
		"batch_size": nil, "batch_sizes": []any{}, "device": nil, "use_cache": nil, "limit": 5.0, "bootstrap_iters": 100000.0, "gen_kwargs": nil,
		"random_seed": 0.0, "numpy_seed": 1234.0, "torch_seed": 1234.0, "fewshot_seed": 1234.0,
	}, saved["config"])
	known := map[string]any{
		"date": float64(r.Date.UnixMilli()) / 1000, "ingot_version": "1.2", "model_source": "ingot", "model_name": "dir/m", "model_name_sanitized": "dir__m",
		"system_instruction": nil, "system_instruction_sha": nil, "chat_template": nil, "chat_template_sha": nil, "fewshot_as_multiturn": nil,
		"git_hash": nil, "upper_git_hash": nil, "pretty_env_info": "ingot 1.2 on " + runtime.GOOS + "/" + runtime.GOARCH,
		"transformers_version": "N/A", "lm_eval_version": "N/A", "total_evaluation_time_seconds": nil,
		"n-shot": map[string]any{"a": 0.0}, "group_subtasks": map[string]any{}, "n-samples": map[string]any{"a": map[string]any{"original": 2.0, "effective": 2.0}},
		"higher_is_better": map[string]any{"a": map[string]any{"exact_match": true}}, "versions": map[string]any{"a": "Yaml"},
	}
	for key, want := range known {
		got, ok := saved[key]
		require.True(t, ok, key)
		require.Equal(t, want, got, key)
	}
	for _, key := range []string{"config", "results", "configs", "task_hashes"} {
		require.Contains(t, saved, key)
	}
	require.Len(t, saved, len(known)+4, "%v", saved)
}

// A margin of 0 is a margin; a negative one stands for that of the baseline's task.
func TestMarginsOfComparisons(t *testing.T) {
	t.Parallel()
	s := written(t, "a", "doc_to_text: q\ndoc_to_target: a\nmargin: 0.25\n", rowsOf(3))
	runs := t.TempDir()
	before, after := scoredRun(t, runs, "before", s, yes), scoredRun(t, runs, "after", s, yes)
	for margin, want := range map[float64]float64{-1: 0.25, 0: 0, 0.125: 0.125} {
		list, err := eval.Compare(before, after, margin)
		require.NoError(t, err)
		require.InDelta(t, want, list[0].Margin, 0, "margin %v", margin)
	}
}

package eval_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/eval"
	"github.com/ingot-run/ingot/eval/task"
)

// savedFor evaluates the tasks of files with a model that answers "yes", and returns results.json
// in the harness's format, and the directory of the run.
func savedFor(t *testing.T, files map[string]string, first string) (results map[string]any, run string) {
	t.Helper()
	folder, run := t.TempDir(), t.TempDir()
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	tasks, groups, err := task.ReadAll([]string{filepath.Join(folder, first)}, nil)
	require.NoError(t, err)
	sets, err := eval.LoadAll(tasks, eval.Settings{})
	require.NoError(t, err)
	require.NoError(t, eval.Prepare(run, sets))
	answerWith(t, run, eval.RequestsFile, eval.AnswersFile, yes)
	r, err := eval.Score(run, sets, groups, eval.Config{Model: "a__b.gguf"})
	require.NoError(t, err)
	require.NoError(t, eval.Save(run, sets, groups, r))
	results, _ = readFiles(t, eval.SavedFolder(run, r.Config))["results.json"].(map[string]any)
	return results, run
}

// TestSavedGroupsAreNested compares with what lm-eval 0.4.13 writes about the same groups.
func TestSavedGroupsAreNested(t *testing.T) {
	t.Parallel()
	const answers = "data: rows.jsonl\ndoc_to_text: q\ndoc_to_target: a\n"
	got, run := savedFor(t, map[string]string{
		"rows.jsonl": `{"q": "Q", "a": "yes"}` + "\n" + `{"q": "R", "a": "no"}` + "\n",
		"a.yaml":     "task: t_a\ntask_alias: A\nmetric_list: [{metric: exact_match, ignore_case: true}]\nmetadata: {version: 1.0}\n" + answers,
		"b.yaml":     "task: t_b\nnum_fewshot: 1\nmetric_list: [{metric: exact_match, higher_is_better: false}]\n" + answers,
		"in.yaml":    "group: g_in\ngroup_alias: In\ntask: [t_a, t_b]\naggregate_metric_list: [{metric: exact_match}]\nmetadata: {version: 1.0}\n",
		"out.yaml":   "group: g_out\ntask: [g_in, t_b]\n",
	}, "out.yaml")
	require.Equal(t, map[string]any{"g_out": []any{"g_in", "t_b"}, "g_in": []any{"t_a", "t_b"}}, got["group_subtasks"])
	require.Equal(t, map[string]any{"g_in": "1.0", "g_out": "N/A", "t_a": 1.0, "t_b": "Yaml"}, got["versions"])
	require.Equal(t, map[string]any{"g_out": 1.0, "t_a": 0.0, "t_b": 1.0}, got["n-shot"])
	require.Equal(t, map[string]any{"g_in": map[string]any{"exact_match": nil}, "g_out": map[string]any{"exact_match": false}, "t_a": map[string]any{"exact_match": true}, "t_b": map[string]any{"exact_match": false}},
		got["higher_is_better"])
	results, _ := got["results"].(map[string]any)
	groups, _ := got["groups"].(map[string]any)
	require.Equal(t, map[string]any{"name": "g_out", "alias": "g_out"}, results["g_out"], "a group without metrics has no scores")
	require.Equal(t, []string{"g_in"}, slices.Collect(maps.Keys(groups)))
	in, _ := groups["g_in"].(map[string]any)
	require.Equal(t, "In", in["alias"])
	require.Equal(t, 4.0, in["sample_len"])
	require.Equal(t, map[string]any{"exact_match,none": 4.0}, in["sample_count"])
	a, _ := results["t_a"].(map[string]any)
	require.Equal(t, "A", a["alias"])

	configs, _ := got["configs"].(map[string]any)
	config, _ := configs["t_a"].(map[string]any)
	require.Equal(t, "q", config["doc_to_text"])
	require.Equal(t, []any{map[string]any{"metric": "exact_match", "ignore_case": true}}, config["metric_list"])
	metadata, _ := config["metadata"].(map[string]any)
	require.Equal(t, 1.0, metadata["version"])
	require.Equal(t, "a.yaml", filepath.Base(metadata["config_source"].(string)))

	// The run is compared with one in the harness's format, given by the directory of all models.
	list, err := eval.CompareAll(run, filepath.Join(run, "lm-eval"), -1)
	require.NoError(t, err)
	require.Len(t, list, 2)
	changes, err := eval.Changes("", filepath.Join(run, "lm-eval"), run)
	require.NoError(t, err)
	require.Empty(t, changes)
}

// TestSavedKeys: the keys of lm-eval 0.4.13 are there, of results and of a task's config.
func TestSavedKeys(t *testing.T) {
	t.Parallel()
	got, _ := savedFor(t, map[string]string{
		"rows.jsonl": `{"q": "Q", "a": "yes"}` + "\n",
		"a.yaml":     "task: t_a\ndata: rows.jsonl\ndoc_to_text: q\ndoc_to_target: a\nfilter_list: [{name: one, filter: [{function: regex, regex_pattern: '(.*)'}, {function: take_first}]}]\n",
	}, "a.yaml")
	for _, key := range []string{
		"results", "group_subtasks", "configs", "versions", "n-shot", "higher_is_better", "n-samples", "config", "git_hash", "date", "pretty_env_info", "transformers_version",
		"lm_eval_version", "upper_git_hash", "task_hashes", "model_source", "model_name", "model_name_sanitized", "system_instruction", "system_instruction_sha",
		"fewshot_as_multiturn", "chat_template", "chat_template_sha", "total_evaluation_time_seconds",
	} {
		require.Contains(t, got, key)
	}
	configs, _ := got["configs"].(map[string]any)
	for _, key := range []string{
		"task", "doc_to_text", "doc_to_target", "unsafe_code", "description", "target_delimiter", "fewshot_delimiter", "num_fewshot", "output_type", "generation_kwargs",
		"repeats", "should_decontaminate", "metadata", "filter_list",
	} {
		require.Contains(t, configs["t_a"], key)
	}
}

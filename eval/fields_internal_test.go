package eval

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/eval/task"
)

// The files of a run, and the index and the baselines of a folder, are read by other programs and
// by other versions: the names of their fields are fixed.
func TestNamesOfFields(t *testing.T) {
	t.Parallel()
	const compared = `{
		"task":"t", "metric":"m", "filter":"f", "baseline":0.5, "candidate":0.25, "n":1, "clusters":2, "mean":-0.25, "stderr":0.125, "low":-0.5, "high":0.1,
		"lost":3, "won":4, "binary":true, "p":0.01, "p_worse":0.02, "smallest":0.03, "p_adjusted":0.04, "margin":0.05, "changed":5, "failed":6, "cut":7, "verdict":"pass"}`
	for _, c := range []struct {
		value any
		text  string
	}{
		{new(Sample), `{
			"doc_id":1, "doc":{"q":"a"}, "cluster":"c", "context":"x", "target":"t", "doc_hash":"d", "prompt_hash":"p", "target_hash":"h", "resps":["r"], "filter":"f",
			"filtered_resps":["g"], "choices":["a"], "logprobs":[-1.5], "greedy":[true], "logprob":-2.5, "failed":"why", "undecided":["m"], "truncated":true, "judge":["j"],
			"completion_tokens":2, "latency_ms":3.5, "metrics":["m"], "scores":{"m":1}, "weights":{"m":4}}`},
		{new(Results), `{
			"results":{"t":{"m,f":0.5}}, "groups":{"g":{"m,f":0.5}}, "group_subtasks":{"g":["t"]}, "versions":{"t":"1"}, "n-shot":{"t":2}, "higher_is_better":{"t":{"m":true}},
			"n-samples":{"t":{"original":1,"effective":2,"failed":3,"truncated":4,"undecided":5,"nan":6,"skipped":7}}, "task_hashes":{"t":"h"}, "score_hashes":{"t":"s"},
			"margins":{"t":0.1}, "config":{"model":"m","server":"s","model_sha256":["h"],"chat_template_sha256":"c","limit":8,"ingot_version":"v"}, "date":"2026-01-02T03:04:05Z"}`},
		{new(GateVerdict), `{"baseline":"b", "baseline_run":"r", "verdict":"fail", "compared":[` + compared + `]}`},
		{new(Compared), compared},
		{new(Baseline), `{"run":"r", "pinned":"2026-01-02T03:04:05Z", "sha256":"s"}`},
		{new(indexed), `{"run":"r", "results":{}, "gate":{}, "stamps":[{"size":1,"modified":2},{"size":3,"modified":4}]}`},
		{new(body), `{
			"messages":[{"role":"user","content":"a"}], "continue_final_message":true, "prompt":"p", "max_tokens":1, "temperature":0.5, "top_p":0.25, "top_k":2, "seed":3, "n":4,
			"stop":["s"], "echo":true, "prefix_token":true, "logprobs":5, "structured_outputs":{"choice":["a"],"regex":"b"}}`},
	} {
		require.NoError(t, json.Unmarshal([]byte(c.text), c.value))
		v := reflect.ValueOf(c.value).Elem()
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				require.False(t, v.Field(i).IsZero(), "%s of %s", f.Name, v.Type())
			}
		}
		written, err := json.Marshal(c.value)
		require.NoError(t, err)
		require.JSONEq(t, c.text, string(written))
	}
	text, err := json.Marshal(Run{Name: "r", Gate: &GateVerdict{}})
	require.NoError(t, err)
	var run map[string]any
	require.NoError(t, json.Unmarshal(text, &run))
	require.Contains(t, run, "run")
	require.Contains(t, run, "results")
	require.Contains(t, run, "gate")
}

// The target of a row with choices is the text of the right choice, and else the given target.
func TestTargetsOfSamples(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		right   int
		choices []string
		want    string
	}{
		"the first choice": {0, []string{"a", "b"}, "a"},
		"the last choice":  {1, []string{"a", "b"}, "b"},
		"no right choice":  {-1, []string{"a", "b"}, "given"},
		"no choices":       {0, nil, "given"},
	} {
		s := Set{Task: &task.Task{}}
		item := Item{Prompt: task.Prompt{Targets: []string{"given"}, Right: c.right, Choices: c.choices}}
		require.Equal(t, c.want, s.sample(&item).Target, name)
	}
}

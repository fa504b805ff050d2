package eval

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/eval/statistics"
	"github.com/ingot-run/ingot/eval/task"
)

// TestSavedScores: what the harness logs for metrics that are not means.
func TestSavedScores(t *testing.T) {
	t.Parallel()
	sample := &Sample{
		Scores: map[string]float64{"acc": 0.5, "f1": 0.25, "bits_per_byte": -3, "word_perplexity": -3, "byte_perplexity": -3, "ter": 0.75}, Filtered: []string{"given"},
		Weights: map[string]float64{"bits_per_byte": 7, "word_perplexity": 2, "byte_perplexity": 8}, Logprobs: []float64{-2, -1},
	}
	p := &task.Prompt{Right: 0, Targets: []string{"right"}}
	choices, texts := &Set{Task: &task.Task{Type: task.MultipleChoice}}, &Set{Task: &task.Task{Type: task.Generate}}
	for _, c := range []struct {
		set    *Set
		metric string
		want   any
	}{
		{choices, "acc", 0.5}, {choices, "f1", []int{0, 1}}, {choices, "mcc", []int{0, 1}}, {texts, "f1", 0.25}, {texts, "ter", 0.75},
		{texts, "bleu", []string{"right", "given"}}, {texts, "chrf", []string{"right", "given"}}, {texts, "chrf++", []string{"right", "given"}},
		{texts, "bits_per_byte", []float64{-3, 7}}, {texts, "word_perplexity", []float64{-3, 2}}, {texts, "byte_perplexity", []float64{-3, 8}},
		{choices, "brier_score", []any{0, task.Probabilities([]float64{-2, -1})}},
	} {
		require.Equal(t, c.want, c.set.savedScore(sample, p, c.metric), c.metric)
	}
	for version, want := range map[string]string{"": `"Yaml"`, "1.0": "1.0", "3": "3", "v2": `"v2"`} {
		text, err := json.Marshal(savedVersion(version))
		require.NoError(t, err)
		require.JSONEq(t, want, string(text))
		require.Equal(t, want, string(text), "1.0 stays 1.0")
	}
	line := savedSample{DocID: 3, Doc: json.RawMessage(`{"a":"<b>"}`), scores: map[string]any{"acc": 1, "f1": []int{0, 1}}}
	text, err := line.MarshalJSON()
	require.NoError(t, err)
	require.Contains(t, string(text), `{"doc_id":3,"doc":{"a":"<b>"},`)
	require.Contains(t, string(text), `,"acc":1,"f1":[0,1]}`)
	require.True(t, json.Valid(text))
	line.scores["acc"] = math.NaN()
	_, err = line.MarshalJSON()
	require.ErrorContains(t, err, "unsupported value: NaN")
	line.scores, line.Responses = map[string]any{}, []any{math.NaN()}
	_, err = line.MarshalJSON()
	require.ErrorContains(t, err, "unsupported value: NaN")
	for want, got := range map[string]string{ // byte by byte, since they are hashed
		"{\n  \"a\": \"\u2028\u2029\"\n}":   indented([]byte(`{"a":"\u2028\u2029"}`)),
		`[{"role":"user","content":"<a>"}]`: messagesText([]task.Message{{Role: "user", Content: "<a>"}}),
	} {
		require.Equal(t, want, got)
	}
}

// TestSavedNumbers: the score of a row that the harness has logged.
func TestSavedNumbers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		metric, raw string
		want        float64
		ok          bool
	}{
		{"acc", "0.5", 0.5, true}, {"acc", "true", 1, true}, {"acc", "false", 0, true}, {"acc", `"x"`, 0, false}, {"acc", "", 0, false},
		{"f1", "[1, 1]", 1, true}, {"mcc", "[1, 0]", 0, true}, {"f1", "[1, 0, 1]", 0, false}, {"f1", "[1]", 0, false}, {"bleu", `["a", "b"]`, 0, false},
		{"word_perplexity", "[-3.5, 7]", -3.5, true}, {"other", "[-3.5, 7]", -3.5, false},
	} {
		got, ok := savedNumber(c.metric, json.RawMessage(c.raw))
		require.Equal(t, c.ok, ok, "%+v", c)
		if ok {
			require.InDelta(t, c.want, got, 0, "%+v", c)
		}
	}
	got, ok := savedNumber("acc", json.RawMessage("null"))
	require.True(t, ok && math.IsNaN(got))
	values := numbers(map[string]any{"acc,none": nil, "acc_stderr,none": nil, "alias": nil})
	require.Len(t, values, 1)
	require.True(t, math.IsNaN(values["acc,none"]))
	require.Equal(t, map[string]float64{"acc,none": 0.5, "acc_stderr,none": 0.25}, numbers(map[string]any{"acc,none": 0.5, "acc_stderr,none": 0.25, "alias": "a", "sample_len": 3.0, "f1,none": "N/A"}))
}

// TestSavedLines: answers and log-probabilities are read from the requests of a row. A line that
// lacks them is an error.
func TestSavedLines(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		line string
		want Sample
		says string
	}{
		{line: `{"doc_id": 2, "target": "t", "filter": "f", "metrics": ["acc", "f1"], "acc": 1, "resps": [["a", "b"]], "filtered_resps": ["a", 7],
			"arguments": {"gen_args_0": {"arg_0": "ask", "arg_1": {"until": []}}}, "doc_hash": "d", "prompt_hash": "p", "target_hash": "h"}`,
			want: Sample{DocID: 2, Target: "t", Filter: "f", Metrics: []string{"acc", "f1"}, Scores: map[string]float64{"acc": 1}, Responses: []string{"a", "b"}, Filtered: []string{"a", "7"},
				Context: "ask", DocHash: "d", PromptHash: "p", TargetHash: "h"}},
		{line: `{"doc_id": 1, "resps": [[["-1.5", "True"]], [["-2", "False"]]], "filtered_resps": [["-1.5", "True"], ["-2", "False"]],
			"arguments": {"gen_args_0": {"arg_0": "ask", "arg_1": " x"}, "gen_args_1": {"arg_0": "more", "arg_1": " y"}}}`,
			want: Sample{DocID: 1, Scores: map[string]float64{}, Context: "ask", Logprobs: []float64{-1.5, -2}, Choices: []string{" x", " y"}}},
		{line: `{"resps": [[["-1.0986122886681098", "True"]], [["-0.4054651081081644", "False"]]], "metrics": ["brier_score"], "brier_score": [1, "[0.33333333 0.66666667]"],
			"arguments": {"gen_args_0": {"arg_0": "ask", "arg_1": " x"}, "gen_args_1": {"arg_0": "ask", "arg_1": " y"}}}`,
			want: Sample{Metrics: []string{"brier_score"}, Scores: map[string]float64{"brier_score": task.Brier([]float64{math.Log(1. / 3), math.Log(2. / 3)}, 1)},
				Context: "ask", Logprobs: []float64{-1.0986122886681098, -0.4054651081081644}, Choices: []string{" x", " y"}}},
		{line: `{"resps": [[["-1.5", "True"]]], "target": "t", "arguments": {"gen_args_0": {"arg_0": "ask", "arg_1": " x"}}}`,
			want: Sample{Scores: map[string]float64{}, Context: "ask", Logprob: -1.5, Target: " x"}},
		{line: `{"resps": [["-1.5"]], "target": "t", "arguments": {"gen_args_0": {"arg_0": "a text"}}}`,
			want: Sample{Scores: map[string]float64{}, Logprob: -1.5, Target: "a text"}},
		{line: `{"doc_id": 4, "resps": [[[]]], "arguments": {"gen_args_0": {"arg_0": "ask"}}}`, says: "row 4: read a log-probability: "},
		{line: `{"resps": [], "metrics": ["brier_score"], "brier_score": [1, "[0.5 0.5]"]}`, want: Sample{Metrics: []string{"brier_score"}, Scores: map[string]float64{}}},
		{line: `{"doc_id": 4, "resps": [7]}`, says: "row 4: the response 0 is not a list"},
		{line: `{"doc_id": 4, "resps": [["-1"], []], "arguments": {}}`, says: "row 4: the response 1 is not a list"},
		{line: `{"doc_id": 4, "resps": [["x"]], "arguments": {"gen_args_0": {"arg_0": "ask"}}}`, says: "row 4: read a log-probability: "},
		{line: `{"doc_id": "x"}`, says: "json: "},
		{line: `[]`, says: "json: "},
	} {
		got, err := readSavedSample([]byte(c.line))
		if c.says != "" {
			require.ErrorContains(t, err, c.says, c.line)
			continue
		}
		require.NoError(t, err, c.line)
		require.Equal(t, c.want, got, c.line)
	}
}

// TestSavedFolders: the newest results in a folder count, and ours before those of the harness.
func TestSavedFolders(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	_, err := ReadResults(folder)
	require.ErrorContains(t, err, "read the results of a run: ")
	_, err = ReadSamples(folder, "a")
	require.ErrorContains(t, err, "read samples: ")
	write("results_2026-01-01T00-00-00.000000.json", `{`)
	_, err = ReadResults(folder)
	require.ErrorContains(t, err, "results_2026-01-01T00-00-00.000000.json: ")
	write("results_2026-01-02T00-00-00.000000.json", `{"results": {"a": {"acc,none": 0.5, "alias": "a"}, "g": {"acc,none": 0.75}}, "n-samples": {"a": {"original": 100, "effective": 10}},
		"n-shot": {"a": 2}, "higher_is_better": {"a": {"acc": true, "ter": false, "f1": null}}, "task_hashes": {"a": "h"}, "date": 1767312000.5, "model_name": "m"}`)
	r, err := ReadResults(folder)
	require.NoError(t, err)
	require.Equal(t, &Results{
		Results: map[string]Values{"a": {"acc,none": 0.5}}, Groups: map[string]Values{"g": {"acc,none": 0.75}}, Versions: map[string]string{}, Shots: map[string]int{"a": 2},
		HigherBetter: map[string]map[string]bool{"a": {"acc": true, "ter": false, "f1": true}}, Samples: map[string]Count{"a": {Original: 10, Effective: 10}},
		TaskHashes: map[string]string{"a": "h"}, Margins: map[string]float64{"a": task.DefaultMargin}, Config: Config{Model: "m"}, Date: time.Date(2026, 1, 2, 0, 0, 0, 5e8, time.UTC),
	}, r)
	_, err = ReadSamples(folder, "a")
	require.ErrorContains(t, err, "read samples of the harness: ")
	write("samples_a_2026-01-02T00-00-00.000000.jsonl", "{\n")
	_, err = ReadSamples(folder, "a")
	require.ErrorContains(t, err, "read samples of the harness: ")
	write("samples_a_2026-01-02T00-00-00.000000.jsonl", `{"doc_id": 3}`+"\n"+`{"doc_id": 4}`+"\n")
	samples, err := ReadSamples(folder, "a")
	require.NoError(t, err)
	require.Equal(t, []int{3, 4}, []int{samples[0].DocID, samples[1].DocID})
	given := t.TempDir() // what the harness is given has a directory for each model
	require.NoError(t, os.Symlink(folder, filepath.Join(given, "m")))
	r, err = ReadResults(given)
	require.NoError(t, err)
	require.Equal(t, "m", r.Config.Model)
	samples, err = ReadSamples(given, "a")
	require.NoError(t, err)
	require.Len(t, samples, 2)
	require.NoError(t, os.Symlink(folder, filepath.Join(given, "n")))
	_, err = ReadResults(given)
	require.EqualError(t, err, "read a run of the harness: "+given+` has runs of several models, "m" and "n": give the directory of one of them`)
	_, err = ReadSamples(given, "a")
	require.ErrorContains(t, err, "has runs of several models")
	require.NoError(t, os.Mkdir(filepath.Join(folder, "results_2026-01-03T00-00-00.000000.json"), 0o700))
	_, err = ReadResults(folder)
	require.ErrorContains(t, err, "read results of the harness: ")
	write(ResultsFile, `{"date": 5}`)
	_, err = ReadResults(folder)
	require.ErrorContains(t, err, filepath.Join(folder, ResultsFile)+": ")
	write(ResultsFile, `{"config": {"model": "ours"}}`)
	r, err = ReadResults(folder)
	require.NoError(t, err)
	require.Equal(t, "ours", r.Config.Model)
	write(SamplesFile("a"), `{"doc_id": 7}`)
	samples, err = ReadSamples(folder, "a")
	require.NoError(t, err)
	require.Equal(t, 7, samples[0].DocID)
	require.Equal(t, filepath.Join("x", "lm-eval", "a__b__c"), SavedFolder("x", Config{Model: `a/b<>:"c`}))
}

// TestScoresByName: a score and its standard error are found by task, metric and filter.
func TestScoresByName(t *testing.T) {
	t.Parallel()
	r := &Results{Results: map[string]Values{"a": {"acc,none": 0.5, "acc_stderr,none": 0.25, "f1,x": 0.75}}}
	v, ok := r.Score("a", "acc", "none")
	require.True(t, ok)
	require.Equal(t, MetricScore{Metric: "acc", Filter: "none", Value: 0.5, Stderr: 0.25, Certain: true}, v)
	v, ok = r.Score("a", "f1", "x")
	require.True(t, ok)
	require.Equal(t, MetricScore{Metric: "f1", Filter: "x", Value: 0.75}, v)
	for _, name := range [][3]string{{"b", "acc", "none"}, {"a", "acc", "x"}, {"a", "f1", "none"}} {
		_, ok = r.Score(name[0], name[1], name[2])
		require.False(t, ok, name)
	}
	for metric, want := range map[string]statistics.Interval{"acc": {High: 1}, "unknown": {High: 1}, "mcc": {Low: -1, High: 1}, "bleu": {High: 100}, "perplexity": {Low: 1, High: math.Inf(1)}} {
		require.Equal(t, want, Possible(metric), metric)
	}
	for value, want := range map[float64]statistics.Interval{
		0: statistics.Wilson(0, 9), 1: statistics.Wilson(1, 9), -0.5: {Low: -0.5, High: -0.5}, 1.5: {Low: 1.5, High: 1.5},
	} {
		require.Equal(t, want, MetricScore{Metric: "points", Value: value, Certain: true}.Interval(9), value)
	}
}

// TestMetricsThatOnlyRunsHave: rows of which none has a score by a metric are not compared by it,
// unless all of them failed.
func TestMetricsThatOnlyRunsHave(t *testing.T) {
	t.Parallel()
	with, without, failed := &Sample{Scores: map[string]float64{"m": 0}}, &Sample{}, &Sample{Failed: "x"}
	for _, c := range []struct {
		list []*Sample
		want bool
	}{
		{nil, false}, {[]*Sample{with}, false}, {[]*Sample{without}, true}, {[]*Sample{without, with}, false}, {[]*Sample{failed}, false}, {[]*Sample{failed, without}, true},
		{[]*Sample{without, failed}, true}, {[]*Sample{failed, with}, false},
	} {
		var list []pair
		for _, s := range c.list {
			list = append(list, pair{s, with})
		}
		require.Equal(t, c.want, onlyOfRuns(list, "m"))
	}
	rows := []pair{{&Sample{Filter: "b", Scores: map[string]float64{"m": 0}}, with}, {&Sample{Filter: "a"}, with}, {&Sample{Filter: "b", DocID: 1, Scores: map[string]float64{"m": 1}}, with}}
	list, tests := compareTask("t", rows, 0.5, map[string]bool{"m": true, "n": false})
	require.Len(t, list, 1)
	require.Equal(t, []any{"t", "m", "b", 0.5, 2}, []any{list[0].Task, list[0].Metric, list[0].Filter, list[0].Margin, list[0].N})
	require.Equal(t, [][]statistics.Observation{{{Unit: "t\x000", Difference: 0}, {Unit: "t\x001", Difference: -1}}}, tests)
}

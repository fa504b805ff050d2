package task

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/eval/taskcode"
	"github.com/ingot-run/ingot/internal/ordered"
)

// TestValuesThatReadRefuses: a value of a wrong kind is refused with its key, however deep it is.
func TestValuesThatReadRefuses(t *testing.T) {
	t.Parallel()
	filter := func(settings string) string { return "filter_list: [{name: f, filter: [{" + settings + "}]}]" }
	for text, says := range map[string]string{
		filter("function: multi_choice_regex, regex_pattern: '('"):                            `filter_list: filter "multi_choice_regex" of "f": regular expression "("`,
		filter("function: multi_choice_regex, regex_pattern: a, regexes_to_ignore: [b, '(']"): `regular expression "("`,
		"filter_list: 5":   "filter_list: yaml: ",
		"output_type: [a]": "output_type: yaml: ",
		"output_type: multiple_choice\ndoc_to_choice: {a: .nan}":                  "doc_to_choice: json: unsupported value: NaN",
		"doc_to_choice: !!int x":                                                  "doc_to_choice: yaml: ",
		"num_fewshot: !function utils.f":                                          `num_fewshot: the Python function "utils.f" is not supported`,
		"process_docs: 5":                                                         "process_docs: the value must be a Python function (!function module.name)",
		"process_results: [a]":                                                    "process_results: the value must be a Python function",
		"aggregate_metric_list: []":                                               "aggregate_metric_list: the file is a group of tasks, not a task",
		"metadata: [1]":                                                           "metadata: yaml: ",
		"data: [a]":                                                               "data: yaml: ",
		"fewshot_config: {sampler: random}":                                       `fewshot_config: sampler: "random" is not supported`,
		"fewshot_config: {samples: 5}":                                            "fewshot_config: samples: the value must be a list of rows",
		"fewshot_config: {samples: [{a: b}, 1]}":                                  "each element must be a row: a mapping from columns to values",
		"fewshot_config: {samples: [{a: .nan}]}":                                  "json: unsupported value: NaN",
		"fewshot_config: {samples: [!!int x]}":                                    "fewshot_config: samples: yaml: ",
		"generation_kwargs: {temperature: warm}":                                  "generation_kwargs: temperature: yaml: ",
		"generation_kwargs: {choices: {a: b}}":                                    "generation_kwargs: choices: yaml: ",
		"generation_kwargs: {until: {a: b}}":                                      "generation_kwargs: until: yaml: ",
		"generation_kwargs: {max_gen_toks: 0}":                                    "max_gen_toks is 0",
		"dataset_kwargs: {data_files: {a: x.jsonl, b: {c: d}}}":                   "dataset_kwargs: yaml: ",
		"judge: {rubric: r}":                                                      `"judge" is set, but the task is of type generate_until: remove "judge", or change the type to judge`,
		"judge: 5":                                                                "judge: yaml: ",
		"judge: {rubric: r, banana: 1, apple: 2}":                                 `judge: the key "apple" is not supported`,
		"doc_to_text: '{{ 2 ** 3 }}'":                                             "doc_to_text: template:1:6: the operator ** is not supported in templates of tasks",
		"judge: {rubric: '{{ 2 ** 3 }}'}":                                         "rubric:1:6: the operator ** is not supported in rubrics",
		"judge: {rubric: '{{'}":                                                   "judge: rubric: ",
		"judge: {rubric: r, score: '('}":                                          `judge: score: regular expression "("`,
		"judge: {rubric: r, range: [1, 2, 3]}":                                    "judge: range must be",
		"judge: {rubric: r, range: [1, 1]}":                                       "judge: range must be",
		"judge: {rubric: r, max_gen_toks: 0}":                                     "max_gen_toks at least 1",
		"chat: true\noutput_type: loglikelihood":                                  `a task of type loglikelihood scores log-probabilities of a prompt, which chats do not return: remove "chat"`,
		"metric_list: 5":                                                          "metric_list: the value must be a list of metrics",
		"metric_list: [!function utils.f]":                                        "metric_list: the value must be a mapping",
		"metric_list: [{metric: pass@x}]":                                         `metric "pass@x" of type generate_until is not supported`,
		"metric_list: [{metric: pass@k, k: 0}]":                                   "metric_list: k is 0: it must be at least 1",
		"metric_list: [{metric: pass@k, k: many}]":                                "metric_list: k: yaml: ",
		"metric_list: [{metric: pass@k, k: {a: 1}}]":                              "metric_list: k: yaml: ",
		"metric_list: [{metric: exact_match, regexes_to_ignore: 5}]":              "metric_list: regexes_to_ignore: yaml: ",
		"metric_list: [{metric: exact_match, regexes_to_ignore: ['(']}]":          `metric_list: regexes_to_ignore: regular expression "("`,
		"metric_list: [{metric: exact_match, ignore_case: [1]}]":                  "metric_list: ignore_case: yaml: ",
		"metric_list: [{metric: exact_match, higher_is_better: [1]}]":             "metric_list: higher_is_better: yaml: ",
		"metric_list: [{metric: exact_match, aggregation: !function utils.mean}]": `the Python function "utils.mean" is not supported`,
		"metric_list: [{metric: exact_match, check: contains}]":                   `metric "exact_match": check "contains" is not possible`,
		"metric_list: [{metric: pass@1, check: pass@k}]":                          `metric "pass@1": check "pass@k" is not possible`,
		"metric_list: [{metric: pass@1, check: acc}]":                             `metric "pass@1": check "acc" is not possible`,
		"metric_list: [{metric: json_match, fields: {a: b}}]":                     "metric_list: fields: yaml: ",
		"metric_list: [{metric: json_match, fields: [a, '']}]":                    "metric_list: fields: the name of a field is empty",
		"metric_list: [{metric: json_schema, schema: broken.json}]":               "metric_list: schema: it is not JSON: ",
		"metric_list: [{metric: json_schema, schema: none.json}]":                 "metric_list: schema: read its file: ",
		"metric_list: [{metric: json_schema, schema: {a: .nan}}]":                 "metric_list: schema: convert it from YAML to JSON: ",
		"metric_list: [{metric: json_schema, schema: [!!int x]}]":                 "metric_list: schema: convert it from YAML to JSON: ",
		"output_type: multiple_choice\ndoc_to_choice: [a]\nmetric_list: [{metric: acc, average: x}, {metric: exact_match, hf_evaluate: true}, {metric: rouge}]": `metric "rouge" of type multiple_choice`,
		"include: none.yaml": "none.yaml",
		"include: ''":        "include: the value must be the path of a file",
	} {
		folder := t.TempDir()
		path := filepath.Join(folder, "task.yaml")
		require.NoError(t, os.WriteFile(filepath.Join(folder, "broken.json"), []byte("{"), 0o600))
		require.NoError(t, os.WriteFile(path, []byte(plainTask+text), 0o600))
		_, err := Read(path)
		require.ErrorContains(t, err, says, text)
		require.ErrorContains(t, err, "read task")
		if !strings.HasPrefix(says, "none.yaml") {
			require.ErrorContains(t, err, path, text)
		}
	}
}

// TestValuesThatReadAccepts: settings without an effect are ignored, and others are as given.
func TestValuesThatReadAccepts(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := filepath.Join(folder, "task.yaml")
	require.NoError(t, os.WriteFile(path, []byte(`task: a
tag: !function utils.tags
task_alias: b
dataset_name: c
metadata: &settings {version: 1.5, temperature: 1, other: x}
data: sub/rows.jsonl
fewshot_data: /shots.jsonl
description: "Say {{x}}."
doc_to_text: x
doc_to_target: y
process_docs: null
target_delimiter: "-"
fewshot_delimiter: "+"
num_fewshot: 2
fewshot_config: {seed: 7, same: topic, split: dev, sampler: default, doc_to_text: "T{{x}}", doc_to_target: "A{{y}}", gen_prefix: "P:", target_delimiter: ">", fewshot_delimiter: "<"}
repeats: 3
training_split: train
validation_split: validation
test_split: test
cluster: topic
margin: 0.25
fewshot_as_multiturn: false
gen_prefix: "G:"
metric_list:
- {metric: exact_match, aggregation: mean, higher_is_better: false, weight_by_size: true, ignore_case: true}
- {metric: pass@k}
- {metric: pass@k, k: 3, check: contains}
- {metric: ter}
- {metric: bleu, aggregation: bleu}
`), 0o600))
	task := read(t, path)
	require.Equal(t, []any{"a", "1.5", Generate, filepath.Join(folder, "sub", "rows.jsonl"), "/shots.jsonl", "-", "+", 2, uint64(7), "topic", "dev", 3, "topic", 0.25, false, true},
		[]any{task.Name, task.Version, task.Type, task.Data, task.FewShotData, task.TargetDelimiter, task.ShotDelimiter, task.Shots, task.ShotSeed, task.ShotColumn, task.Splits.Shots,
			task.Repeats, task.Cluster, task.Margin, task.Multiturn, task.convert == nil})
	require.Equal(t, Splits{"train", "validation", "test", "dev"}, task.Splits)
	require.False(t, task.ShotsInOrder)
	require.Equal(t, []string{"+"}, task.Generation.Until, "by default, an answer ends where an example would")
	require.Equal(t, []string{"exact_match mean", "pass@1 mean", "pass@3 mean", "ter ter", "bleu bleu"}, names(task.Metrics))
	var higher []bool
	for _, m := range task.Metrics {
		higher = append(higher, m.HigherBetter)
	}
	require.Equal(t, []bool{false, true, true, false, true}, higher)
	p, err := task.Prompt(parse(t, []byte(`{"x": "1", "y": "2"}`)), []*ordered.Object{parse(t, []byte(`{"x": "3", "y": "4"}`))})
	require.NoError(t, err)
	require.Equal(t, "Say 1.T3>P: A4<1-G:", p.Context)
	require.Equal(t, []string{"2"}, p.Targets)

	require.InDelta(t, 1, written(t, plainTask+"metadata: &g {temperature: 1}\ngeneration_kwargs: *g").Generation.Temperature, 0, "a YAML alias")
	for _, c := range []struct{ settings, until string }{{"fewshot_delimiter: '|'", "|"}, {"generation_kwargs: {until: [a]}", "a"}, {"generation_kwargs: {until: []}", ""}, {"output_type: loglikelihood", ""}} {
		require.Equal(t, c.until, strings.Join(written(t, plainTask+c.settings).Generation.Until, ","), c.settings)
	}
	for _, c := range []struct{ of, names string }{
		{"", "exact_match mean"}, {"output_type: multiple_choice\ndoc_to_choice: [a]", "acc mean,acc_norm mean"}, {"output_type: loglikelihood", "perplexity perplexity,acc mean"},
		{"output_type: loglikelihood_rolling", "word_perplexity weighted_perplexity,byte_perplexity weighted_perplexity,bits_per_byte bits_per_byte"},
		{"output_type: judge\njudge: {rubric: r}", "judge_score mean"},
	} {
		require.Equal(t, c.names, strings.Join(names(written(t, plainTask+c.of).Metrics), ","))
	}
	for _, c := range []struct {
		settings string
		first    bool
	}{{"", true}, {"repeats: 2\nmetric_list: [{metric: exact_match}, {metric: pass@2}]", false}, {"output_type: judge\njudge: {rubric: r}", false}} {
		got := apply(t, &written(t, plainTask+c.settings).Filters[0], []string{"a", "b"}, nil)
		require.Equal(t, c.first, len(got) == 1, "metrics of several answers get all of them")
	}
	largest := "#" + strings.Repeat("x", maxFile-len(plainTask)-1)
	require.Equal(t, "a", written(t, plainTask+largest).Name)
	require.NoError(t, os.WriteFile(path, []byte(plainTask+largest+"x"), 0o600))
	_, err = Read(path)
	require.ErrorContains(t, err, "it must be a file of at most 1048576 bytes")
	require.Equal(t, strings.Repeat("n", maxName), written(t, "task: "+strings.Repeat("n", maxName)+"\ndoc_to_text: x\ndoc_to_target: y\n").Name)
	for _, text := range []string{"", "a", "a: b\n---\nc: d"} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, err = Read(path)
		require.ErrorContains(t, err, "read task "+path)
	}
	_, err = Read("none/task")
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NotContains(t, err.Error(), "built-in")
}

// TestMarginsAndRepeats: the limits belong to the allowed values.
func TestMarginsAndRepeats(t *testing.T) {
	t.Parallel()
	for _, settings := range []string{"margin: 0", "margin: 1", "repeats: 1", "repeats: 128", "num_fewshot: 0", "generation_kwargs: {max_gen_toks: 1}", "output_type: judge\njudge: {rubric: r, max_gen_toks: 1, range: [-1, 0]}"} {
		written(t, plainTask+settings)
	}
	path := filepath.Join(t.TempDir(), "task.yaml")
	require.NoError(t, os.WriteFile(path, []byte(plainTask+"margin: 1.01"), 0o600))
	_, err := Read(path)
	require.ErrorContains(t, err, "margin is 1.01")
}

// TestIncludes: a file has the keys of the files that it includes, and its own ones go first. Paths
// in it start at the folder of the including file.
func TestIncludes(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for name, text := range map[string]string{
		"sub/base.yaml":        "task: base\ndoc_to_text: x\ndoc_to_target: y\nmargin: 0.5\ndata: rows.jsonl\ninclude: deeper/last.yaml\n",
		"sub/deeper/last.yaml": "num_fewshot: 3\nmargin: 0.75\ncluster: c\n",
		"task.yaml":            "include: sub/base.yaml\ntask: own\n",
		"a.yaml":               "include: b.yaml\n",
		"b.yaml":               "include: a.yaml\n",
	} {
		path := filepath.Join(folder, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	task := read(t, filepath.Join(folder, "task.yaml"))
	require.Equal(t, []any{"own", 0.5, 3, "c", filepath.Join(folder, "rows.jsonl")}, []any{task.Name, task.Margin, task.Shots, task.Cluster, task.Data})
	_, err := Read(filepath.Join(folder, "a.yaml"))
	require.ErrorContains(t, err, "a.yaml: the file includes itself")
}

// TestNumbersWithoutJSON: a row may have a number that JSON lacks.
func TestNumbersWithoutJSON(t *testing.T) {
	t.Parallel()
	row := ordered.NewObject()
	row.Set("x", math.Inf(1))
	require.Equal(t, "map[x:+Inf]", RowKey(row))
	_, err := read(t, "ifeval").Prompt(row, nil)
	require.Error(t, err)
	require.ErrorContains(t, readInstructions(row, new(Prompt)), "unsupported value: +Inf")
	require.Empty(t, Response{}.Answer())
	require.Equal(t, "a", Response{Answers: []string{"a", "b"}}.Answer())
}

// TestFunctionsWithoutPython: a task that needs python3 is refused if there is none. One whose
// functions Ingot has does not need it, unless the task has them in a file and some of their scores
// are not the harness's.
func TestFunctionsWithoutPython(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	folder := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(folder, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	of := func(task, rest string) string {
		return "task: " + task + "\ndoc_to_text: x\ndoc_to_target: y\nprocess_results: !function " + rest
	}
	for text, says := range map[string]string{
		of("own", "mine.process_results"):                                                       `run the Python function "mine.process_results": python3 is not installed, or not in PATH`,
		of("own", "none.process_results"):                                                       `run the Python function "none.process_results": python3 is not installed`,
		of("ifeval", "mine.process_results"):                                                    `python3 is not installed`,
		of("own", "mine.process_results\nprocess_docs: !function mine.docs"):                    `run the Python functions "mine.docs", "mine.process_results": python3 is not installed`,
		of("ifeval", "utils.process_results\nmetric_list: [{metric: prompt_level_strict_acc}]"): "",
		of("truthfulqa_gen", "utils.process_results_gen\nmetric_list: [{metric: bleu_acc}]"):    "",
	} {
		write("mine.py", "def process_results(doc, results): return {}\n")
		_, err := ReadTrusted(write("task.yaml", text), &taskcode.Process{})
		if says == "" {
			require.NoError(t, err, text)
		} else {
			require.ErrorContains(t, err, says, text)
		}
	}
	write("utils.py", "def process_results(doc, results): return {}\n")
	_, err := ReadTrusted(write("task.yaml", of("ifeval", "utils.process_results\nmetric_list: [{metric: prompt_level_strict_acc}]")), &taskcode.Process{})
	require.ErrorContains(t, err, "python3 is not installed", "checks of instructions are partly not the harness's")
	_, err = ReadTrusted(write("task.yaml", of("truthfulqa_gen", "utils.process_results_gen\nmetric_list: [{metric: bleu_acc}]")), &taskcode.Process{})
	require.NoError(t, err)
	_, err = Read(write("task.yaml", of("own", "mine.process_results")))
	require.ErrorIs(t, err, ErrUnsupported)
	require.ErrorContains(t, err, "--trust-task-code runs it with python3")
	_, err = Read(write("task.yaml", of("drop_2", "utils.process_results")))
	require.ErrorIs(t, err, ErrUnsupported, "a function is known by the whole name of the task")
}

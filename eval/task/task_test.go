package task

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/internal/ordered"
)

// harness returns the folder of task files of lm-evaluation-harness, or skips the test.
func harness(t *testing.T) string {
	t.Helper()
	folder := os.Getenv("INGOT_VECTORS")
	if folder == "" {
		t.Skip("task files of lm-evaluation-harness are not tested: set INGOT_VECTORS to the folder that holds lm-eval/")
	}
	return filepath.Join(folder, "lm-eval")
}

// recorded holds prompts of the harness. record.py, in the folder of the file, has recorded them.
type recorded map[string]struct {
	File  string `json:"file"`
	Type  Type   `json:"output_type"`
	Cases []struct {
		Row           json.RawMessage `json:"row"`
		Shots         int             `json:"shots"`
		Context       string          `json:"context"`
		Continuations []string        `json:"continuations"`
		Until         any             `json:"until"`
		Target        any             `json:"target"`
	} `json:"cases"`
}

func parse(t *testing.T, text []byte) *ordered.Object {
	t.Helper()
	v, err := ordered.ParseJSON(text)
	require.NoError(t, err)
	return v.(*ordered.Object)
}

// TestPromptsOfTheHarness compares contexts, continuations, stop strings and right answers of
// twelve tasks with those of the harness, with and without examples.
func TestPromptsOfTheHarness(t *testing.T) {
	t.Parallel()
	folder := harness(t)
	var all recorded
	text, err := os.ReadFile(filepath.Join(folder, "expected.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &all))
	require.Len(t, all, 12)
	for name, want := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			task, err := Read(filepath.Join(folder, want.File))
			require.NoError(t, err)
			require.Equal(t, want.Type, task.Type)
			var rows []*ordered.Object
			f, err := os.ReadFile(filepath.Join(folder, "rows", name+".jsonl"))
			require.NoError(t, err)
			for d := json.NewDecoder(bytes.NewReader(f)); d.More(); {
				var line json.RawMessage
				require.NoError(t, d.Decode(&line))
				rows = append(rows, parse(t, line))
			}
			require.NotEmpty(t, want.Cases)
			for _, c := range want.Cases {
				p, err := task.Prompt(parse(t, c.Row), rows[:c.Shots])
				require.NoError(t, err)
				require.Equal(t, c.Context, p.Context)
				switch task.Type {
				case MultipleChoice:
					require.Equal(t, c.Continuations, p.Choices)
					require.Equal(t, c.Continuations[p.Right], task.TargetDelimiter+right(c.Target, c.Continuations, task.TargetDelimiter))
				case LogLikelihood:
					require.Equal(t, c.Continuations, p.Choices)
				case Generate:
					require.Equal(t, textsOf(c.Target), p.Targets)
					require.Equal(t, textsOf(c.Until), task.Generation.Until)
				}
			}
		})
	}
}

// Of equal keys of a mapping, the last one counts, as in the harness.
func TestKeysTwice(t *testing.T) {
	t.Parallel()
	task := written(t, "task: a\ndoc_to_text: x\ndoc_to_target: y\ndoc_to_text: z\ngeneration_kwargs: {temperature: 0, until: [a], temperature: 1}\n"+
		"metric_list: [{metric: contains, metric: exact_match, ignore_case: false, ignore_case: true}]")
	require.Equal(t, "z", task.Text.source)
	require.InDelta(t, 1, task.Generation.Temperature, 0)
	require.Equal(t, []string{"a"}, task.Generation.Until)
	require.Len(t, task.Metrics, 1)
	require.Equal(t, "exact_match", task.Metrics[0].Name)
	require.True(t, task.Metrics[0].ignoreCase)
}

// A task can include several files, of which the last one counts.
func TestSeveralIncludes(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for name, text := range map[string]string{"a.yaml": "doc_to_text: x\nnum_fewshot: 3\ndescription: d", "b.yaml": "doc_to_text: y\nnum_fewshot: 2"} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	task := written(t, fmt.Sprintf("task: a\ndoc_to_target: t\nnum_fewshot: 1\ninclude: [%s/a.yaml, %s/b.yaml]\n", folder, folder))
	require.Equal(t, "y", task.Text.source)
	require.Equal(t, "d", task.Description.source)
	require.Equal(t, 1, task.Shots)
}

// The path of an included file may be absolute.
func TestIncludeOfAnAbsolutePath(t *testing.T) {
	t.Parallel()
	shared := filepath.Join(t.TempDir(), "shared.yaml")
	require.NoError(t, os.WriteFile(shared, []byte("doc_to_text: x\ndoc_to_target: y\n"), 0o600))
	require.Equal(t, "a", written(t, "task: a\ninclude: "+shared+"\n").Name)
}

func TestPromptRefusesAnEmptyListOfTargets(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "task.yaml")
	require.NoError(t, os.WriteFile(path, []byte("task: a\noutput_type: loglikelihood\ndoc_to_text: text\ndoc_to_target: answers\n"), 0o600))
	task, err := Read(path)
	require.NoError(t, err)
	_, err = task.Prompt(parse(t, []byte(`{"text": "a", "answers": []}`)), nil)
	require.ErrorContains(t, err, "doc_to_target: the list is empty")
}

// right returns the continuation that target names by its number or text.
func right(target any, continuations []string, delimiter string) string {
	if n, ok := target.(float64); ok {
		return continuations[int(n)][len(delimiter):]
	}
	return target.(string)
}

func textsOf(v any) []string {
	if s, ok := v.(string); ok {
		return []string{s}
	}
	var list []string
	for _, each := range v.([]any) {
		list = append(list, each.(string))
	}
	return list
}

func TestReadRefuses(t *testing.T) {
	t.Parallel()
	const base = "task: a\ndoc_to_text: x\ndoc_to_target: y\n"
	for name, c := range map[string]struct{ text, says string }{
		"no name":            {"doc_to_text: a\ndoc_to_target: b", `the key "task", the name of the task, is missing`},
		"no choices":         {base + "output_type: multiple_choice", `"doc_to_choice" is missing`},
		"no text":            {"task: a\ndoc_to_target: b", `"doc_to_text" or "doc_to_target" is missing`},
		"unknown key":        {base + "doc_to_image: z", "4: doc_to_image: the key is not supported"},
		"unknown type":       {base + "output_type: dance", `output_type: type "dance" is not supported`},
		"unknown filter":     {base + "filter_list: [{name: f, filter: [{function: sing}]}]", `filter "sing" of "f": not supported`},
		"unknown metric":     {base + "metric_list: [{metric: meteor}]", `metric "meteor" of type generate_until is not supported`},
		"other aggregation":  {base + "metric_list: [{metric: exact_match, aggregation: median}]", `aggregation "median" of metric "exact_match" is not supported`},
		"template":           {"task: a\ndoc_to_target: b\ndoc_to_text: '{{ x'", "doc_to_text: "},
		"regular expression": {base + "filter_list: [{name: f, filter: [{function: regex, regex_pattern: '('}]}]", `regular expression "("`},
		"generation setting": {base + "generation_kwargs: {num_beams: 4}", "generation_kwargs: num_beams: a search with 4 beams is not supported"},
		"no form":            {base + "generation_kwargs: {choices: []}", "choices: the list is empty"},
		"two forms":          {base + "generation_kwargs: {choices: [a], regex: b}", `generation_kwargs has "choices" and "regex": give one`},
		"form of a score":    {base + "output_type: loglikelihood\ngeneration_kwargs: {regex: b}", "a task of type loglikelihood generates no answers"},
		"group":              {base + "group: g", "the file is a group of tasks"},
		"Python function":    {base + "process_docs: !function utils.change", `the Python function "utils.change" is not supported`},
		"field function":     {"task: a\ndoc_to_target: b\ndoc_to_text: !function utils.text", `the Python function "utils.text" is not supported`},
		"metric function":    {base + "metric_list: [{metric: !function utils.score}]", `the Python function "utils.score" is not supported`},
		"metric's mean":      {base + "metric_list: [{metric: exact_match, averaged: weighted}]", `setting "averaged" of a metric is not supported`},
		"metric setting":     {base + "metric_list: [{metric: exact_match, hf_evaluate: true}]", `hf_evaluate: this setting of a metric of type generate_until is not supported`},
		"filter setting":     {base + "filter_list: [{name: f, filter: [{function: regex, flags: i}]}]", `filter "regex" of "f": the setting "flags" is not supported`},
		"settings alone":     {base + "generation_kwargs: 5", "generation_kwargs: the value must be a mapping"},
		"list of settings":   {base + "fewshot_config: [sampler, first_n]", "fewshot_config: the value must be a mapping"},
		"metric alone":       {base + "metric_list: [exact_match]", "metric_list: the value must be a mapping"},
		"no answers":         {base + "filter_list: [{name: f, filter: [{function: take_first_k}]}]", `filter "take_first_k" of "f": k is 0`},
		"fewer answers":      {base + "filter_list: [{name: f, filter: [{function: take_first_k, k: -1}]}]", "k is -1, but must be at least 1"},
		"example setting":    {base + "fewshot_config: {process_docs: x}", "fewshot_config: process_docs: the key is not supported"},
		"pass@k":             {base + "repeats: 2\nmetric_list: [{metric: pass@k, k: [1, 5]}]", `metric "pass@5" needs 5 answers to each row, but "repeats" is 2`},
		"check":              {base + "metric_list: [{metric: pass@1, check: bleu}]", `check "bleu"`},
		"schema":             {base + "metric_list: [{metric: json_schema}]", `needs the setting "schema"`},
		"wrong schema":       {base + "metric_list: [{metric: json_schema, schema: {type: 7}}]", "schema: it cannot be used: "},
		"schema of a device": {base + "metric_list: [{metric: json_schema, schema: /dev/zero}]", "/dev/zero: it must be a file"},
		"fetched schema":     {base + "metric_list: [{metric: json_schema, schema: {$ref: 'http://127.0.0.1:9/x.json'}}]", "write that schema into this one"},
		"judge":              {base + "output_type: judge", `"judge" is missing`},
		"rubric":             {base + "output_type: judge\njudge: {range: [1, 5]}", `"rubric", the prompt of the judge, is missing`},
		"range":              {base + "output_type: judge\njudge: {rubric: r, range: [5, 1]}", "range must be"},
		"range of NaN":       {base + "output_type: judge\njudge: {rubric: r, range: [.nan, 1]}", "range must be"},
		"endless range":      {base + "output_type: judge\njudge: {rubric: r, range: [0, .inf]}", "range must be"},
		"not YAML":           {"{", "read task"},
		"not keys":           {"- a", "the file is not a YAML mapping"},
		"included key":       {base + "include: shared-task.yaml", "shared-task.yaml:2: doc_to_image: the key is not supported"},
		"a filter twice":     {base + "filter_list: [{name: f, filter: []}, {name: g, filter: []}, {name: f, filter: []}]", `filter_list: two filters have the name "f"`},
		"a metric twice":     {base + "metric_list: [{metric: exact_match}, {metric: contains}, {metric: exact_match, ignore_case: true}]", `metric "exact_match" occurs twice`},
		"no includes":        {base + "include: []", "task.yaml:4: include: the value must be the path of a file, or a list of paths"},
		"an empty include":   {base + "include: ''", "task.yaml:4: include: the value must be the path of a file, or a list of paths"},
		"several functions":  {"task: a\ndoc_to_target: !function utils.a\ndoc_to_text: !function utils.b", `the Python functions "utils.a", "utils.b" are not supported: --trust-task-code runs them with python3`},
		"humaneval": {base + "unsafe_code: true\nmetric_list: [{metric: !function utils.pass_at_k, k: [1]}]\nfilter_list: [{name: t, filter: [{function: custom, filter_fn: !function utils.build}]}]",
			`the Python functions "utils.build", "utils.pass_at_k" and programs that the model has written (unsafe_code) are not supported: --trust-task-code runs them with python3; the file "`},
		"one function and programs": {base + "unsafe_code: true\nmetric_list: [{metric: !function utils.a}]",
			`the Python function "utils.a" and programs that the model has written (unsafe_code) are not supported`},
		"a missing file":   {base + "process_docs: !function sub.utils.f", `sub/utils.py", which has the function "sub.utils.f", is missing: put it there`},
		"programs":         {base + "unsafe_code: true", "programs that the model has written (unsafe_code) are not supported: --trust-task-code runs them with python3"},
		"no temperature":   {base + "generation_kwargs: {temperature: .nan}", "generation_kwargs: temperature is NaN, but must be a number from 0 to 2"},
		"much temperature": {base + "generation_kwargs: {temperature: 2.5}", "temperature is 2.5, but must be a number from 0 to 2"},
		"top_p":            {base + "generation_kwargs: {top_p: -0.1}", "top_p is -0.1, but must be a number from 0 to 1"},
		"many stops":       {base + "generation_kwargs: {until: [" + strings.Repeat("a, ", 65) + "]}", "until has 65 texts, more than 64"},
		"many answers":     {base + "repeats: 129", "repeats is 129"},
		"no answer":        {base + "repeats: 0", "repeats is 0"},
		"includes itself":  {"include: task.yaml", "the file includes itself"},
		"negative shots":   {base + "num_fewshot: -1", "num_fewshot is -1"},
		"folder in a name": {"task: ../../a\ndoc_to_text: x\ndoc_to_target: y", `the name "../../a" must have at most 200 bytes`},
		"zero in a name":   {"task: \"a\\0\"\ndoc_to_text: x\ndoc_to_target: y", `the name "a\x00" must have`},
		"long name":        {"task: " + strings.Repeat("a", 201) + "\ndoc_to_text: x\ndoc_to_target: y", "must have at most 200 bytes"},
		"negative margin":  {base + "margin: -0.01", "margin is -0.01, but must be a number from 0 to 1"},
		"margin of NaN":    {base + "margin: .nan", "margin is NaN"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			path := filepath.Join(folder, "task.yaml")
			require.NoError(t, os.WriteFile(path, []byte(c.text), 0o600))
			require.NoError(t, os.WriteFile(filepath.Join(folder, "shared-task.yaml"), []byte("# of several tasks\ndoc_to_image: z\n"), 0o600))
			_, err := Read(path)
			require.ErrorContains(t, err, c.says)
			require.ErrorContains(t, err, "task.yaml")
		})
	}
	_, err := Read("arc_hard")
	require.ErrorContains(t, err, "neither a file nor a built-in task (the built-in tasks are arc_challenge, arc_easy")
	_, err = Read(t.TempDir())
	require.ErrorContains(t, err, "it must be a file of at most 1048576 bytes")
}

// TestRowsOfASubject checks which rows a task about one subject keeps, for each form of subjects in
// data sets.
func TestRowsOfASubject(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ function, column, kept, left string }{
		"mmmlu_sw_ke_virology":           {"process_virology", "Subject", "virology_test.csv_sw-KE.csv", "anatomy"},
		"mmmlu_en_college_biology":       {"process_college_biology", "Subject", "college_biology", "college_biology_2"},
		"global_mmlu_full_am_marketing":  {"process_marketing", "subject", "marketing", "Marketing 2"},
		"global_mmlu_ar_social_sciences": {"process_social_sciences", "subject_category", "Social Sciences", "STEM"},
		"include_base_44_greek_arts":     {"process_arts_humanities", "domain", "Arts & Humanities", "STEM"},
		"mmlu_de_llama_anatomy":          {"process_docs_anatomy", "subtask_name", "mmlu_de_chat.anatomy", "mmlu_de_chat.virology"},
		"mmlu_prox_de_computer_science":  {"process_computer_science", "category", "computer science", "law"},
	} {
		task := written(t, "task: "+name+"\ndoc_to_text: q\ndoc_to_target: a\nprocess_docs: !function utils."+c.function+"\n")
		rows, err := task.Rows([]*ordered.Object{NewRow(t, map[string]string{c.column: c.left}), NewRow(t, map[string]string{c.column: c.kept})})
		require.NoError(t, err)
		require.Len(t, rows, 1, name)
		kept, _ := rows[0].Get(c.column)
		require.Equal(t, c.kept, kept)
		_, err = task.Rows([]*ordered.Object{NewRow(t, map[string]string{"other": ""})})
		require.ErrorContains(t, err, "row 1: the row has no column", name)
	}
}

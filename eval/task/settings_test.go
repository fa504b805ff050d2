package task

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/ingot-run/ingot/internal/ordered"
)

// TestFilesOfSplits: data_files names the rows and, if they are in another split, the examples.
func TestFilesOfSplits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ settings, data, shots, says string }{
		{"dataset_path: json\ndataset_kwargs: {data_files: rows.jsonl}\ntest_split: train", "rows.jsonl", "", ""},
		{"dataset_path: json\ndataset_kwargs: {data_files: {test: a.jsonl, train: b.jsonl}}\ntest_split: test\ntraining_split: train", "a.jsonl", "b.jsonl", ""},
		{"dataset_path: json\ndataset_kwargs: {data_files: {test: [a.jsonl], dev: b.jsonl}}\ntest_split: test\nfewshot_split: dev", "a.jsonl", "b.jsonl", ""},
		{"dataset_path: jsonl\ndataset_kwargs: {data_files: {validation: a.jsonl}, trust_remote_code: true}\nvalidation_split: validation", "a.jsonl", "", ""},
		{"dataset_path: csv\ndataset_kwargs: {data_files: {test: a.csv}}\ntest_split: test", "", "", ""},
		{"dataset_path: json\ndataset_kwargs: {data_files: {test: 'https://x.org/a.jsonl'}}\ntest_split: test", "", "", ""},
		{"dataset_path: json\ndataset_kwargs: {data_files: {test: a.jsonl}}\ntest_split: test\ndata: own.jsonl", "own.jsonl", "", ""},
		{"dataset_path: json\ndataset_kwargs: {data_files: {test: a.jsonl, train: b.jsonl}}\ntest_split: test\ntraining_split: train\nfewshot_data: own.jsonl", "a.jsonl", "own.jsonl", ""},
		{"dataset_path: json\ndataset_kwargs: {data_files: {test: [a.jsonl, b.jsonl]}}", "", "", "a split must be one file"},
		{"dataset_path: json\ndataset_kwargs: {data_files: 'part-*.jsonl'}", "", "", "a split must be one file"},
		{"dataset_path: json\ndataset_kwargs: {data_files: {test: ''}}", "", "", "a split must be one file"},
		{"dataset_path: json\ndataset_kwargs: {data_files: {test: {a: b}}}", "", "", "cannot unmarshal"},
		{"dataset_path: json\ndataset_kwargs: rows.jsonl", "", "", "dataset_kwargs"},
	} {
		folder := t.TempDir()
		path := filepath.Join(folder, "task.yaml")
		require.NoError(t, os.WriteFile(path, []byte(plainTask+c.settings), 0o600))
		task, err := Read(path)
		if c.says != "" {
			require.ErrorContains(t, err, c.says, c.settings)
			continue
		}
		require.NoError(t, err, c.settings)
		for _, each := range []struct{ want, got string }{{c.data, task.Data}, {c.shots, task.FewShotData}} {
			if each.want != "" {
				each.want = filepath.Join(folder, each.want)
			}
			require.Equal(t, each.want, each.got, c.settings)
		}
	}
}

// TestSettingsOfGeneration: the limits of settings are those of requests.
func TestSettingsOfGeneration(t *testing.T) {
	t.Parallel()
	list := func(n int) string { return "until: [" + strings.TrimSuffix(strings.Repeat("a, ", n), ", ") + "]" }
	for settings, says := range map[string]string{
		"temperature: 2": "", "temperature: 2.01": "temperature is 2.01", "temperature: 0": "", "temperature: -0.1": "temperature is -0.1", "temperature: .nan": "temperature is NaN",
		"top_p: 1": "", "top_p: 1.1": "top_p is 1.1", "top_p: 0": "", "top_p: -1": "top_p is -1", list(64): "", list(65): "until has 65 texts",
		"num_beams: 1": "", "num_beams: 4": "num_beams: a search with 4 beams is not supported", "choices: [a]": "", "choices: []": "the list is empty", "regex: a": "", "choices: [a], regex: b": `"choices" and "regex"`, "beams: 2": "beams",
	} {
		path := filepath.Join(t.TempDir(), "task.yaml")
		require.NoError(t, os.WriteFile(path, []byte(plainTask+"generation_kwargs: {"+settings+"}"), 0o600))
		_, err := Read(path)
		if says == "" {
			require.NoError(t, err, settings)
		} else {
			require.ErrorContains(t, err, says, settings)
		}
	}
	g := written(t, plainTask+"generation_kwargs: {max_gen_toks: 7, temperature: 0.5, top_p: 0.25, top_k: 3, seed: 9, until: end, do_sample: true, choices: [a, b]}").Generation
	require.Equal(t, "[[end] 7 0.5 0.25 3 9 [a b] ]", fmt.Sprint([]any{g.Until, g.MaxTokens, g.Temperature, g.TopP, g.TopK, *g.Seed, g.Choices, g.Regex}))
	for _, name := range []string{"max_tokens", "max_new_tokens"} {
		require.Equal(t, 5, written(t, plainTask+"generation_kwargs: {"+name+": 5}").Generation.MaxTokens)
	}
}

// TestValuesOfFields: a field has the value of a column, a constant, or the text of a template.
func TestValuesOfFields(t *testing.T) {
	t.Parallel()
	row := parse(t, []byte(`{"q": "x", "n": 7}`))
	for _, c := range []struct {
		text     string
		want     any
		rendered bool
	}{{"q", "x", false}, {"n", int64(7), false}, {"'{{q}} {{n}}'", "x 7", true}, {"3", int64(3), false}, {"[a, 1]", []any{"a", 1}, false}, {"{k: v, l: w}", []any{"v", "w"}, false}} {
		var n yaml.Node
		require.NoError(t, yaml.Unmarshal([]byte(c.text), &n))
		var f Field
		require.True(t, f.Missing())
		require.NoError(t, f.read(n.Content[0]), c.text)
		require.False(t, f.Missing())
		v, rendered, err := f.value(row)
		require.NoError(t, err, c.text)
		require.Equal(t, fmt.Sprint(c.want), fmt.Sprint(v), c.text)
		require.Equal(t, c.rendered, rendered, c.text)
	}
	made := Field{function: func(*ordered.Object) (ordered.Value, error) { return "[7]", nil }}
	for want, f := range map[string]*Field{"": {}, "[7]": &made} {
		v, rendered, err := f.value(row)
		require.NoError(t, err)
		require.Equal(t, []any{want, false}, []any{v, rendered}, "what is no template is not parsed")
	}
	for text, says := range map[string]string{"1.5": "must be a text, a list or a whole number", "true": "must be a text", "'{{'": "template"} {
		var n yaml.Node
		require.NoError(t, yaml.Unmarshal([]byte(text), &n))
		require.ErrorContains(t, new(Field).read(n.Content[0]), says)
	}
}

// TestRowsWithoutAnAnswer: the error about a row names the field and the value.
func TestRowsWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	const choice = "task: a\noutput_type: multiple_choice\ndoc_to_choice: [no, yes]\n"
	const plain = "task: a\noutput_type: generate_until\n"
	for _, c := range []struct {
		settings, row, says string
		right               int
		shot                string // the error if the row is an example, if it is another one; "-" for none
	}{
		{choice + "doc_to_text: q\ndoc_to_target: t", `{"q": "x", "t": 1}`, "", 1, ""},
		{choice + "doc_to_text: q\ndoc_to_target: t", `{"q": "x", "t": "yes"}`, "", 1, ""},
		{choice + "doc_to_text: q\ndoc_to_target: t", `{"q": "x", "t": 2}`, "", -1, "doc_to_target: 2 is not the number of one of the 2 choices"},
		{choice + "doc_to_text: q\ndoc_to_target: t", `{"q": "x", "t": "maybe"}`, "", -1, "-"},
		{choice + "doc_to_text: q\ndoc_to_target: t", `{"q": "x", "t": null}`, "doc_to_target: None is neither the number nor the text of a choice", 0, ""},
		{choice + "doc_to_text: q\ndoc_to_target: t", `{"q": "x", "t": [1, null]}`, "doc_to_target: None is neither", 0, ""},
		{choice + "doc_to_text: q\ndoc_to_target: t", `{"q": "x", "t": [1, 0]}`, "", 1, ""},
		{choice + "doc_to_text: q\ndoc_to_target: t", `{"q": 1, "t": " end"}`, "", 1, ""},
		{choice + "doc_to_text: q\ndoc_to_target: t", `{"q": 2, "t": " end"}`, "doc_to_text: 2 is not the number of one of the 2 choices", 0, ""},
		{choice + "doc_to_text: q\ndoc_to_target: t", `{"q": -1, "t": " end"}`, "doc_to_text: -1 is not the number", 0, ""},
		{choice + "doc_to_text: '{{q}}'\ndoc_to_target: '{{t}}'", `{"q": "x", "t": "1"}`, "", 1, ""},
		{choice + "doc_to_text: '{{q}}'\ndoc_to_target: '{{t}}'", `{"q": "1", "t": " end"}`, "", 1, ""},
		{choice + "doc_to_text: '{{q}}'\ndoc_to_target: '{{t}}'", `{"q": "2", "t": " end"}`, "doc_to_text: 2 is not the number of one of the 2 choices", 0, ""},
		{plain + "doc_to_choice: [no, yes]\ndoc_to_text: q\ndoc_to_target: t", `{"q": "x", "t": 1}`, "", -1, ""},
		{plain + "doc_to_choice: [no, yes]\ndoc_to_text: q\ndoc_to_target: t", `{"q": "x", "t": 2}`, `doc_to_target: "2" is not the number of one of the 2 choices`, 0, ""},
		{plain + "doc_to_choice: [no, yes]\ndoc_to_text: q\ndoc_to_target: t", `{"q": "x", "t": "yes"}`, `doc_to_target: "yes" is not the number`, 0, ""},
		{plain + "doc_to_choice: c\ndoc_to_text: q\ndoc_to_target: t", `{"q": "x", "t": 0, "c": 7}`, "doc_to_choice: 7 is not a list", 0, ""},
		{plain + "doc_to_choice: c\ndoc_to_text: q\ndoc_to_target: t", `{"q": "x", "t": 0, "c": "['a'"}`, "doc_to_choice: \"['a'\" is not a list: ", 0, ""},
		{plain + "doc_to_choice: c\ndoc_to_text: q\ndoc_to_target: t", `{"q": "x", "t": 0}`, `doc_to_choice: the row has no column "c"`, 0, ""},
		{plain + "gen_prefix: p\ndoc_to_text: q\ndoc_to_target: t", `{"q": "x", "t": 0}`, `gen_prefix: the row has no column "p"`, 0, ""},
		{plain + "doc_to_text: q\ndoc_to_target: t", `{"q": "x", "t": []}`, "", -1, "doc_to_target: the list of accepted answers is empty"},
		{"task: a\noutput_type: loglikelihood\ndoc_to_text: q\ndoc_to_target: t", `{"q": "x", "t": []}`, "doc_to_target: the list is empty, but must have a text", 0, ""},
	} {
		task, row := written(t, c.settings), parse(t, []byte(c.row))
		p, err := task.Prompt(row, nil)
		_, errShot := task.example(row)
		if c.says != "" {
			require.ErrorContains(t, err, c.says, "%+v", c)
			require.ErrorContains(t, errShot, c.says, "%+v", c)
			continue
		}
		require.NoError(t, err, "%+v", c)
		require.Equal(t, c.right, p.Right, "%+v", c)
		if c.shot == "" || c.shot == "-" {
			require.NoError(t, errShot, "%+v", c)
		} else {
			require.ErrorContains(t, errShot, c.shot, "%+v", c)
		}
	}
}

// TestNull: a key without a value is as if it were missing, also if an included file has one.
func TestNull(t *testing.T) {
	t.Parallel()
	folder := files(t, map[string]string{
		"base.yaml": "doc_to_choice: [x, y]\nnum_fewshot: 3\nmetric_list: [{metric: contains}]\n",
		"task.yaml": plainTask + `include: base.yaml
doc_to_choice: null
num_fewshot: ~
metric_list:
description: null
process_docs: null
gen_prefix: null
fewshot_config: {doc_to_choice: null, sampler: null, seed: null}
generation_kwargs: {until: null, temperature: null}
`,
		"plain.yaml":   plainTask,
		"choices.yaml": plainTask + "output_type: multiple_choice\ndoc_to_choice: null\n",
		"unknown.yaml": plainTask + "banana: null\n",
	})
	got, err := Read(filepath.Join(folder, "task.yaml"))
	require.NoError(t, err)
	want, err := Read(filepath.Join(folder, "plain.yaml"))
	require.NoError(t, err)
	require.True(t, got.Choices.Missing())
	require.True(t, got.Shot.Choices.Missing())
	require.Equal(t, want.Metrics, got.Metrics)
	require.Equal(t, []any{want.Shots, want.ShotSeed, want.Generation}, []any{got.Shots, got.ShotSeed, got.Generation})
	_, err = Read(filepath.Join(folder, "choices.yaml"))
	require.ErrorContains(t, err, `"doc_to_choice" is missing`)
	_, err = Read(filepath.Join(folder, "unknown.yaml"))
	require.ErrorContains(t, err, "banana: the key is not supported")
}

package task

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/internal/ordered"
)

// written writes a task file and reads it with Read.
func written(t *testing.T, text string) *Task {
	t.Helper()
	path := filepath.Join(t.TempDir(), "task.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return read(t, path)
}

const plainTask = "task: a\ndoc_to_text: x\ndoc_to_target: y\n"

// The metric rouge gives the four of the package evaluate. Of several targets, the best one counts.
func TestMetricsOfRouge(t *testing.T) {
	t.Parallel()
	list := written(t, plainTask+"metric_list: [{metric: rouge, aggregation: mean, higher_is_better: true}]").Metrics
	require.Equal(t, []string{"rouge1 mean", "rouge2 mean", "rougeL mean", "rougeLsum mean"}, names(list))
	require.InDelta(t, 0.8, list[0].Score("the cat", []string{"a dog", "the cat sat"}), 1e-15)
}

func TestScores(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		metric, answer, target string
		score                  float64
	}{
		{"exact_match", "Paris", "Paris", 1},
		{"exact_match", "paris", "Paris", 0},
		{"exact_match, ignore_case: true, ignore_punctuation: true", "paris!", "Paris", 1},
		{"exact_match, regexes_to_ignore: ['the ']", "the end", "end", 1},
		{"contains", "It is Paris.", "Paris", 1},
		{"contains", "It is Rome.", "Paris", 0},
		{"contains", "It is Rome.", "", 0},
		{"contains", "", "", 0},
		{"rouge1", "The cat!", "the cat sat", 0.8},
		{"rouge2", "the cat sat on", "the cat sat", 0.8},
		{"rougeL", "cat the sat", "the cat sat", 2.0 / 3},
		{"rougeLsum", "the cat\nsat", "sat\nthe cat", 1},
		{"numeric_match", "so 1,204.0", "1204", 1},
		{"numeric_match", "12 then 13", "12", 0},
		{"json_valid", `{"a": 1}`, "", 1},
		{"json_valid", "```json\n[1, 2]\n```", "", 1},
		{"json_valid", `{"a": 1`, "", 0},
		{"json_valid", `{"a": 1} and more`, "", 0},
		{"json_schema, schema: {type: object, required: [name], properties: {name: {type: string, minLength: 2}}}", `{"name": "Al"}`, "", 1},
		{"json_schema, schema: {type: object, required: [name], properties: {name: {type: string, minLength: 2}}}", `{"name": "A"}`, "", 0},
		{"json_schema, schema: {type: object, required: [name]}", `{}`, "", 0},
		{"json_schema, schema: {type: object}", `not JSON`, "", 0},
		{"json_match", `{"b": [1, 2], "a": 1.0}`, `{"a": 1, "b": [1, 2]}`, 1},
		{"json_match", `{"a": 2, "b": [1, 2], "c": 3}`, `{"a": 1, "b": [1, 2]}`, 0.5},
		{"json_match", `{"a": "1"}`, `{"a": 1}`, 0},
		{"json_match", `nothing`, `{"a": 1}`, 0},
		{"json_match", `{"a": 9007199254740993}`, `{"a": 9007199254740992}`, 0},
		{"json_match", `{"a": 9007199254740993}`, `{"a": 9007199254740993}`, 1},
		{"json_match", `{"a": {"x": null}}`, `{"a": {"x": null}}`, 1},
		{"json_match", `{"a": 1}`, `not JSON`, 0},
		{"json_match", `[1, "2"]`, `[1.0, "2"]`, 1},
		{"json_match", `[1]`, `[1, 2]`, 0},
		{"json_match", `7`, `"7"`, 0},
		{"json_match", `0.5`, `5e-1`, 1},
		{"json_match", `0.5`, `0.25`, 0},
		{"json_match", `1e999`, `1e999`, 1},
		{"json_match", `1e999`, `2e999`, 0},
		{"json_match", `9007199254740993.0`, `9007199254740993`, 1},
		{"json_match", `{"a": {"x": 1}}`, `{"a": [1]}`, 0},
		{"json_match", `{"a": {"x": 1, "y": 2}}`, `{"a": {"x": 1}}`, 0},
		{"json_match", `{}`, `{}`, 1},
		{"json_match", `{"b": 1}`, `{"a": null}`, 0},
		{"json_match, fields: [a, z]", `{"a": 1}`, `{"a": 1}`, 1},
		{"json_match, fields: [b.-1, b.x, b.2]", `{"b": [0, 7]}`, `{"b": [0, 7, 8]}`, 2.0 / 3},
		{"json_match", "```Json\n{\"a\": 1}```", "```JSON{\"a\": 1}\n```", 1},
		{"json_match", "```\n{\"a\": 1}\n``` ", " ```json\n{\"a\": 1}\n```", 1},
		{"exact_match, ignore_numbers: true", "Paris 75", "Paris ", 1},
		{"exact_match, ignore_numbers: false", "Paris 75", "Paris ", 0},
		{"exact_match, ignore_case: 'false'", "paris", "Paris", 1},
		{"exact_match, ignore_case: ''", "paris", "Paris", 0},
		{"contains, ignore_punctuation: true, regexes_to_ignore: ['x+']", "It xxis P-a-ris.", "isPa ris", 0},
		{"contains, ignore_case: true", "IN PARIS", "Paris", 1},
		{"contains, ignore_punctuation: true", "It is Rome.", "...", 0},
		{"json_match, fields: [a.x, b.1]", `{"a": {"x": 5}, "b": [0, 7]}`, `{"a": {"x": 5, "y": 1}, "b": [1, 7]}`, 1},
		{"json_match, fields: [a.x, b.1]", `{"a": 5}`, `{"a": {"x": 5}, "b": [1, 7]}`, 0},
		{"pass@1, check: contains", "It is Paris.", "Paris", 1},
		{"pass@1", "It is Paris.", "Paris", 0},
	} {
		m := written(t, plainTask+"metric_list: [{metric: "+c.metric+"}]").Metrics[0]
		require.InDelta(t, c.score, m.Score(c.answer, []string{"another", c.target}), 1e-9, "%s: %q against %q", c.metric, c.answer, c.target)
	}
}

// TestPassAtK compares PassAtK with a count over all subsets of k of the n answers: the share of
// those that have a right answer.
func TestPassAtK(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 7; n++ {
		for right := range n + 1 {
			for k := 1; k <= n; k++ {
				with, all := 0, 0
				for set := range 1 << n {
					count, hit := 0, false
					for i := range n {
						if set>>i&1 == 1 {
							count++
							hit = hit || i < right
						}
					}
					if count == k {
						all++
						if hit {
							with++
						}
					}
				}
				require.InDelta(t, float64(with)/float64(all), PassAtK(n, right, k), 1e-12, "n %d, right %d, k %d", n, right, k)
			}
		}
	}
	task := written(t, plainTask+"repeats: 8\nmetric_list: [{metric: pass@k, k: [1, 8]}, {metric: pass@5}]")
	require.Equal(t, []string{"pass@1 mean", "pass@8 mean", "pass@5 mean"}, names(task.Metrics))
}

func TestJSONTargets(t *testing.T) {
	t.Parallel()
	task := written(t, "task: a\ndoc_to_text: x\ndoc_to_target: want\nmetric_list: [{metric: json_match}]")
	p, err := task.Prompt(parse(t, []byte(`{"x": "q", "want": {"b": "x", "a": [1, {"c": null}]}}`)), nil)
	require.NoError(t, err)
	require.JSONEq(t, `{"a": [1, {"c": null}], "b": "x"}`, p.Targets[0])
}

// TestFixedExamples checks examples that are written in the task file.
func TestFixedExamples(t *testing.T) {
	t.Parallel()
	task := written(t, `{task: a, doc_to_text: "Q: {{x}}", doc_to_target: "{{y}}", num_fewshot: 2, fewshot_config: {sampler: first_n, samples: [{x: 1, y: one}, {x: two, y: 2.5}]}}`)
	p, err := task.Prompt(parse(t, []byte(`{"x": "three", "y": "3"}`)), task.Examples)
	require.NoError(t, err)
	require.Equal(t, "Q: 1 one\n\nQ: two 2.5\n\nQ: three", p.Context)
}

// A switch of the harness may be off.
func TestSwitchesOfMetricsThatAreOff(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"average", "hf_evaluate"} {
		require.Len(t, written(t, plainTask+"metric_list: [{metric: exact_match, "+name+": false}]").Metrics, 1)
	}
}

func TestRubric(t *testing.T) {
	t.Parallel()
	task := written(t, "task: a\noutput_type: judge\ndoc_to_text: x\ndoc_to_target: y\n"+`judge: {range: [1, 5], rubric: "{{prompt}}|{{topic}}|{{target}}|{{answer}}"}`)
	row := parse(t, []byte(`{"x": "Ask", "y": "want", "topic": "t"}`))
	p, err := task.Prompt(row, nil)
	require.NoError(t, err)
	prompt, err := task.Rubric.Prompt(row, &p, "got")
	require.NoError(t, err)
	require.Equal(t, "Ask|t|want|got", prompt)
	p.Targets = nil
	prompt, err = task.Rubric.Prompt(row, &p, "got")
	require.NoError(t, err)
	require.Equal(t, "Ask|t||got", prompt, "there is no target")
	_, has := row.Get("answer")
	require.False(t, has, "the row itself is not changed")
	for judged, want := range map[string]float64{
		"Score: 5": 1, "Good.\nscore = 3": 0.5, "**Score:** 1": 0, "Score: 2, no: Score: 4.5": 0.875, "Score: 6": -1, "5": -1, "": -1,
	} {
		score, ok := task.Rubric.Score(judged)
		require.Equal(t, want >= 0, ok, judged)
		if ok {
			require.InDelta(t, want, score, 1e-9, judged)
		}
	}
	task = written(t, "task: a\noutput_type: judge\ndoc_to_text: x\n"+`judge: {range: [0, 1], score: '\[\[(\d)\]\]', rubric: r}`)
	score, ok := task.Rubric.Score("[[1]]")
	require.True(t, ok)
	require.InDelta(t, 1, score, 1e-9)
	task = written(t, "task: a\noutput_type: judge\ndoc_to_text: x\n"+`judge: {range: [0, 1], score: '(\S+)$', rubric: r}`)
	for _, judged := range []string{"NaN", "inf", "-inf", "1e999", "0x"} {
		_, ok = task.Rubric.Score(judged)
		require.False(t, ok, judged)
	}
}

func TestGroups(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for name, text := range map[string]string{
		"a.yaml":       "task: a\ntag: letters\ndoc_to_text: x\ndoc_to_target: y",
		"sub/b.yaml":   "task: b\ntag: [letters]\ndoc_to_text: x\ndoc_to_target: y",
		"sub/c.yaml":   "task: c\ndoc_to_text: x\ndoc_to_target: y",
		"other.yaml":   "not: [a task",
		"all.yaml":     "group: all\ntask: [letters, {task: inner, weight: 2}, gsm8k]\naggregate_metric_list: [{metric: acc, weight_by_size: false, filter_list: none}]",
		"inner.yaml":   "group: inner\ntask: [{task: c, weight: 3}]\naggregate_metric_list: [{metric: acc}]",
		"loop.yaml":    "group: loop\ntask: [again]",
		"again.yaml":   "group: again\ntask: [loop]",
		"none.yaml":    "group: none\ntask: [zebra]",
		"empty.yaml":   "group: empty",
		"zero.yaml":    "group: zero\ntask: []",
		"text.yaml":    "group: text\ntask: arc_easy",
		"strange.yaml": "group: strange\ntask: [a]\nbanana: 1",
		"nan.yaml":     "group: nan\ntask: [{task: a, weight: .nan}]",
		"inf.yaml":     "group: inf\ntask: [{task: a, weight: .inf}]",
		"paths.yaml":   "group: paths\ntask: [a]\naggregate_metric_list: [{metric: acc, filter_list: {a: b}}]",
		"metric.yaml":  "group: metric\ntask: [a]\naggregate_metric_list: acc",
		"heavy.yaml":   "group: heavy\ntask: [{task: a, weight: x}]",
		"weight.yaml":  "group: weight\ntask: [{weight: 2}]",
		"minus.yaml":   "group: minus\ntask: [{task: a, weight: 0}]",
		"named.yaml":   "group: [x]\ntask: [a]",
		"median.yaml":  "group: median\ntask: [a]\naggregate_metric_list: [{metric: acc, aggregation: median}]",
	} {
		path := filepath.Join(folder, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	tasks, groups, err := ReadAll([]string{filepath.Join(folder, "a.yaml"), filepath.Join(folder, "all.yaml")}, nil)
	require.NoError(t, err)
	var found []string
	for _, task := range tasks {
		found = append(found, task.Name)
	}
	require.Equal(t, []string{"a", "b", "c", "gsm8k"}, found, "each task is returned once")
	require.Equal(t, []Group{
		{Name: "inner", Members: []Member{{"c", 3}}, Children: []string{"c"}, Metrics: []GroupMetric{{Metric: "acc", BySize: true}}},
		{Name: "all", Members: []Member{{"a", 1}, {"b", 1}, {"c", 6}, {"gsm8k", 1}}, Children: []string{"a", "b", "inner", "gsm8k"}, Metrics: []GroupMetric{{Metric: "acc", Filters: []string{"none"}}}},
	}, groups)
	for name, says := range map[string]string{
		"loop.yaml": "the group contains itself", "none.yaml": `"zebra" is not a built-in task`, "strange.yaml": "banana: the key is not supported",
		"empty.yaml": `the key "task" is missing`, "zero.yaml": "zero.yaml:2: task: must be a list of tasks", "text.yaml": "text.yaml:2: task: must be a list of tasks",
		"median.yaml": `aggregation "median" is not supported`, "missing.yaml": "no such file",
		"nan.yaml": "a weight above 0", "inf.yaml": "a weight above 0", "minus.yaml": "a weight above 0", "weight.yaml": "the name of a task",
		"paths.yaml": "aggregate_metric_list: yaml: ", "metric.yaml": "aggregate_metric_list: yaml: ", "heavy.yaml": "heavy.yaml:2: task: yaml: ", "named.yaml": "group: yaml: ",
	} {
		_, _, err := ReadAll([]string{filepath.Join(folder, name)}, nil)
		require.ErrorContains(t, err, says)
	}
	_, _, err = ReadAll([]string{filepath.Join(folder, "a.yaml"), folder + "/sub/../a.yaml"}, nil)
	require.ErrorContains(t, err, "another task has the same name")
}

// TestObjects checks that the columns of an example in the task file may have values of any type.
func TestObjects(t *testing.T) {
	t.Parallel()
	task := written(t, plainTask+"fewshot_config: {samples: [{a: [1, x], b: {c: true}}]}")
	v, ok := task.Examples[0].Get("a")
	require.True(t, ok)
	require.Equal(t, []ordered.Value{int64(1), "x"}, v)
}

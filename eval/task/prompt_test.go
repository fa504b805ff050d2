package task

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/eval/taskcode"
	"github.com/ingot-run/ingot/internal/ordered"
)

// TestDescriptionsAndExamples: a description is a template or a column. Errors say what they are
// about.
func TestDescriptionsAndExamples(t *testing.T) {
	t.Parallel()
	row := parse(t, []byte(`{"x": "ask", "y": "answer", "d": "Do it: "}`))
	for _, c := range []struct{ settings, shot, context, says string }{
		{"description: d", "", "Do it: ask", ""},
		{"description: 'Now {{x}}: '", "", "Now ask: ask", ""},
		{"description: 'Plain. '", "", "Plain. ask", ""},
		{"description: ''", "", "ask", ""},
		{"description: '{{z}}'", "", "", "description: template:1:1: 'z' is undefined"},
		{"", `{"x": "1"}`, "", `make an example for the row from another row: doc_to_target: the row has no column "y"`},
		{"fewshot_config: {doc_to_text: z}", `{"x": "1", "y": "2"}`, "", `make an example for the row from another row: doc_to_text: the row has no column "z"`},
		{"fewshot_config: {doc_to_target: z}", `{"x": "1", "y": "2", "z": "3"}`, "1 3\n\nask", ""},
		{"fewshot_config: {fewshot_delimiter: ''}", `{"x": "1", "y": "2"}`, "1 2ask", ""},
		{"fewshot_config: {target_delimiter: ''}", `{"x": "1", "y": "2"}`, "12\n\nask", ""},
		{"fewshot_config: {gen_prefix: z}", `{"x": "1", "y": "2", "z": "so"}`, "1 so 2\n\nask", ""},
	} {
		task := written(t, plainTask+c.settings)
		var shots []*ordered.Object
		if c.shot != "" {
			shots = append(shots, parse(t, []byte(c.shot)))
		}
		p, err := task.Prompt(row, shots)
		if c.says != "" {
			require.ErrorContains(t, err, c.says, c.settings)
			continue
		}
		require.NoError(t, err, c.settings)
		require.Equal(t, c.context, p.Context, c.settings)
		require.Same(t, row, p.Row())
		require.Equal(t, c.context, p.ContextOf(7))
	}
	p, err := read(t, "winogrande").Prompt(parse(t, []byte(`{"sentence": "The _ is cold.", "option1": "sun", "option2": "moon", "answer": "2"}`)), nil)
	require.NoError(t, err)
	require.Equal(t, []string{"The sun", "The moon"}, []string{p.ContextOf(0), p.ContextOf(1)})
	require.Equal(t, 1, p.Right)
}

// TestTurns: the spaces between question, beginning of the answer and answer.
func TestTurns(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		question, answer, prefix string
		text                     string
		roles                    int
	}{
		{"Q", "", "", "Q", 1}, {"Q", "A", "", "Q_A|", 2}, {"", "A", "", "_A|", 2}, {"Q", "", "P", "Q_P", 2}, {"Q", "A", "P", "Q_P A|", 2}, {"Q ", "A", "P", "Q P A|", 2},
		{"Q", "A", "P ", "Q_P A|", 2}, {"Q", " A", "P", "Q_P A|", 2}, {"Q", "", " P", "Q P", 2}, {"", "A", "P", "P A|", 2}, {"", "", "P", "P", 2},
	} {
		list := turn(c.question, c.answer, c.prefix, "_", "|")
		require.Equal(t, c.text, join(list), "%+v", c)
		require.Len(t, list, c.roles, "%+v", c)
	}
	examples := []Message{{"system", "S", ""}, {"user", "1", "_"}, {"assistant", "2", "|"}, {"user", "3", "_"}}
	for _, c := range []struct {
		messages []Message
		want     []Message
	}{
		{examples, []Message{{"system", "S", ""}, {"user", "1_2|3", ""}}},
		{append(examples[1:4:4], Message{"assistant", "P", ""}), []Message{{"user", "1_2|3", ""}, {"assistant", "P", ""}}},
		{examples[3:], []Message{{"user", "3", ""}}},
		{examples[:1], []Message{{"system", "S", ""}, {"user", "", ""}}},
	} {
		p := Prompt{Messages: c.messages}
		require.Equal(t, c.messages, p.ChatMessages(true))
		got := p.ChatMessages(false)
		for i := range got {
			got[i].after = ""
		}
		for i := range c.want {
			require.Equal(t, c.want[i], got[i])
		}
		require.Len(t, got, len(c.want))
	}
}

// TestFunctionsInPython: functions of a task that Ingot lacks run in Python.
func TestFunctionsInPython(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("functions of tasks in Python are not tested: install python3")
	}
	python := &taskcode.Process{Unsandboxed: true}
	t.Cleanup(python.Close)
	folder := files(t, map[string]string{
		"sub/own.py": `
def text(doc):
    return "T" + doc["x"]

def docs(dataset):
    return dataset.map(lambda d: {"y": "new"})

def numbers(dataset):
    return [1]

def results(doc, results):
    return {"good": results[0] == doc["y"], "each": [1, 0, 0, 0]}

def nothing(doc, results):
    return 7

def fails(doc=None, results=None):
    raise ValueError("no such thing")

def shots():
    return [{"x": str(i), "y": "a"} for i in range(2)]
`,
		"sub/shared.yaml": "doc_to_text: !function own.text\nprocess_docs: !function own.docs\nprocess_results: !function own.results\nfewshot_config: {samples: !function own.shots}\nmetric_list: [{metric: good}, {metric: each, aggregation: mean}]\n",
		"task.yaml":       "task: a\ninclude: sub/shared.yaml\ndoc_to_target: y\nnum_fewshot: 2\n",
	})
	task, err := ReadTrusted(filepath.Join(folder, "task.yaml"), python)
	require.NoError(t, err)
	require.Equal(t, []string{"good mean", "each mean"}, names(task.Metrics))
	rows, err := task.Rows([]*ordered.Object{parse(t, []byte(`{"x": "7", "y": "old"}`))})
	require.NoError(t, err)
	require.Len(t, task.Examples, 2)
	p, err := task.Prompt(rows[0], task.Examples)
	require.NoError(t, err)
	require.Equal(t, "T0 a\n\nT1 a\n\nT7", p.Context)
	require.Equal(t, []string{"new"}, p.Targets)
	scores, err := p.Score(Response{Answers: []string{"new"}})
	require.NoError(t, err)
	require.Equal(t, map[string]float64{"good": 1, "each": 0.25}, scores.Values)
	require.Equal(t, map[string]float64{"each": 4}, scores.Weights)
	load := func(settings string) *Task {
		path := filepath.Join(folder, "sub", "other.yaml")
		require.NoError(t, os.WriteFile(path, []byte("task: b\ndoc_to_target: y\n"+settings), 0o600))
		task, err := ReadTrusted(path, python)
		require.NoError(t, err, settings)
		return task
	}
	for function, says := range map[string]string{"nothing": "did not return a dictionary of scores", "fails": "ValueError: no such thing"} {
		p, err := load("doc_to_text: x\nmetric_list: [{metric: good}]\nprocess_results: !function own."+function).Prompt(rows[0], nil)
		require.NoError(t, err)
		_, err = p.Score(Response{})
		require.ErrorContains(t, err, says)
	}
	for function, says := range map[string]string{"numbers": "did not return a list of rows", "fails": "ValueError: no such thing"} {
		_, err := load("doc_to_text: x\nprocess_docs: !function own." + function).Rows(rows)
		require.ErrorContains(t, err, says)
	}
	_, err = load("doc_to_text: !function own.fails").Prompt(rows[0], nil)
	require.ErrorContains(t, err, "doc_to_text: run the Python function fails of "+filepath.Join(folder, "sub", "own.py"))
	_, err = ReadTrusted(filepath.Join(folder, "sub", "other.yaml"), nil)
	require.ErrorIs(t, err, ErrUnsupported)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "task.yaml"), []byte("task: a\ndoc_to_text: x\ndoc_to_target: y\nfewshot_config: {samples: !function sub.own.fails}"), 0o600))
	_, err = ReadTrusted(filepath.Join(folder, "task.yaml"), python)
	require.ErrorContains(t, err, "ValueError: no such thing")
}

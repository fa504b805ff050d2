package task

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/ingot-run/ingot/eval/taskcode"
	"github.com/ingot-run/ingot/internal/ordered"
)

// The text from which the hash of a task's settings is made does not depend on the order of keys or
// on the style of the YAML.
func TestTextOfSettings(t *testing.T) {
	t.Parallel()
	const want = `{!!str"a":[!!int"1",{!!str"b":!!str"x"},[],],!!str"c":!!null"",!!str"d":[[!!bool"true",],]}`
	for _, text := range []string{
		"{a: [1, {b: x}, []], c: , d: [[true]]}", "d:\n- - true\na:\n- 1\n- b: \"x\"\n- []\nc:\n", "c:\nd: [&t [true]]\na: [1, {b: 'x'}, []]\n",
	} {
		var n yaml.Node
		require.NoError(t, yaml.Unmarshal([]byte(text), &n))
		var b strings.Builder
		writeNode(&b, n.Content[0])
		require.Equal(t, want, b.String())
	}
}

// Only tasks with Python functions for filters or scores are tried.
func TestTriedTasks(t *testing.T) {
	t.Parallel()
	call := func(taskcode.Kind, ...ordered.Value) (ordered.Value, error) { return nil, nil }
	filter := step{python: func(f Filtered, _ *ordered.Object) (Filtered, error) { return f, nil }}
	metrics := []Metric{{Name: "exact_match"}}
	for name, c := range map[string]struct {
		task Task
		want bool
	}{
		"nothing":           {Task{}, false},
		"built-in":          {Task{Metrics: metrics, Filters: []Pipeline{{steps: []step{{}}}}}, false},
		"a filter":          {Task{Metrics: metrics, Filters: []Pipeline{{steps: []step{{}}}, {steps: []step{{}, filter}}}}, true},
		"a Python metric":   {Task{Metrics: append(metrics, Metric{Name: "b", function: call})}, true},
		"scores of its own": {Task{results: resultsFunction{score: func(*ordered.Object, Response) (Scores, error) { return Scores{}, nil }}}, true},
	} {
		require.Equal(t, c.want, c.task.Tried(), name)
	}
}

// Lengths of n-grams that the answers or the targets lack are left out of chrF.
func TestChrfWithoutNGrams(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sums []float64
		want float64
	}{
		{[]float64{4, 4, 4}, 100}, {[]float64{4, 4, 0}, 0}, {[]float64{0, 0, 0}, 0}, {nil, 0},
		{[]float64{4, 4, 4, 3, 0, 0}, 100}, {[]float64{4, 4, 4, 0, 3, 0}, 100}, {[]float64{1, 1, 1}, 100},
		{[]float64{4, 2, 1}, 100 * 5 * 0.25 * 0.5 / (4*0.25 + 0.5)},
	} {
		require.InDelta(t, c.want, chrf(c.sums), 1e-9, "%v", c.sums)
	}
}

// F1 is 0 without a true positive, and else the harmonic mean of precision and recall.
func TestF1OfCounts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ hits, wrong, want float64 }{{0, 0, 0}, {0, 3, 0}, {1, 0, 1}, {2, 0, 1}, {1, 1, 2. / 3}, {1, 2, 0.5}} {
		require.InDelta(t, c.want, f1([]float64{c.hits, c.wrong}), 1e-12, "%+v", c)
	}
}

// BLEU's tokens of texts with line breaks: a hyphen before one joins words, but not at the end.
func TestTokensOfLines(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"": {}, "a-\nb": {"ab"}, "a-\n": {"a-"}, " a\nb ": {"a", "b"}, "<skipped>a": {"a"}, "1,000.5": {"1,000.5"}, "a,b.": {"a", ",", "b", "."},
		"&lt;b&gt; &amp;quot;": {"<", "b", ">", "&", "quot", ";"}, "1-2": {"1", "-", "2"},
	} {
		require.Equal(t, want, append([]string{}, bleuTokens(text)...), text)
	}
}

// A wrong answer has both scores of DROP.
func TestScoresOfAWrongAnswer(t *testing.T) {
	t.Parallel()
	row := ordered.NewObject()
	row.Set("answers", []ordered.Value{[]ordered.Value{"seven"}, []ordered.Value{""}})
	scores, err := dropScore(row, Response{Answers: []string{"eight"}})
	require.NoError(t, err)
	require.Equal(t, map[string]float64{"em": 0, "f1": 0}, scores.Values)
	scores, err = dropScore(row, Response{Answers: []string{"Seven"}})
	require.NoError(t, err)
	require.Equal(t, map[string]float64{"em": 1, "f1": 1}, scores.Values)
}

// Of keys that occur again in a mapping, the last value counts, also within other values.
func TestKeysThatOccurAgain(t *testing.T) {
	t.Parallel()
	var n yaml.Node
	require.NoError(t, yaml.Unmarshal([]byte("a: 1\nb: {c: 2, c: 3, d: [{e: 4, e: 5}]}\na: 6\n"), &n))
	keepLast(&n)
	var b strings.Builder
	writeNode(&b, n.Content[0])
	require.Equal(t, `{!!str"a":!!int"6",!!str"b":{!!str"c":!!int"3",!!str"d":[{!!str"e":!!int"5"},]}}`, b.String())
}

func TestSettingsThatOccurAgain(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "task.yaml")
	require.NoError(t, os.WriteFile(path, []byte("task: a\ndata: rows.jsonl\ndoc_to_text: q\ndoc_to_target: a\ngeneration_kwargs: {max_gen_toks: 1, max_gen_toks: 2}\n"), 0o600))
	read, err := Read(path)
	require.NoError(t, err)
	require.Equal(t, 2, read.Generation.MaxTokens)
}

// The limits of a judge's settings.
func TestSettingsOfJudges(t *testing.T) {
	t.Parallel()
	const says = "range must be [lowest score, highest score], and max_gen_toks at least 1"
	for settings, want := range map[string]string{
		"max_gen_toks: 1": "", "max_gen_toks: 0": says, "range: [0, 0.5]": "", "range: [1, 1]": says, "range: [2, 1]": says, "range: [1]": says,
		"range: [1, 2, 3]": says, "range: [-.inf, 1]": says, "range: [.nan, 1]": says, "other: 1": `the key "other"`,
	} {
		var n yaml.Node
		require.NoError(t, yaml.Unmarshal([]byte("{rubric: '{{answer}}', "+settings+"}"), &n))
		err := (&reader{task: new(Task)}).judge(n.Content[0])
		if want == "" {
			require.NoError(t, err, settings)
		} else {
			require.ErrorContains(t, err, want, settings)
		}
	}
}

// Examples and the row's question are one message; the system's stands before it, and the beginning
// of an answer after it.
func TestMessagesOfOneTurn(t *testing.T) {
	t.Parallel()
	said := func(role, content, after string) Message { return Message{Role: role, Content: content, after: after} }
	for name, c := range map[string]struct{ given, want []Message }{
		"a question":    {[]Message{said("user", "q", " ")}, []Message{{Role: "user", Content: "q"}}},
		"an answer":     {[]Message{said("assistant", "a", "")}, []Message{{Role: "user"}, {Role: "assistant", Content: "a"}}},
		"nothing":       {nil, []Message{{Role: "user"}}},
		"the system":    {[]Message{said("system", "s", "|")}, []Message{said("system", "s", "|"), {Role: "user"}}},
		"everything":    {[]Message{said("system", "s", "|"), said("user", "e", "-"), said("assistant", "f", "+"), said("user", "q", "/"), said("assistant", "a", "")}, []Message{said("system", "s", "|"), {Role: "user", Content: "e-f+q"}, said("assistant", "a", "")}},
		"two questions": {[]Message{said("user", "e", "-"), said("user", "q", "/")}, []Message{{Role: "user", Content: "e-q"}}},
	} {
		p := Prompt{Messages: c.given}
		require.Equal(t, c.want, p.ChatMessages(false), name)
		require.Equal(t, c.given, p.ChatMessages(true), name)
	}
	text, err := json.Marshal(said("user", "q", " "))
	require.NoError(t, err)
	require.JSONEq(t, `{"role":"user","content":"q"}`, string(text), "as in requests")
}

// All words of an answer are edits if the target has none.
func TestEditsWithoutATarget(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 26, 200} {
		require.Equal(t, []float64{float64(n), 0}, terStatistics(strings.Repeat("word ", n), " "))
		require.Equal(t, []float64{float64(n), float64(n)}, terStatistics("", strings.Repeat("word ", n)))
	}
}

func TestLastNumbers(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]float64{"1,000.5": 1000.5, "7 and -2": -2, "a0": 0, "3.": 3} {
		got, ok := lastNumber(text)
		require.True(t, ok, text)
		require.InDelta(t, want, got, 0, text)
	}
	for _, text := range []string{"", "none", "-", "."} {
		_, ok := lastNumber(text)
		require.False(t, ok, text)
	}
}

// A row is unreachable if a metric looks for its targets in the answer, and all are empty.
func TestUnreachableRows(t *testing.T) {
	t.Parallel()
	call := func(taskcode.Kind, ...ordered.Value) (ordered.Value, error) { return nil, nil }
	for name, c := range map[string]struct {
		task    Task
		targets []string
		want    bool
	}{
		"contains":           {Task{Type: Generate, Metrics: []Metric{{Name: "contains"}}}, []string{"", ""}, true},
		"a check":            {Task{Type: Generate, Metrics: []Metric{{Name: "exact_match"}, {Name: "pass@1", check: "contains"}}}, []string{""}, true},
		"no targets":         {Task{Type: Generate, Metrics: []Metric{{Name: "contains"}}}, nil, true},
		"one target":         {Task{Type: Generate, Metrics: []Metric{{Name: "contains"}}}, []string{"", "a"}, false},
		"another metric":     {Task{Type: Generate, Metrics: []Metric{{Name: "exact_match"}}}, []string{""}, false},
		"a Python function":  {Task{Type: Generate, Metrics: []Metric{{Name: "contains", function: call}}}, []string{""}, false},
		"a metric of choice": {Task{Type: MultipleChoice, Metrics: []Metric{{Name: "contains"}}}, []string{""}, false},
	} {
		require.Equal(t, c.want, c.task.Unreachable(&Prompt{Targets: c.targets}), name)
	}
}

// Entities that a list names as none are left out.
func TestSpansOfAnswers(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]string{
		"PER: none": "", "PER: none, Ann": "per: ann", "PER: Ann $ LOC: Rome, Bern": "per: ann $ loc: rome $ loc: bern", "none": "",
	} {
		require.Equal(t, want, spans(answer), answer)
	}
}

// Without Python, a trial is a call.
func TestTrialWithoutPython(t *testing.T) {
	t.Parallel()
	failed := errors.New("failed")
	require.ErrorIs(t, new(Task).Trial(func() error { return failed }), failed)
	require.NoError(t, new(Task).Trial(func() error { return nil }))
}

// The choices of GPQA are shuffled, and the answer is the letter of the right one.
func TestChoicesOfGPQA(t *testing.T) {
	t.Parallel()
	row := ordered.NewObject()
	for i, name := range []string{"Correct Answer", "Incorrect Answer 1", "Incorrect Answer 2", "Incorrect Answer 3"} {
		row.Set(name, string(rune('a'+i)))
	}
	made, err := gpqa(7, withoutMarks)([]*ordered.Object{row})
	require.NoError(t, err)
	v, _ := made[0].Get("choices")
	var choices []string
	for i, text := range v.([]ordered.Value) {
		choices = append(choices, text.(string))
		each, _ := made[0].Get("choice" + string(rune('1'+i)))
		require.Equal(t, text, each)
	}
	require.ElementsMatch(t, []string{"a", "b", "c", "d"}, choices)
	answer, _ := made[0].Get("answer")
	require.Equal(t, "a", choices[answer.(string)[1]-'A'])
}

// A loop over the pairs of a mapping can end early.
func TestPairsOfAMapping(t *testing.T) {
	t.Parallel()
	var n yaml.Node
	require.NoError(t, yaml.Unmarshal([]byte("{a: 1, b: 2, c: 3}"), &n))
	got := ""
	for key, value := range inPairs(n.Content[0].Content) {
		if got += key.Value + value.Value; key.Value == "b" {
			break
		}
	}
	require.Equal(t, "a1b2", got)
}

// Settings of Python filters and metrics must be JSON.
func TestSettingsThatAreNoJSON(t *testing.T) {
	t.Parallel()
	var n yaml.Node
	require.NoError(t, yaml.Unmarshal([]byte("{function: custom, x: {y: .nan}, filter_fn: !function a.b, z: 1}"), &n))
	name, _, err := pythonFilter(n.Content[0])
	require.ErrorContains(t, err, "NaN")
	require.Empty(t, name)
	_, _, err = (&reader{task: new(Task)}).step(n.Content[0])
	require.ErrorContains(t, err, "NaN")
	require.NoError(t, yaml.Unmarshal([]byte("{metric: !function a.b, x: .nan}"), &n))
	_, _, err = (&reader{task: new(Task)}).metricFunction(n.Content[0].Content)
	require.ErrorContains(t, err, "x: ")
}

// Each character of punctuation at one end of a word is a word of chrF++, of both ends the last.
func TestWordsOfChrf(t *testing.T) {
	t.Parallel()
	for _, c := range punctuation {
		p := string(c)
		require.Equal(t, []string{"a", p}, chrfWords("a"+p), p)
		require.Equal(t, []string{p, "a"}, chrfWords(p+"a"), p)
		require.Equal(t, []string{p + "a", p, p}, chrfWords(p+"a"+p+" "+p), p)
	}
	require.Equal(t, []string{"é", "a", "b.c"}, chrfWords(" é a\nb.c "))
}

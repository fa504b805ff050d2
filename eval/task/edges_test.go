package task

import (
	"errors"
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

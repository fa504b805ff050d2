package task

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/internal/ordered"
)

// TestPythonDictionaries: dictionaries are read as Python reads them, with texts as keys.
func TestPythonDictionaries(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{}`: `{}`, ` { } `: `{}`, `{'a': 1}`: `{"a":1}`, `{'b' : [1, 'x'] , "a":{},}`: `{"b":[1,"x"],"a":{}}`, "{\n'a'\n:\nNone\n}": `{"a":null}`, `[{'a': 1}, {'b': 2.5}]`: `[{"a":1},{"b":2.5}]`,
		`{'a': {'b': {'c': True}}}`: `{"a":{"b":{"c":true}}}`,
	} {
		v, err := literal(text)
		require.NoError(t, err, text)
		require.JSONEq(t, want, string(ordered.AppendJSON(nil, v)), text)
	}
	for text, says := range map[string]string{
		`{`: "the text ends within the list", `{'a'`: "a dictionary needs texts as keys", `{'a':`: "the text ends within the list", `{'a': 1`: "a comma or the closing brace is missing",
		`{'a': 1 'b': 2}`: "a comma or the closing brace is missing", `{1: 2}`: "a dictionary needs texts as keys", `{'a': x}`: `"x" is not a text or number`, `{x: 1}`: `"x" is not a text or number`,
		`[,]`:     `"" is not a text or number`,
		`{'a' 1}`: "a dictionary needs texts as keys", `{'a': 1} x`: `unexpected text " x"`, `{'a': {'a': {'a': {'a': {'a': {'a': {'a': {'a': {'a': 1}}}}}}}}}`: "nested more than 8 deep",
	} {
		_, err := literal(text)
		require.ErrorContains(t, err, says, text)
	}
}

// TestMetricsOfChoices: values computed by hand.
func TestMetricsOfChoices(t *testing.T) {
	t.Parallel()
	sums := func(name, aggregation string, rows [][2]int) float64 {
		c := (&Metric{Name: name, Aggregation: aggregation}).Corpus()
		var all []float64
		for _, r := range rows {
			for i, v := range c.Choice(r[0], r[1]) {
				if i >= len(all) {
					all = append(all, make([]float64, i+1-len(all))...)
				}
				all[i] += v
			}
		}
		return c.Value(all)
	}
	rows := [][2]int{{1, 1}, {1, 1}, {1, 0}, {0, 1}, {0, 0}, {0, 0}, {0, 0}} // right, likeliest: 2 of 3, 1 false positive
	require.InDelta(t, 4.0/6, sums("f1", "f1", rows), 1e-12)
	require.InDelta(t, 5.0/12, sums("mcc", "matthews_corrcoef", rows), 1e-12) // (2*3-1*1)/sqrt(3*3*4*4)
	require.InDelta(t, (3*4.0/6+4*6.0/8)/7, sums("f1", "weighted_f1", rows), 1e-12)
	require.Zero(t, sums("f1", "f1", [][2]int{{0, 0}, {1, 0}}))
	require.Zero(t, sums("mcc", "matthews_corrcoef", [][2]int{{0, 0}, {1, 0}}), "one choice is always the likeliest")
	require.InDelta(t, 1, sums("mcc", "matthews_corrcoef", [][2]int{{0, 0}, {2, 2}, {1, 1}}), 1e-12)
	require.InDelta(t, -1, sums("mcc", "matthews_corrcoef", [][2]int{{0, 1}, {1, 0}}), 1e-12)
	require.InDelta(t, 0.25, sums("mcc", "matthews_corrcoef", [][2]int{{0, 0}, {1, 1}, {2, 2}, {0, 1}, {1, 2}, {2, 0}}), 1e-12) // (3*6-12)/(36-12)
	require.InDelta(t, 1.0/3, sums("f1", "weighted_f1", [][2]int{{0, 0}, {2, 1}, {1, 2}}), 1e-12)
	require.Nil(t, (&Metric{Name: "acc"}).Corpus())

	require.InDelta(t, 0.25*0.25+0.25*0.25, Brier([]float64{math.Log(0.25), math.Log(0.75)}, 1), 1e-12)
	require.InDelta(t, 0.75*0.75*2, Brier([]float64{math.Log(0.1), math.Log(0.3)}, 0), 1e-12, "probabilities are scaled")
	require.InDeltaSlice(t, []float64{0.5, 0.5}, Probabilities([]float64{-2000, -2000}), 1e-12)
	for _, c := range []struct {
		kind   Type
		metric string
		want   string
	}{{MultipleChoice, "f1", "f1"}, {MultipleChoice, "mcc", "mcc"}, {MultipleChoice, "brier_score", "brier_score"}, {MultipleChoice, "exact_match", "exact_match"}, {MultipleChoice, "acc", ""}, {Generate, "exact_match", ""}} {
		task := Task{Type: c.kind, Metrics: []Metric{{Name: "acc"}, {Name: c.metric}}}
		require.Equal(t, c.want, task.NeedsRight(), c.metric)
	}
	for metric, want := range map[string]bool{"acc": true, "perplexity": false, "word_perplexity": false, "byte_perplexity": false, "bits_per_byte": false, "brier_score": false, "ter": false, "bleu": true} {
		require.Equal(t, want, higherBetter(metric), metric)
	}
}

// TestSplitsOfTasks: which split has the rows and which the examples.
func TestSplitsOfTasks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		s              Splits
		rows, examples string
		exclusive      bool
	}{
		{Splits{}, "", "", true}, {Splits{Test: "t"}, "t", "t", false}, {Splits{Test: "t", Shots: "t"}, "t", "t", true}, {Splits{Validation: "v", Test: "t"}, "t", "v", false},
		{Splits{Validation: "v"}, "v", "v", true}, {Splits{Training: "r", Validation: "v", Test: "t"}, "t", "r", false}, {Splits{Training: "r", Shots: "s", Test: "t"}, "t", "s", false},
	} {
		require.Equal(t, []any{c.rows, c.examples, c.exclusive}, []any{c.s.Rows(), c.s.Examples(), c.s.Exclusive()}, "%+v", c.s)
	}
}

package task

import (
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/ingot-run/ingot/eval/taskcode"
	"github.com/ingot-run/ingot/internal/ordered"
)

// TestValuesOfPythonScores: what a Python function returns for a metric is a number, a list of
// which each element counts, or the pair that the metric's aggregation needs.
func TestValuesOfPythonScores(t *testing.T) {
	t.Parallel()
	type list = []ordered.Value
	special := func(name string) *ordered.Object { // a number that JSON lacks, as runner.py writes it
		o := ordered.NewObject()
		o.Set("float", name)
		return o
	}
	m := func(name, aggregation string) *Metric { return &Metric{Name: name, Aggregation: aggregation} }
	for _, c := range []struct {
		m      *Metric
		v      ordered.Value
		value  any // nil for none
		weight any
		sums   []float64
		fails  bool
	}{
		{m("a", "mean"), int64(3), 3.0, nil, nil, false},
		{m("a", "mean"), true, 1.0, nil, nil, false},
		{m("a", "mean"), nil, nil, nil, nil, true},
		{m("a", "mean"), special("inf"), math.Inf(1), nil, nil, false},
		{m("a", "mean"), list{1.0, special("-inf")}, math.Inf(-1), 2.0, nil, false},
		{m("a", "mean"), special("x"), nil, nil, nil, true},
		{m("a", "mean"), ordered.NewObject(), nil, nil, nil, true},
		{m("a", "mean"), list{int64(1), 0.5}, 0.75, 2.0, nil, false},
		{m("a", "mean"), list{int64(1), "x"}, nil, nil, nil, true},
		{m("a", "mean"), "x", nil, nil, nil, true},
		{m("a", "weighted_perplexity"), list{-3.0, int64(7)}, -3.0, 7.0, nil, false},
		{m("a", "bits_per_byte"), list{-3.0, int64(7)}, -3.0, 7.0, nil, false},
		{m("a", "bits_per_byte"), list{-3.0, int64(7), int64(1)}, nil, nil, nil, true},
		{m("a", "bits_per_byte"), list{-3.0, "x"}, nil, nil, nil, true},
		{m("f1", "f1"), list{int64(1), int64(0)}, nil, nil, []float64{0, 1}, false},
		{m("f1", "f1"), list{int64(1), int64(-1)}, nil, nil, nil, true},
		{m("f1", "f1"), list{int64(0), int64(0)}, nil, nil, []float64{0, 0}, false},
		{m("f1", "f1"), list{int64(1), "x"}, nil, nil, nil, true},
		{m("f1", "f1"), list{int64(1), int64(0), int64(0)}, nil, nil, nil, true},
		{m("ter", "ter"), list{"a b", "a"}, nil, nil, []float64{1, 2}, false},
		{m("ter", "ter"), list{"a b"}, nil, nil, nil, true},
		{m("ter", "ter"), list{"a", "b", "c"}, nil, nil, nil, true},
	} {
		s := Scores{Values: map[string]float64{}, Weights: map[string]float64{}, Statistics: map[string][]float64{}}
		err := s.add(c.m, "n", c.v)
		if c.fails {
			require.ErrorContains(t, err, `as the score "n": only numbers are supported`, "%+v", c)
			continue
		}
		require.NoError(t, err, "%+v", c)
		for _, each := range []struct {
			want any
			got  map[string]float64
		}{{c.value, s.Values}, {c.weight, s.Weights}} {
			if each.want == nil {
				require.Empty(t, each.got, "%+v", c)
			} else {
				require.Equal(t, map[string]float64{"n": each.want.(float64)}, each.got, "%+v", c)
			}
		}
		require.Equal(t, c.sums, s.Statistics["n"], "%+v", c)
	}
	s := Scores{Values: map[string]float64{"b": 1, "c": 2}, Statistics: map[string][]float64{"a": nil, "b": nil}, Items: map[string]ordered.Value{"d": nil}}
	require.Equal(t, []string{"a", "b", "c", "d"}, s.Names())
	of := func(name string) *Metric {
		if name == "own" {
			return &Metric{Name: name, aggregate: func(taskcode.Kind, ...ordered.Value) (ordered.Value, error) { return nil, nil }}
		}
		return m(name, "mean")
	}
	s, err := pythonScores(parse(t, []byte(`{"scores": {"own": 0.5, "acc": 1}, "items": {"own": [1, "x"], "acc": 1}}`)), of)
	require.NoError(t, err)
	require.Equal(t, map[string]float64{"own": 0.5, "acc": 1}, s.Values)
	require.Equal(t, map[string]ordered.Value{"own": list{int64(1), "x"}}, s.Items)
	_, err = pythonScores(parse(t, []byte(`{"scores": {"acc": "x"}, "items": {}}`)), of)
	require.ErrorContains(t, err, `returned x as the score "acc"`)
	s, err = pythonScores(parse(t, []byte(`{"scores": {"acc": {"float": "nan"}}, "items": {}}`)), of)
	require.NoError(t, err)
	require.True(t, math.IsNaN(s.Values["acc"]))
	for _, text := range []string{`{"scores": {}}`, `{"items": {}}`, `{}`} {
		_, err = pythonScores(parse(t, []byte(text)), of)
		require.ErrorContains(t, err, "did not return a dictionary of scores", text)
	}
}

// TestMetricsInPython: which values the Python function of a metric or of an aggregation gets.
func TestMetricsInPython(t *testing.T) {
	t.Parallel()
	type list = []ordered.Value
	var got list
	failure := error(nil)
	result := ordered.Value(0.25)
	call := func(kind taskcode.Kind, args ...ordered.Value) (ordered.Value, error) {
		got = append(list{kind}, args...)
		return result, failure
	}
	aggregated := &Metric{Name: "a", aggregate: call}
	require.True(t, aggregated.Aggregated())
	require.False(t, aggregated.Computed())
	require.False(t, new(Metric).Aggregated())
	require.True(t, (&Metric{function: call}).Computed())
	require.False(t, new(Metric).Computed())
	v, ok, err := aggregated.Aggregate(list{1.0, 2.0})
	require.NoError(t, err)
	require.True(t, ok)
	require.InDelta(t, 0.25, v, 0)
	require.Equal(t, list{taskcode.Aggregate, list{1.0, 2.0}}, got)
	result = "x"
	_, ok, err = aggregated.Aggregate(nil)
	require.NoError(t, err)
	require.False(t, ok)
	failure = errors.New("it failed")
	_, _, err = aggregated.Aggregate(nil)
	require.ErrorIs(t, err, failure)
	_, err = (&Metric{Name: "m", function: call}).Compute(&Prompt{}, Filtered{})
	require.ErrorIs(t, err, failure)

	given := Filtered{Values: list{"7"}, One: true}
	for _, c := range []struct {
		gold  ordered.Value
		given Filtered
		item  ordered.Value
	}{
		{int64(7), given, list{"7", "7"}}, {"x", given, list{"x", "7"}}, {list{"a", "b"}, given, 1.0}, {list{"a"}, given, 1.0}, {list{}, given, list{"[]", "7"}},
		{int64(7), Filtered{Values: list{"7", "8"}}, list{int64(7), list{"7", "8"}}},
	} {
		s, err := aggregated.Compute(&Prompt{gold: c.gold}, c.given)
		require.NoError(t, err)
		require.Equal(t, map[string]ordered.Value{"a": c.item}, s.Items, "%+v", c)
		if c.item == 1.0 {
			require.Equal(t, map[string]float64{"a": 1}, s.Values)
		} else {
			require.Empty(t, s.Values)
		}
	}
	p := &Prompt{Right: 1}
	for _, c := range []struct {
		name string
		p    *Prompt
		want ordered.Value
	}{
		{"f1", p, list{int64(1), int64(0)}}, {"mcc", p, list{int64(1), int64(0)}}, {"brier_score", p, list{int64(1), list{0.5, 0.5}}}, {"likelihood", p, list{int64(1), list{-1.0, -1.0}}},
		{"acc", p, nil}, {"mcc", &Prompt{Right: -1}, list{int64(-100), int64(0)}}, {"mcc", &Prompt{Right: 0, Rights: []int{0, -1}}, list{list{int64(0), int64(-100)}, int64(0)}},
	} {
		item, ok := (&Metric{Name: c.name}).Passed(c.p, []float64{-1, -1})
		require.Equal(t, c.want != nil, ok, c.name)
		require.Equal(t, c.want, item, c.name)
	}
	task := Task{Metrics: []Metric{{Name: "ter", Aggregation: "ter"}}}
	require.Same(t, &task.Metrics[0], task.Metric("ter"))
	require.Equal(t, &Metric{Name: "acc", Aggregation: "mean", HigherBetter: true}, task.Metric("acc"))
	require.Equal(t, &Metric{Name: "b", Aggregation: "ter"}, task.Metrics[0].As("b"))
	require.Equal(t, "ter", task.Metrics[0].Name)
}

// TestValuesOfYAML: mappings keep the order of their keys; aliases and merged keys are followed.
func TestValuesOfYAML(t *testing.T) {
	t.Parallel()
	value := func(text string) (ordered.Value, error) {
		var n yaml.Node
		require.NoError(t, yaml.Unmarshal([]byte(text), &n))
		return valueOf(n.Content[0])
	}
	for text, want := range map[string]string{
		"{b: 1, a: [x, 2.5, null, true]}": `{"b":1,"a":["x",2.5,null,true]}`, "[&x {z: 1, y: 2}, *x]": `[{"z":1,"y":2},{"z":1,"y":2}]`, "[]": `[]`, "{}": `{}`, "x": `"x"`,
		"[&x {z: 1}, {<<: *x, a: 2}]": `[{"z":1},{"a":2,"z":1}]`,
	} {
		v, err := value(text)
		require.NoError(t, err, text)
		require.Equal(t, want, string(ordered.AppendJSON(nil, v)), text)
	}
	for text, says := range map[string]string{"[a, [!!int x]]": "yaml: ", "{a: {b: .nan}}": "unsupported value: NaN", "!!int x": "yaml: "} {
		_, err := value(text)
		require.ErrorContains(t, err, says, text)
	}
}

// TestFiltersThatFail: a filter in Python gets what the one before it left, and its error ends the
// pipeline.
func TestFiltersThatFail(t *testing.T) {
	t.Parallel()
	failed := errors.New("it failed")
	var got []Filtered
	keep := step{python: func(f Filtered, _ *ordered.Object) (Filtered, error) { got = append(got, f); return f, nil }}
	fail := step{python: func(f Filtered, _ *ordered.Object) (Filtered, error) { return f, failed }}
	first := step{filter: takeFirst, first: true}
	p := Pipeline{steps: []step{keep, first, keep}}
	_, err := p.Apply([]string{"a", "b"}, &Prompt{})
	require.NoError(t, err)
	require.Equal(t, []Filtered{{Values: []ordered.Value{"a", "b"}}, {Values: []ordered.Value{"a"}, One: true}}, got)
	p = Pipeline{steps: []step{fail, keep}}
	_, err = p.Apply([]string{"a"}, &Prompt{})
	require.ErrorIs(t, err, failed)
	require.Len(t, got, 2)
}

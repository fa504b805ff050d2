package task

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/internal/ordered"
)

// TestResultsOfPython: what process_results gets and returns is what the harness passes and reads.
func TestResultsOfPython(t *testing.T) {
	t.Parallel()
	type list = []ordered.Value
	for _, c := range []struct {
		r    Response
		want list
	}{
		{Response{Answers: []string{"a"}}, list{"a"}},
		{Response{Answers: []string{"a", "b"}}, list{list{"a", "b"}}},
		{Response{Logprobs: []float64{-1, -2}}, list{-1.0, -2.0}},
		{Response{Logprobs: []float64{-1, -2}, Greedy: []bool{true, false}}, list{list{-1.0, true}, list{-2.0, false}}},
		{Response{}, nil},
	} {
		require.Equal(t, c.want, c.r.results())
	}
	scores := func(text string) (Scores, error) {
		return pythonScores(parse(t, []byte(`{"scores": `+text+`, "items": {}}`)), (&Task{}).Metric)
	}
	s, err := scores(`{"acc": true, "n": 3, "x": 0.5, "no": false, "each": [1, 0, 1, true]}`)
	require.NoError(t, err)
	require.Equal(t, map[string]float64{"acc": 1, "n": 3, "x": 0.5, "no": 0, "each": 0.75}, s.Values)
	require.Equal(t, map[string]float64{"each": 4}, s.Weights)
	for text, says := range map[string]string{`{"acc": "1"}`: `returned 1 as the score "acc"`, `{"acc": [null]}`: `returned [null] as the score "acc"`} {
		_, err := scores(text)
		require.ErrorContains(t, err, says)
	}
	_, err = pythonScores(list{}, nil)
	require.ErrorContains(t, err, "did not return a dictionary")
}

func TestRowsOfPython(t *testing.T) {
	t.Parallel()
	type list = []ordered.Value
	a, b := ordered.NewObject(), ordered.NewObject()
	rows, err := pythonRows(list{a, b}, nil)
	require.NoError(t, err)
	require.Equal(t, []*ordered.Object{a, b}, rows)
	rows, err = pythonRows(list{}, nil)
	require.NoError(t, err)
	require.Empty(t, rows)
	for _, v := range []ordered.Value{list{a, "b"}, list{"b", a}, "rows", nil} {
		_, err := pythonRows(v, nil)
		require.ErrorContains(t, err, "did not return a list of rows")
	}
	_, err = pythonRows(list{a}, errors.New("it failed"))
	require.ErrorContains(t, err, "it failed")
}

func TestFilesOfFunctions(t *testing.T) {
	t.Parallel()
	r := reader{here: "/tasks/x"}
	for name, want := range map[string][2]string{
		"utils.process": {"/tasks/x/utils.py", "process"}, "a.b.c": {"/tasks/x/a/b.py", "c"}, "alone": {"/tasks/x/.py", "alone"},
	} {
		file, function := r.pythonFile(name)
		require.Equal(t, want, [2]string{file, function})
	}
	r.here = "."
	file, _ := r.pythonFile("utils.f")
	require.True(t, filepath.IsAbs(file), file)
}

// TestMultipleChoiceLetters: the filter finds the expression, then the text of a choice, then a
// letter after a colon.
func TestMultipleChoiceLetters(t *testing.T) {
	t.Parallel()
	row := parse(t, []byte(`{"choices": ["Red", "dark red", "Blue!", " (x) ", "- y"]}`))
	for _, c := range []struct{ settings, answer, want string }{
		{`regex_pattern: '(\([A-Z]\))'`, "it is (C), not (A)", "(C)"},
		{`regex_pattern: '(\([A-Z]\))', group_select: -1`, "it is (C), not (A)", "(A)"},
		{`regex_pattern: '(\([A-Z]\))'`, "a dark red car", "(B)"},
		{`regex_pattern: '(\([A-Z]\))'`, "a Red car", "(A)"},
		{`regex_pattern: '(\([A-Z]\))'`, "a red car", "[invalid]"},
		{`regex_pattern: '(\([A-Z]\))', ignore_case: true`, "a RED car", "(A)"},
		{`regex_pattern: '(\([A-Z]\))', ignore_punctuation: true`, "it's Blue.", "(C)"},
		{`regex_pattern: '(\([A-Z]\))'`, "it's Blue.", "[invalid]"},
		{`regex_pattern: '(\([A-Z]\))', regexes_to_ignore: ['-', '!']`, "it's B-l-u-e", "(C)"},
		{`regex_pattern: '(\([A-Z]\))'`, "this (x)", "(D)"},
		{`regex_pattern: '(\([A-Z]\))'`, "the answer: \n D", "(D)"},
		{`regex_pattern: '(\([A-Z]\))'`, "the answer: F", "[invalid]"},
		{`regex_pattern: '(\([A-Z]\))', fallback: none`, "?", "none"},
		{`regex_pattern: '(\([A-Z]\))', ignore_punctuation: true`, "it is - y", "y"}, // as in the harness, which looks for the text without spaces
		{`regex_pattern: '(\([A-Z]\))'`, "it is - y", "(E)"},
	} {
		task := written(t, plainTask+"filter_list: [{name: f, filter: [{function: multi_choice_regex, "+c.settings+"}]}]")
		require.Equal(t, []string{c.want}, apply(t, &task.Filters[0], []string{c.answer}, row), "%+v", c)
	}
	task := written(t, plainTask+"filter_list: [{name: f, filter: [{function: multi_choice_regex, regex_pattern: '(\\([A-Z]\\))'}]}]")
	require.Equal(t, []string{"(B)", "[invalid]"}, apply(t, &task.Filters[0], []string{"(B)", "B"}, ordered.NewObject()), "a row without choices")
	mapped := written(t, plainTask+"filter_list: [{name: f, filter: [{function: map, mapping_dict: {a: b}}]}, {name: g, filter: [{function: map, mapping_dict: {a: b}, default_value: c}]}]")
	require.Equal(t, []string{"b", "None"}, apply(t, &mapped.Filters[0], []string{"a", "x"}, nil))
	require.Equal(t, []string{"b", "c"}, apply(t, &mapped.Filters[1], []string{"a", "x"}, nil))
}

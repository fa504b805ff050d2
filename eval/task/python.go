package task

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/ingot-run/ingot/eval/taskcode"
	"github.com/ingot-run/ingot/internal/ordered"
)

// Functions of task files that the user trusts run in Python: package taskcode.

// pythonFile returns the file of a function that is named module.function, and its name in there.
func (r *reader) pythonFile(name string) (file, function string) {
	i := strings.LastIndex(name, ".")
	file = filepath.Join(r.here, strings.ReplaceAll(name[:max(i, 0)], ".", "/")+".py")
	if path, err := filepath.Abs(file); err == nil {
		file = path
	}
	return file, name[i+1:]
}

// pythonFunction returns a function of the same type as like that runs in Python.
func pythonFunction(python *taskcode.Process, like any, file, function string) any {
	switch like.(type) {
	case fieldFunction:
		return fieldFunction(func(row *ordered.Object) (ordered.Value, error) {
			return python.Call(taskcode.Plain, file, function, row)
		})
	case rowsFunction:
		return rowsFunction(func(rows []*ordered.Object) ([]*ordered.Object, error) {
			list := make([]ordered.Value, len(rows))
			for i, row := range rows {
				list[i] = row
			}
			return pythonRows(python.Call(taskcode.Rows, file, function, list))
		})
	}
	known, _ := like.(resultsFunction)
	return resultsFunction{metrics: known.metrics, score: func(row *ordered.Object, r Response) (Scores, error) {
		v, err := python.Call(taskcode.Results, file, function, row, r.results())
		if err != nil {
			return Scores{}, err
		}
		return pythonScores(v)
	}}
}

// pythonRows returns the rows in the result of a function.
func pythonRows(v ordered.Value, err error) ([]*ordered.Object, error) {
	if err != nil {
		return nil, err
	}
	list, ok := v.([]ordered.Value)
	rows := make([]*ordered.Object, len(list))
	for i, each := range list {
		rows[i], ok = each.(*ordered.Object)
		if !ok {
			break
		}
	}
	if !ok {
		return nil, errors.New("the Python function did not return a list of rows")
	}
	return rows, nil
}

// results returns what process_results of the harness gets.
func (r Response) results() []ordered.Value {
	var list []ordered.Value
	for i, p := range r.Logprobs {
		if r.Greedy == nil {
			list = append(list, p)
			continue
		}
		list = append(list, []ordered.Value{p, r.Greedy[i]})
	}
	var answers []ordered.Value
	for _, a := range r.Answers {
		answers = append(answers, a)
	}
	switch len(answers) {
	case 0:
		return list
	case 1:
		return answers
	}
	return []ordered.Value{answers}
}

// pythonScores returns the scores that process_results returned: numbers, or lists of which each
// element counts.
func pythonScores(v ordered.Value) (Scores, error) {
	o, ok := v.(*ordered.Object)
	if !ok {
		return Scores{}, errors.New("the Python function did not return a dictionary of scores")
	}
	s := Scores{Values: map[string]float64{}, Weights: map[string]float64{}}
	for metric, v := range o.All() {
		list, several := v.([]ordered.Value)
		if !several {
			list = []ordered.Value{v}
		}
		for _, each := range list {
			x, ok := scoreNumber(each)
			if !ok {
				return Scores{}, fmt.Errorf("the Python function returned %v as the score %q: only numbers are supported", textOf(v), metric)
			}
			s.Values[metric] += x / float64(len(list))
		}
		if several {
			s.Weights[metric] = float64(len(list))
		}
	}
	return s, nil
}

// scoreNumber returns a number or a truth value as a number.
func scoreNumber(v ordered.Value) (float64, bool) {
	switch v := v.(type) {
	case bool:
		return indicator(v), true
	case int64:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

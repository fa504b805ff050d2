package task

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/ingot-run/ingot/engine/jinja"
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

// calledFunction is a Python function as the task names it, with its file and its name in there.
type calledFunction struct{ name, file, function string }

// pythonCall calls a Python function of a task.
type pythonCall func(kind taskcode.Kind, args ...ordered.Value) (ordered.Value, error)

// call returns the Python function of a name. The function is noted, so that finish can refuse it.
func (r *reader) call(name string) pythonCall {
	python := r.python
	file, function := r.pythonFile(name)
	if f := (calledFunction{name, file, function}); !slices.Contains(r.called, f) {
		r.called = append(r.called, f)
	}
	return func(kind taskcode.Kind, args ...ordered.Value) (ordered.Value, error) {
		return python.Call(kind, file, function, args...)
	}
}

// pythonFunction returns a function of the same type as like that calls a Python function.
func pythonFunction(call pythonCall, like any, t *Task) any {
	switch like.(type) {
	case fieldFunction:
		return fieldFunction(func(row *ordered.Object) (ordered.Value, error) { return call(taskcode.Plain, row) })
	case rowsFunction:
		return rowsFunction(func(rows []*ordered.Object) ([]*ordered.Object, error) {
			list := make([]ordered.Value, len(rows))
			for i, row := range rows {
				list[i] = row
			}
			return pythonRows(call(taskcode.Rows, list))
		})
	}
	known, _ := like.(resultsFunction)
	return resultsFunction{metrics: known.metrics, python: true, score: func(row *ordered.Object, r Response) (Scores, error) {
		v, err := call(taskcode.Results, row, r.results())
		if err != nil {
			return Scores{}, err
		}
		return pythonScores(v, t.Metric)
	}}
}

// pythonFilter returns the Python function or class that a filter names, and its settings. The name
// is empty if the filter names none.
func pythonFilter(n *yaml.Node) (name string, settings *ordered.Object, err error) {
	pairs, err := mapping(n)
	settings = ordered.NewObject()
	for node, value := range inPairs(pairs) {
		key := node.Value
		if function, ok := functionName(value); ok && (key == "function" || key == "filter_fn") {
			name = function
		} else if key != "function" {
			v, err := valueOf(value)
			if err != nil {
				return name, settings, err
			}
			settings.Set(key, v)
		}
	}
	return name, settings, err
}

// pythonStep returns the filter of a Python function or class.
func (r *reader) pythonStep(name string, settings *ordered.Object) step {
	call := r.call(name)
	return step{python: func(given Filtered, row *ordered.Object) (Filtered, error) {
		v, err := call(taskcode.Filter, given.Value(), row, settings)
		if list, ok := v.([]ordered.Value); ok {
			return Filtered{Values: list}, err
		}
		return Filtered{Values: []ordered.Value{v}, One: true}, err
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

// Tried reports whether Trial can find errors of functions: those that filter or score answers.
func (t *Task) Tried() bool {
	inPython := func(s step) bool { return s.python != nil }
	return t.results.score != nil ||
		slices.ContainsFunc(t.Filters, func(p Pipeline) bool { return slices.ContainsFunc(p.steps, inPython) }) ||
		slices.ContainsFunc(t.Metrics, func(m Metric) bool { return m.function != nil })
}

// Trial calls try, in which Python functions run without effects on later calls (see
// taskcode.Process.Trial), and returns its error.
func (t *Task) Trial(try func() error) error {
	if t.python == nil {
		return try()
	}
	return t.python.Trial(try)
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
	switch {
	case r.Filtered != nil:
		return []ordered.Value{r.Filtered}
	case len(r.Answers) == 1:
		return []ordered.Value{r.Answers[0]}
	case len(r.Answers) > 1:
		return []ordered.Value{valuesOf(r.Answers)}
	}
	return list
}

// pythonScores returns the scores that a Python function returned. metricOf returns the metric of a
// name.
func pythonScores(v ordered.Value, metricOf func(name string) *Metric) (Scores, error) {
	o, _ := v.(*ordered.Object)
	if o == nil {
		o = ordered.NewObject()
	}
	list, _ := o.Get("scores")
	items, _ := o.Get("items")
	byMetric, ok := list.(*ordered.Object)
	exact, exactOK := items.(*ordered.Object)
	if !ok || !exactOK {
		return Scores{}, errors.New("the Python function did not return a dictionary of scores")
	}
	s := Scores{Values: map[string]float64{}, Weights: map[string]float64{}, Statistics: map[string][]float64{}, Items: map[string]ordered.Value{}}
	for metric, v := range byMetric.All() {
		m := metricOf(metric)
		if m.aggregate != nil {
			s.Items[metric], _ = exact.Get(metric)
			if x, ok := scoreNumber(v); ok {
				s.Values[metric] = x
			}
			continue
		}
		if err := s.add(m, metric, v); err != nil {
			return Scores{}, err
		}
	}
	return s, nil
}

// add adds the value that a Python function returned for a metric: a number, which may be NaN; a
// list of which each element counts; or the pair that the metric's aggregation needs.
func (s *Scores) add(m *Metric, name string, v ordered.Value) error {
	list, several := v.([]ordered.Value)
	var numbers []float64
	for _, each := range list {
		if x, ok := scoreNumber(each); ok {
			numbers = append(numbers, x)
		}
	}
	x, number := scoreNumber(v)
	corpus := m.Corpus()
	switch {
	case number:
		s.Values[name] = x
	case weighted[m.Aggregation] && len(numbers) == 2 && len(list) == 2:
		s.Values[name], s.Weights[name] = numbers[0], numbers[1]
	case corpus != nil && corpus.Answer != nil && len(list) == 2:
		s.Statistics[name] = corpus.Answer(textOf(list[1]), textOf(list[0]))
	case corpus != nil && corpus.Choice != nil && len(list) == 2 && len(numbers) == 2 && min(numbers[0], numbers[1]) >= 0:
		s.Statistics[name] = corpus.Choice(int(numbers[0]), int(numbers[1]))
	case several && len(numbers) == len(list) && corpus == nil && !weighted[m.Aggregation]:
		for _, x := range numbers {
			s.Values[name] += x / float64(len(numbers))
		}
		s.Weights[name] = float64(len(numbers))
	default:
		return fmt.Errorf("the Python function returned %v as the score %q: only numbers are supported", textOf(v), name)
	}
	return nil
}

// weighted are the aggregations of pairs: a log-probability, and the number of words or bytes.
var weighted = map[string]bool{"weighted_perplexity": true, "bits_per_byte": true}

// scoreNumber returns a number or a truth value as a number.
func scoreNumber(v ordered.Value) (float64, bool) {
	switch v := v.(type) {
	case bool:
		return indicator(v), true
	case int64:
		return float64(v), true
	case float64:
		return v, true
	case *ordered.Object: // of runner.py: a number that JSON lacks
		text, _ := v.Get("float")
		if s, ok := text.(string); ok {
			x, err := strconv.ParseFloat(s, 64)
			return x, err == nil
		}
	}
	return 0, false
}

// Metric returns the task's metric of a name. As in the harness, it is a mean if the task does not
// list it, since Python functions can return scores by any metric.
func (t *Task) Metric(name string) *Metric {
	for i := range t.Metrics {
		if t.Metrics[i].Name == name {
			return &t.Metrics[i]
		}
	}
	return &Metric{Name: name, Aggregation: "mean", HigherBetter: higherBetter(name)}
}

// As returns the metric with another name: a Python function can return several scores.
func (m *Metric) As(name string) *Metric {
	other := *m
	other.Name = name
	return &other
}

// Aggregated reports whether a Python function aggregates the values of rows.
func (m *Metric) Aggregated() bool { return m.aggregate != nil }

// Computed reports whether Compute gives the score of a generated answer.
func (m *Metric) Computed() bool {
	return m.function != nil || m.aggregate != nil && passed[Generate][m.Name]
}

// Compute scores answers by a metric that a Python function computes or aggregates.
func (m *Metric) Compute(p *Prompt, given Filtered) (Scores, error) {
	if m.function != nil {
		v, err := m.function(taskcode.Metric, p.gold, given.Value(), m.settings)
		if err != nil {
			return Scores{}, err
		}
		return pythonScores(v, m.As)
	}
	gold, result := p.gold, given.Value()
	if list, several := gold.([]ordered.Value); several && len(list) > 0 { // the harness only tells whether there is one
		return Scores{Items: map[string]ordered.Value{m.Name: 1.0}, Values: map[string]float64{m.Name: 1}}, nil
	}
	if _, text := result.(string); text {
		gold = jinja.Str(gold)
	}
	return Scores{Items: map[string]ordered.Value{m.Name: []ordered.Value{gold, result}}}, nil
}

// Aggregate aggregates the values of rows with the metric's Python function. ok is false if the
// function returns no number.
func (m *Metric) Aggregate(items []ordered.Value) (value float64, ok bool, err error) {
	v, err := m.aggregate(taskcode.Aggregate, items)
	value, ok = scoreNumber(v)
	return value, ok, err
}

// none is the harness's number of a choice that does not exist.
const none = -100

// Passed returns the value of a row with choices that a Python function aggregates: the number of
// the right choice, and the number or the log-probabilities of the likeliest one. ok is false for
// metrics that are a number, which is the value.
func (m *Metric) Passed(p *Prompt, logprobs []float64) (item ordered.Value, ok bool) {
	right := rightItem(p)
	switch m.Name {
	case "f1", "mcc":
		return []ordered.Value{right, int64(Likeliest(logprobs, nil))}, true
	case "brier_score":
		return []ordered.Value{right, numbersOf(Probabilities(logprobs))}, true
	case "likelihood":
		return []ordered.Value{right, numbersOf(logprobs)}, true
	}
	return nil, false
}

func rightItem(p *Prompt) ordered.Value {
	number := func(i int) ordered.Value {
		if i < 0 {
			return int64(none)
		}
		return int64(i)
	}
	if p.Rights == nil {
		return number(p.Right)
	}
	list := []ordered.Value{}
	for _, i := range p.Rights {
		list = append(list, number(i))
	}
	return list
}

func numbersOf(list []float64) []ordered.Value {
	values := make([]ordered.Value, len(list))
	for i, v := range list {
		values[i] = v
	}
	return values
}

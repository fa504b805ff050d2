package task

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/dlclark/regexp2/v2"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/ingot-run/ingot/internal/ordered"
)

// Metric defines the score of a row and how the scores of all rows are aggregated.
type Metric struct {
	Name         string
	Aggregation  string
	HigherBetter bool
	K            int // for pass@k: the number of answers of which at least one must be right; 0 for other metrics

	function  pythonCall      // the metric is a Python function; nil if it is one of this package
	settings  *ordered.Object // of function
	aggregate pythonCall      // a Python function aggregates the values of rows; nil for one of this package

	check                                      string // for pass@k: name of the metric that decides whether an answer is right
	schema                                     *jsonschema.Schema
	fields                                     [][]string
	ignore                                     []*regexp2.Regexp
	ignoreCase, ignorePunctuation, ignoreDigit bool
}

// metrics maps each type of task to its metrics, with the aggregation of each.
var metrics = map[Type]map[string]string{
	Generate: {
		"exact_match": "mean", "contains": "mean", "numeric_match": "mean", "pass@k": "mean", "json_valid": "mean", "json_schema": "mean", "json_match": "mean",
		"bleu": "bleu", "chrf": "chrf", "chrf++": "chrf++", "ter": "ter", "rouge1": "mean", "rouge2": "mean", "rougeL": "mean", "rougeLsum": "mean",
	},
	Judge: {"judge_score": "mean"},
	MultipleChoice: {
		"acc": "mean", "acc_norm": "mean", "acc_bytes": "mean", "exact_match": "mean", "f1": "f1", "mcc": "matthews_corrcoef", "brier_score": "brier_score",
	},
	LogLikelihood: {"acc": "mean", "perplexity": "perplexity"},
	Perplexity:    {"word_perplexity": "weighted_perplexity", "byte_perplexity": "weighted_perplexity", "bits_per_byte": "bits_per_byte"},
}

// passed are the metrics whose values the harness only passes to the aggregation.
var passed = map[Type]map[string]bool{
	Generate: {
		"acc": true, "acc_norm": true, "acc_bytes": true, "f1": true, "mcc": true, "brier_score": true, "perplexity": true, "likelihood": true,
		"bleu": true, "chrf": true, "chrf++": true, "ter": true,
	},
	MultipleChoice: {"f1": true, "mcc": true, "brier_score": true, "likelihood": true},
}

// defaultAggregations are the harness's aggregations of metrics that a task gives none.
var defaultAggregations = map[string]string{
	"acc": "mean", "acc_norm": "mean", "acc_bytes": "mean", "acc_mutual_info": "mean", "exact_match": "mean", "likelihood": "mean",
	"perplexity": "perplexity", "word_perplexity": "weighted_perplexity", "byte_perplexity": "weighted_perplexity", "bits_per_byte": "bits_per_byte",
	"brier_score": "brier_score", "mcc": "matthews_corrcoef", "f1": "f1", "bleu": "bleu", "chrf": "chrf", "chrf++": "chrf++", "ter": "ter",
}

// aggregations are the aggregations that metrics computed by Python functions can have.
var aggregations = map[string]bool{
	"mean": true, "nanmean": true, "median": true, "perplexity": true, "weighted_perplexity": true, "bits_per_byte": true, "weighted_mean": true,
	"f1": true, "matthews_corrcoef": true, "weighted_f1": true, "bleu": true, "chrf": true, "chrf++": true, "ter": true,
}

// defaultMetrics maps each type of task to the metrics of a task that names none.
var defaultMetrics = map[Type][]string{
	Generate: {"exact_match"}, Judge: {"judge_score"}, MultipleChoice: {"acc", "acc_norm"}, LogLikelihood: {"perplexity", "acc"},
	Perplexity: {"word_perplexity", "byte_perplexity", "bits_per_byte"},
}

// aggregationFunctions maps the harness's Python functions for aggregation to names of aggregations
// in this package.
var aggregationFunctions = map[string]string{"utils.agg_inst_level_acc": "weighted_mean", "utils.weighted_f1_score": "weighted_f1"}

// metrics reads the key metric_list.
func (r *reader) metrics(n *yaml.Node) error {
	if n.Kind != yaml.SequenceNode {
		return errors.New("the value must be a list of metrics")
	}
	for _, each := range n.Content {
		list, err := r.metric(each)
		if err != nil {
			return err
		}
		r.task.Metrics = append(r.task.Metrics, list...)
	}
	return nil
}

// metric reads an element of metric_list. A pass@k with several values of k gives several metrics.
func (r *reader) metric(n *yaml.Node) ([]Metric, error) {
	var m Metric
	var higher *bool
	var ks []int
	targets := map[string]any{
		"metric": &m.Name, "higher_is_better": &higher, "check": &m.check,
		"ignore_case": truth(&m.ignoreCase), "ignore_punctuation": truth(&m.ignorePunctuation), "ignore_numbers": truth(&m.ignoreDigit),
		"weight_by_size": nil, // a setting of groups; it has no effect here, nor in the harness
		"average":        r.ofChoices, "hf_evaluate": r.ofChoices,
		"aggregation":       func(value *yaml.Node) error { m.Aggregation = value.Value; return nil },
		"regexes_to_ignore": func(value *yaml.Node) (err error) { m.ignore, err = expressions(value); return err },
		"k":                 func(value *yaml.Node) (err error) { ks, err = integers(value); return err },
		"schema":            func(value *yaml.Node) (err error) { m.schema, err = r.schema(value); return err },
		"fields":            func(value *yaml.Node) (err error) { m.fields, err = paths(value); return err },
	}
	pairs, err := mapping(n)
	if err != nil {
		return nil, err
	}
	if m.function, m.settings, err = r.metricFunction(pairs); err != nil {
		return nil, err
	}
	for node, value := range inPairs(pairs) {
		key := node.Value
		name, isFunction := functionName(value)
		target, known := targets[key]
		switch {
		case isFunction && key == "metric":
			m.Name = name[strings.LastIndex(name, ".")+1:]
		case isFunction && key == "aggregation":
			if m.Aggregation = aggregationFunctions[name]; m.Aggregation == "" {
				m.Aggregation, m.aggregate = name, r.call(name)
			}
		case m.function != nil && !metricKeys[key]:
		case !known:
			return nil, unsupported("setting %q of a metric", key)
		default:
			if err := store(value, target); err != nil {
				return nil, fmt.Errorf("%s: %w", key, err)
			}
		}
	}
	m.HigherBetter = higherBetter(m.Name)
	if higher != nil {
		m.HigherBetter = *higher
	}
	switch {
	case m.function != nil:
		return []Metric{m}, nil
	case m.Name == "rouge" && cmp.Or(r.task.Type, Generate) == Generate:
		return m.ofRouge(), nil
	}
	return m.withK(ks)
}

// metricKeys are the keys of a metric that are no settings of its Python function.
var metricKeys = map[string]bool{"metric": true, "aggregation": true, "higher_is_better": true, "hf_evaluate": true}

// metricFunction returns the Python function of a metric, or nil if it has none, and the settings
// that the function gets.
func (r *reader) metricFunction(pairs []*yaml.Node) (call pythonCall, settings *ordered.Object, err error) {
	for key, value := range inPairs(pairs) {
		if name, ok := functionName(value); ok && key.Value == "metric" {
			call, settings = r.call(name), ordered.NewObject()
		}
	}
	if settings == nil {
		return nil, nil, nil
	}
	for key, value := range inPairs(pairs) {
		if metricKeys[key.Value] {
			continue
		}
		v, err := valueOf(value)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", key.Value, err)
		}
		settings.Set(key.Value, v)
	}
	return call, settings, nil
}

// ofChoices reads a setting that has no effect in the harness for metrics of choices, and does have
// one for others.
func (r *reader) ofChoices(n *yaml.Node) error {
	if r.task.Type != MultipleChoice && n.Value != "false" {
		return unsupported("this setting of a metric of type %s", cmp.Or(r.task.Type, Generate))
	}
	return nil
}

// truth returns a function that reads a switch. As in Python, a text that is not empty is true.
func truth(to *bool) func(*yaml.Node) error {
	return func(n *yaml.Node) error {
		if n.Kind == yaml.ScalarNode && n.Tag == "!!str" {
			*to = n.Value != ""
			return nil
		}
		return n.Decode(to)
	}
}

// ofRouge returns the metrics of ROUGE, which the metric rouge of the package evaluate gives.
func (m *Metric) ofRouge() (list []Metric) {
	for _, name := range slices.Sorted(maps.Keys(rouge)) {
		list = append(list, *m.As(name))
	}
	return list
}

// withK returns a pass@k metric for each value of k. The values are in ks, unless the name of m has
// the value, as in pass@5. Without any value, k is 1. If m is another metric, withK returns only m.
func (m Metric) withK(ks []int) ([]Metric, error) {
	after, ok := strings.CutPrefix(m.Name, "pass@")
	if !ok {
		return []Metric{m}, nil
	}
	if k, err := strconv.Atoi(after); err == nil {
		ks = []int{k}
	} else if after != "k" {
		return []Metric{m}, nil // checkMetrics refuses the name
	}
	if ks == nil {
		ks = []int{1}
	}
	var list []Metric
	for _, k := range ks {
		if k < 1 {
			return nil, fmt.Errorf("k is %d: it must be at least 1", k)
		}
		each := m
		each.Name, each.K = "pass@"+strconv.Itoa(k), k
		list = append(list, each)
	}
	return list, nil
}

// integers reads a number or a list of numbers.
func integers(n *yaml.Node) (list []int, err error) {
	if n.Kind == yaml.ScalarNode {
		list = make([]int, 1)
		err = n.Decode(&list[0])
		return list, err
	}
	err = n.Decode(&list)
	return list, err
}

func expressions(n *yaml.Node) ([]*regexp2.Regexp, error) {
	var patterns []string
	if err := n.Decode(&patterns); err != nil {
		return nil, err
	}
	return compileAll(patterns, regexp2.None)
}

// checkMetrics checks the settings of each metric and sets its aggregation. known has the metrics
// that the task can use, each with its aggregation. Other metrics are refused.
func (r *reader) checkMetrics(known map[string]string) error {
	t := r.task
	if len(t.Metrics) == 0 {
		for _, name := range defaultMetrics[t.Type] {
			t.Metrics = append(t.Metrics, Metric{Name: name, HigherBetter: higherBetter(name)})
		}
	}
	for i := range t.Metrics {
		m := &t.Metrics[i]
		name := m.Name
		if m.K > 0 {
			name = "pass@k"
		}
		if slices.ContainsFunc(t.Metrics[:i], func(other Metric) bool { return other.Name == m.Name }) { // they would get one score
			return fmt.Errorf("metric %q occurs twice: remove one", m.Name)
		}
		aggregation, ok := known[name]
		switch {
		case t.results.python || m.function != nil:
			aggregation = cmp.Or(m.Aggregation, defaultAggregations[m.Name], "mean")
			if ok = aggregations[aggregation] || m.aggregate != nil; !ok {
				return unsupported("aggregation %q of metric %q, which a Python function computes,", aggregation, m.Name)
			}
		case m.aggregate != nil:
			ok = ok || passed[t.Type][m.Name]
			aggregation = m.Aggregation
		case m.Name == "f1" && m.Aggregation == "weighted_f1" && t.Type == MultipleChoice:
			aggregation = m.Aggregation
		}
		if !ok {
			return unsupported("metric %q of type %s", m.Name, t.Type)
		}
		if m.Aggregation != "" && m.Aggregation != aggregation {
			return unsupported("aggregation %q of metric %q", m.Aggregation, m.Name)
		}
		m.Aggregation = aggregation
		if m.K > t.Repeats {
			return fmt.Errorf("metric %q needs %d answers to each row, but \"repeats\" is %d: raise repeats, or lower k", m.Name, m.K, t.Repeats)
		}
		if _, known := metrics[Generate][m.check]; m.check != "" && (!known || corpora[metrics[Generate][m.check]] != nil || m.K == 0 || m.check == "pass@k") {
			return fmt.Errorf("metric %q: check %q is not possible: only pass@k has a check, which is another metric of type generate_until, such as exact_match", m.Name, m.check)
		}
		if m.Name == "json_schema" && m.schema == nil {
			return errors.New(`metric "json_schema" needs the setting "schema": a JSON Schema, or the path of its file`)
		}
	}
	return nil
}

// Exact reports whether an answer equals one of the targets. Before the comparison, the parts that
// the metric ignores are removed from both. The order is that of the harness: matches of regular
// expressions, case, punctuation, digits.
func (m *Metric) Exact(answer string, targets []string) bool {
	answer = m.normal(answer)
	return slices.ContainsFunc(targets, func(t string) bool { return m.normal(t) == answer })
}

// punctuation is Python's string.punctuation.
const punctuation = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"

func (m *Metric) normal(s string) string {
	for _, re := range m.ignore {
		if without, err := re.Replace(s, "", -1, -1); err == nil {
			s = without
		}
	}
	if m.ignoreCase {
		s = strings.ToLower(s)
	}
	if m.ignorePunctuation {
		s = without(s, punctuation)
	}
	if m.ignoreDigit {
		s = without(s, "0123456789")
	}
	return s
}

func without(s, characters string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune(characters, r) {
			return -1
		}
		return r
	}, s)
}

// Contains reports whether an answer contains one of the targets, after the parts that the metric
// ignores are removed from both. A target of which nothing is left is not contained in any answer.
func (m *Metric) Contains(answer string, targets []string) bool {
	answer = m.normal(answer)
	return slices.ContainsFunc(targets, func(t string) bool {
		t = m.normal(t)
		return t != "" && strings.Contains(answer, t)
	})
}

// Unreachable reports whether no answer to a row can be right by the metric contains, because the
// row's targets are empty.
func (t *Task) Unreachable(p *Prompt) bool {
	return slices.ContainsFunc(t.Metrics, func(m Metric) bool {
		filled := func(target string) bool { return m.normal(target) != "" }
		return t.Type == Generate && m.function == nil && (m.Name == "contains" || m.check == "contains") && !slices.ContainsFunc(p.Targets, filled)
	})
}

// PassAtK returns the unbiased estimate of the probability that at least one of k answers is right,
// from n answers. right is the number of right answers among the n (M. Chen et al., "Evaluating
// Large Language Models Trained on Code", arXiv 2107.03374, formula 1).
func PassAtK(n, right, k int) float64 {
	if n-right < k {
		return 1
	}
	miss := 1.0
	for i := n - right + 1; i <= n; i++ {
		miss *= 1 - float64(k)/float64(i)
	}
	return 1 - miss
}

// Likeliest returns the number of the choice with the highest log-probability. Each log-probability
// is divided by the length of its choice; if length is nil, it is not divided.
func Likeliest(logprobs []float64, length func(choice int) int) int {
	best, highest := -1, math.Inf(-1)
	for i, p := range logprobs {
		if length != nil {
			p /= float64(max(1, length(i)))
		}
		if p > highest {
			best, highest = i, p
		}
	}
	return best
}

var word = regexp.MustCompile(`\s+`)

// Words returns the number of words of a text as the harness counts them for word_perplexity.
func Words(s string) int { return len(word.Split(s, -1)) }

// Score returns the score of an answer by a metric of type Generate, from 0 (wrong) to 1 (right).
// Of several targets, the one with the highest score counts. A pass@k metric scores a single answer
// by the metric that its setting check names.
func (m *Metric) Score(answer string, targets []string) float64 {
	name := m.Name
	if m.K > 0 {
		name = cmp.Or(m.check, "exact_match")
	}
	switch name {
	case "contains":
		return indicator(m.Contains(answer, targets))
	case "numeric_match":
		number, ok := lastNumber(answer)
		return indicator(ok && slices.ContainsFunc(targets, func(t string) bool {
			other, ok := lastNumber(t)
			return ok && other == number
		}))
	case "rouge1", "rouge2", "rougeL", "rougeLsum":
		best := 0.0
		for _, t := range targets {
			best = max(best, rouge[name](answer, t))
		}
		return best
	case "json_valid", "json_schema":
		return indicator(m.valid(answer))
	case "json_match":
		best := 0.0
		for _, t := range targets {
			best = max(best, m.fieldsRight(answer, t))
		}
		return best
	}
	return indicator(m.Exact(answer, targets))
}

// number matches a number, which may have commas between thousands.
var number = regexp.MustCompile(`-?\d[0-9,]*(\.\d+)?`)

func lastNumber(s string) (float64, bool) {
	all := number.FindAllString(s, -1)
	if len(all) == 0 {
		return 0, false
	}
	v, err := strconv.ParseFloat(strings.ReplaceAll(all[len(all)-1], ",", ""), 64)
	return v, err == nil
}

package task

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/dlclark/regexp2/v2"
	"go.yaml.in/yaml/v3"
)

// Metric is a score of a row, and how the scores of rows become one.
type Metric struct {
	Name         string
	Aggregation  string
	HigherBetter bool

	ignore                                     []*regexp2.Regexp
	ignoreCase, ignorePunctuation, ignoreDigit bool
}

// The metrics by type of task, with their aggregation.
var metrics = map[Type]map[string]string{
	Generate:       {"exact_match": "mean", "contains": "mean", "numeric_match": "mean", "pass@k": "mean"},
	MultipleChoice: {"acc": "mean", "acc_norm": "mean", "acc_bytes": "mean"},
	LogLikelihood:  {"acc": "mean", "perplexity": "perplexity"},
	Perplexity:     {"word_perplexity": "weighted_perplexity", "byte_perplexity": "weighted_perplexity", "bits_per_byte": "bits_per_byte"},
}

// metrics reads metric_list.
func (r *reader) metrics(n *yaml.Node) error {
	var list []struct {
		Metric      string   `yaml:"metric"`
		Aggregation string   `yaml:"aggregation"`
		Higher      *bool    `yaml:"higher_is_better"`
		IgnoreCase  bool     `yaml:"ignore_case"`
		Punctuation bool     `yaml:"ignore_punctuation"`
		Numbers     bool     `yaml:"ignore_numbers"`
		Regexes     []string `yaml:"regexes_to_ignore"`
	}
	if err := n.Decode(&list); err != nil {
		return err
	}
	for _, l := range list {
		m := Metric{
			Name: l.Metric, Aggregation: l.Aggregation, ignoreCase: l.IgnoreCase, ignorePunctuation: l.Punctuation, ignoreDigit: l.Numbers,
			HigherBetter: !strings.Contains(l.Metric, "perplexity") && l.Metric != "bits_per_byte",
		}
		if l.Higher != nil {
			m.HigherBetter = *l.Higher
		}
		for _, pattern := range l.Regexes {
			re, err := compile(pattern)
			if err != nil {
				return err
			}
			m.ignore = append(m.ignore, re)
		}
		r.task.Metrics = append(r.task.Metrics, m)
	}
	return nil
}

// check finds the metrics' aggregations for the type of the task, and refuses metrics that the type does not have.
func (r *reader) checkMetrics() error {
	t := r.task
	known := metrics[t.Type]
	if len(t.Metrics) == 0 {
		t.Metrics = []Metric{{Name: map[Type]string{Generate: "exact_match", MultipleChoice: "acc", LogLikelihood: "acc", Perplexity: "word_perplexity"}[t.Type],
			HigherBetter: t.Type != Perplexity}}
	}
	for i := range t.Metrics {
		m := &t.Metrics[i]
		aggregation, ok := known[m.Name]
		if !ok {
			return unsupported("metric %q of type %s", m.Name, t.Type)
		}
		if m.Aggregation != "" && m.Aggregation != aggregation {
			return unsupported("aggregation %q of metric %q", m.Aggregation, m.Name)
		}
		m.Aggregation = aggregation
	}
	return nil
}

// Exact reports whether an answer is one of the targets, after what the metric ignores is removed from both: expressions first, then
// case, punctuation and digits, as in the harness.
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

// Contains reports whether an answer contains one of the targets, after what the metric ignores is removed from both.
func (m *Metric) Contains(answer string, targets []string) bool {
	answer = m.normal(answer)
	return slices.ContainsFunc(targets, func(t string) bool { return strings.Contains(answer, m.normal(t)) })
}

// PassAtK returns the chance that at least one of k answers is right, drawn from n of which so many are right, without bias: M. Chen et
// al., "Evaluating Large Language Models Trained on Code" (arXiv 2107.03374), formula 1.
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

// Likeliest returns the number of the choice with the highest log-probability; per character or per UTF-8 byte of the choice without the
// delimiter before it, if lengths is characters or bytes.
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

// Characters returns the number of characters of a text.
func Characters(s string) int { return utf8.RuneCountInString(s) }

var word = regexp.MustCompile(`\s+`)

// Words returns the number of words of a text, as the harness counts them for perplexity per word.
func Words(s string) int { return len(word.Split(s, -1)) }

// Right reports whether an answer is right by a metric of Generate.
func (m *Metric) Right(answer string, targets []string) bool {
	switch m.Name {
	case "contains":
		return m.Contains(answer, targets)
	case "numeric_match":
		return slices.ContainsFunc(targets, func(t string) bool { return sameNumber(answer, t) })
	}
	return m.Exact(answer, targets)
}

// number matches a number as people write it, with commas between thousands.
var number = regexp.MustCompile(`-?\d[0-9,]*(\.\d+)?`)

// sameNumber compares the last numbers of two texts.
func sameNumber(a, b string) bool {
	x, okX := lastNumber(a)
	y, okY := lastNumber(b)
	return okX && okY && x == y
}

func lastNumber(s string) (float64, bool) {
	all := number.FindAllString(s, -1)
	if len(all) == 0 {
		return 0, false
	}
	v, err := strconv.ParseFloat(strings.ReplaceAll(all[len(all)-1], ",", ""), 64)
	return v, err == nil
}

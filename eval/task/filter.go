package task

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dlclark/regexp2/v2"
	"go.yaml.in/yaml/v3"

	"github.com/ingot-run/ingot/engine/jinja"
	"github.com/ingot-run/ingot/internal/ordered"
)

// Pipeline is a sequence of filters for the answers to a row. If a task has several pipelines, a
// row gets separate scores for each.
type Pipeline struct {
	Name  string
	steps []step
}

// step is a filter: one of this package, or a function in Python.
type step struct {
	filter filter
	first  bool // the filter takes the first answer, which is no list any more
	python func(given Filtered, row *ordered.Object) (Filtered, error)
}

// filter takes the answers to a row and returns the changed ones.
type filter func(answers []string, row *ordered.Object) []string

// Filtered are the answers to a row after filters. Filters in Python may make other values of
// texts.
type Filtered struct {
	Values []ordered.Value
	One    bool // a filter has taken one answer, so that Values are not a list in the harness
}

// Texts returns the answers as texts.
func (f Filtered) Texts() []string {
	list := make([]string, len(f.Values))
	for i, v := range f.Values {
		list[i] = jinja.Str(v)
	}
	return list
}

// Value returns the answers as functions in Python get them: a list, or the only answer.
func (f Filtered) Value() ordered.Value {
	if f.One && len(f.Values) == 1 {
		return f.Values[0]
	}
	return f.Values
}

// Apply applies all filters of the pipeline to the answers to a prompt.
func (p *Pipeline) Apply(answers []string, to *Prompt) (Filtered, error) {
	f := Filtered{Values: valuesOf(answers)}
	for _, s := range p.steps {
		if s.python == nil {
			f = Filtered{valuesOf(s.filter(f.Texts(), to.row)), f.One || s.first}
			continue
		}
		var err error
		if f, err = s.python(f, to.row); err != nil {
			return f, err
		}
	}
	return f, nil
}

func valuesOf(texts []string) []ordered.Value {
	list := make([]ordered.Value, len(texts))
	for i, text := range texts {
		list[i] = text
	}
	return list
}

// noMatch is the result of a regex filter that finds nothing, if the filter sets no other fallback.
const noMatch = "[invalid]"

// regexTime is the maximum time that a regular expression may take for one answer.
const regexTime = time.Second

// filterSettings are the settings of a filter in a task file.
type filterSettings struct {
	Function          string            `yaml:"function"`
	Pattern           string            `yaml:"regex_pattern"`
	Group             int               `yaml:"group_select"`
	Fallback          *string           `yaml:"fallback"`
	K                 int               `yaml:"k"`
	Mapping           map[string]string `yaml:"mapping_dict"`
	Default           *string           `yaml:"default_value"`
	IgnoreCase        bool              `yaml:"ignore_case"`
	IgnorePunctuation bool              `yaml:"ignore_punctuation"`
	Ignored           []string          `yaml:"regexes_to_ignore"`

	Unknown map[string]any `yaml:",inline"`

	options func(row *ordered.Object) []ordered.Value // the texts of a row's choices; nil for the column choices
}

// filters reads the key filter_list.
func (r *reader) filters(n *yaml.Node) error {
	var list []struct {
		Name   string      `yaml:"name"`
		Filter []yaml.Node `yaml:"filter"`
	}
	if err := n.Decode(&list); err != nil {
		return err
	}
	for _, l := range list {
		if slices.ContainsFunc(r.task.Filters, func(p Pipeline) bool { return p.Name == l.Name }) { // their scores could not be told apart
			return fmt.Errorf("two filters have the name %q: give each a name of its own", l.Name)
		}
		p := Pipeline{Name: l.Name}
		for i := range l.Filter {
			s, name, err := r.step(&l.Filter[i])
			if err != nil {
				return fmt.Errorf("filter %q of %q: %w", name, l.Name, err)
			}
			p.steps = append(p.steps, s)
		}
		r.task.Filters = append(r.task.Filters, p)
	}
	return nil
}

// step reads a filter. name is that of its function.
func (r *reader) step(n *yaml.Node) (made step, name string, err error) {
	name, settings, err := pythonFilter(n)
	switch {
	case err != nil:
		return step{}, name, err
	case name != "" && knownFilters[name] == "" || !bigBench.MatchString(r.task.Name) && name != "":
		return r.pythonStep(name, settings), name, nil
	}
	var s filterSettings
	if err := n.Decode(&s); err != nil {
		return step{}, s.Function, err
	}
	if name != "" {
		s.Function = knownFilters[name]
	}
	f, err := s.filter()
	return step{filter: f, first: s.Function == "take_first"}, s.Function, err
}

// filter returns the filter with these settings.
func (s *filterSettings) filter() (filter, error) {
	if len(s.Unknown) > 0 {
		return nil, unsupported("the setting %q", slices.Sorted(maps.Keys(s.Unknown))[0])
	}
	fallback := noMatch
	if s.Fallback != nil {
		fallback = *s.Fallback
	}
	switch s.Function {
	case "regex":
		return regexFilter(s.Pattern, s.Group, fallback)
	case "multi_choice_regex":
		return s.choiceFilter(fallback)
	case inputChoiceRegex:
		s.options = inputChoices
		return s.choiceFilter(fallback)
	case wordSort:
		return sortedWords, nil
	case "map":
		return each(s.mapped), nil
	case "take_first":
		return takeFirst, nil
	case "take_first_k":
		if s.K < 1 {
			return nil, fmt.Errorf("k is %d, but must be at least 1", s.K)
		}
		return func(a []string, _ *ordered.Object) []string { return a[:min(s.K, len(a))] }, nil
	case "majority_vote":
		return majority, nil
	case "remove_whitespace":
		return each(strings.TrimSpace), nil
	case "lowercase":
		return each(strings.ToLower), nil
	case "format_span":
		return each(spans), nil
	case "uppercase":
		return each(strings.ToUpper), nil
	}
	return nil, ErrUnsupported
}

// mapped returns the text that mapping_dict has for an answer, or else default_value.
func (s *filterSettings) mapped(answer string) string {
	if to, ok := s.Mapping[answer]; ok {
		return to
	}
	if s.Default != nil {
		return *s.Default
	}
	return "None"
}

func takeFirst(answers []string, _ *ordered.Object) []string { return answers[:min(1, len(answers))] }

func each(change func(string) string) filter {
	return func(answers []string, _ *ordered.Object) []string {
		changed := make([]string, len(answers))
		for i, a := range answers {
			changed[i] = change(a)
		}
		return changed
	}
}

// regexFilter returns a filter that replaces each answer by one match of a Python regular
// expression. group is the index of this match (the harness calls it group_select); a negative
// index counts from the end. If the expression has capture groups, the result is the first group of
// the match that is not empty. Without a match, or if all of several groups are empty, the result
// is fallback.
func regexFilter(pattern string, group int, fallback string) (filter, error) {
	re, err := compile(pattern, regexp2.None)
	if err != nil {
		return nil, err
	}
	severalGroups := len(re.GetGroupNumbers()) > 2 // the whole match is a group too
	return each(func(answer string) string {
		found := matches(re, answer)
		i := group
		if i < 0 {
			i += len(found)
		}
		if i < 0 || i >= len(found) || severalGroups && found[i] == "" {
			return fallback
		}
		return strings.TrimSpace(found[i])
	}), nil
}

func compile(pattern string, o regexp2.RegexOptions) (*regexp2.Regexp, error) {
	re, err := regexp2.Compile(pattern, o)
	if err != nil {
		return nil, fmt.Errorf("regular expression %q: %w", pattern, err)
	}
	re.MatchTimeout = regexTime
	return re, nil
}

func compileAll(patterns []string, o regexp2.RegexOptions) ([]*regexp2.Regexp, error) {
	list := make([]*regexp2.Regexp, len(patterns))
	for i, pattern := range patterns {
		var err error
		if list[i], err = compile(pattern, o); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// matches returns the matches of an expression in a text. If the expression has groups, it returns
// the first non-empty group of each match. It returns no matches if the expression takes longer
// than regexTime.
func matches(re *regexp2.Regexp, text string) (list []string) {
	m, err := re.FindStringMatch(text)
	for m != nil && err == nil {
		groups := m.Groups()
		found := groups[0].String()
		if len(groups) > 1 {
			for _, g := range groups[1:] {
				if found = g.String(); found != "" {
					break
				}
			}
		}
		list = append(list, found)
		m, err = re.FindNextMatch(m)
	}
	if err != nil {
		return nil
	}
	return list
}

// majority returns the answer that occurs most often. If several occur equally often, it returns
// the first of them.
func majority(answers []string, _ *ordered.Object) []string {
	counts := map[string]int{}
	for _, a := range answers {
		counts[a]++
	}
	best := ""
	for i, a := range answers {
		if i == 0 || counts[a] > counts[best] {
			best = a
		}
	}
	return []string{best}[:min(1, len(answers))]
}

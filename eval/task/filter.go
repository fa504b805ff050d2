package task

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dlclark/regexp2/v2"
	"go.yaml.in/yaml/v3"
)

// Pipeline is a sequence of filters for the answers to a row. If a task has several pipelines, a
// row gets separate scores for each.
type Pipeline struct {
	Name    string
	filters []filter
}

// filter takes the answers to a row and returns the changed ones.
type filter func(answers []string) []string

// Apply applies all filters of the pipeline to the answers to a row and returns the result.
func (p *Pipeline) Apply(answers []string) []string {
	for _, f := range p.filters {
		answers = f(answers)
	}
	return answers
}

// noMatch is the result of a regex filter that finds nothing, if the filter sets no other fallback.
const noMatch = "[invalid]"

// regexTime is the maximum time that a regular expression may take for one answer.
const regexTime = time.Second

// filters reads the key filter_list.
func (r *reader) filters(n *yaml.Node) error {
	var list []struct {
		Name   string `yaml:"name"`
		Filter []struct {
			Function string  `yaml:"function"`
			Pattern  string  `yaml:"regex_pattern"`
			Group    int     `yaml:"group_select"`
			Fallback *string `yaml:"fallback"`
			K        int     `yaml:"k"`

			Unknown map[string]any `yaml:",inline"`
		} `yaml:"filter"`
	}
	if err := n.Decode(&list); err != nil {
		return err
	}
	for _, l := range list {
		p := Pipeline{Name: l.Name}
		for _, f := range l.Filter {
			if len(f.Unknown) > 0 {
				return unsupported("setting %q of filter %q", slices.Sorted(maps.Keys(f.Unknown))[0], f.Function)
			}
			switch f.Function {
			case "regex":
				fallback := noMatch
				if f.Fallback != nil {
					fallback = *f.Fallback
				}
				made, err := regexFilter(f.Pattern, f.Group, fallback)
				if err != nil {
					return err
				}
				p.filters = append(p.filters, made)
			case "take_first":
				p.filters = append(p.filters, takeFirst)
			case "take_first_k":
				if f.K < 1 {
					return fmt.Errorf("filter %q of %q: k is %d, but must be at least 1", f.Function, l.Name, f.K)
				}
				p.filters = append(p.filters, func(a []string) []string { return a[:min(f.K, len(a))] })
			case "majority_vote":
				p.filters = append(p.filters, majority)
			case "remove_whitespace":
				p.filters = append(p.filters, each(strings.TrimSpace))
			case "lowercase":
				p.filters = append(p.filters, each(strings.ToLower))
			case "uppercase":
				p.filters = append(p.filters, each(strings.ToUpper))
			default:
				return unsupported("filter %q of %q", f.Function, l.Name)
			}
		}
		r.task.Filters = append(r.task.Filters, p)
	}
	return nil
}

func takeFirst(answers []string) []string { return answers[:min(1, len(answers))] }

func each(change func(string) string) filter {
	return func(answers []string) []string {
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
			found = ""
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
func majority(answers []string) []string {
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

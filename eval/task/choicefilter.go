package task

import (
	"slices"
	"strings"
	"unicode"

	"github.com/dlclark/regexp2/v2"

	"github.com/ingot-run/ingot/internal/ordered"
)

// choiceFilter returns the filter multi_choice_regex: it finds the letter of a choice, such as (B),
// in an answer. It looks for the regular expression, then for the text of a choice of the column
// choices, then for a letter after a colon.
func (s *filterSettings) choiceFilter(fallback string) (filter, error) {
	pattern, err := compile(s.Pattern, regexp2.None)
	if err != nil {
		return nil, err
	}
	ignored, err := compileAll(s.Ignored, regexp2.None)
	if err != nil {
		return nil, err
	}
	return func(answers []string, row *ordered.Object) []string {
		choices, letters, n := s.choices(row, ignored)
		return each(func(answer string) string {
			if m, ok := s.match(pattern, answer); ok {
				return m
			}
			if m, ok := s.match(choices, s.simplified(answer, ignored)); ok {
				if letter := letters[m]; letter != "" {
					return letter
				}
				return m
			}
			if m, ok := s.match(letterAfterColon(n), answer); ok {
				return "(" + m + ")"
			}
			return fallback
		})(answers, row)
	}, nil
}

// match returns the match with the number group_select, without white space around it. ok is false
// if there is none or if it is empty.
func (s *filterSettings) match(re *regexp2.Regexp, answer string) (m string, ok bool) {
	if re == nil {
		return "", false
	}
	found := matches(re, answer)
	i := s.Group
	if i < 0 {
		i += len(found)
	}
	if i < 0 || i >= len(found) {
		return "", false
	}
	m = strings.TrimSpace(found[i])
	return m, m != ""
}

// choices returns an expression that matches the texts of the choices, the longest first, the
// letter of each text, and the number of the choices.
func (s *filterSettings) choices(row *ordered.Object, ignored []*regexp2.Regexp) (re *regexp2.Regexp, letters map[string]string, n int) {
	letters = map[string]string{}
	list, err := columnList(row, "choices")
	if s.options != nil {
		list, err = s.options(row), nil
	}
	if err != nil {
		return nil, letters, 0
	}
	var texts []string
	for i, c := range list {
		text := s.simplified(strings.TrimSpace(textOf(c)), ignored)
		letters[text] = "(" + string(rune('A'+i)) + ")"
		texts = append(texts, regexp2.Escape(text))
	}
	slices.SortStableFunc(texts, func(a, b string) int { return length(b) - length(a) })
	re, _ = compile(strings.Join(texts, "|"), regexp2.None) // the texts are escaped
	return re, letters, len(list)
}

func length(s string) int { return len([]rune(s)) }

// letterAfterColon returns an expression that matches one of the first n letters after a colon.
func letterAfterColon(n int) *regexp2.Regexp {
	letters := make([]string, n)
	for i := range letters {
		letters[i] = string(rune('A' + i))
	}
	re, _ := compile(`:[\s]*(`+strings.Join(letters, "|")+`)`, regexp2.None) // letters are valid
	return re
}

// simplified returns a text without what the filter ignores.
func (s *filterSettings) simplified(text string, ignored []*regexp2.Regexp) string {
	for _, re := range ignored {
		if changed, err := re.Replace(text, "", -1, -1); err == nil {
			text = changed
		}
	}
	if s.IgnoreCase {
		text = strings.ToLower(text)
	}
	if s.IgnorePunctuation {
		text = strings.Map(func(r rune) rune {
			if unicode.Is(unicode.P, r) {
				return -1
			}
			return r
		}, text)
	}
	return text
}

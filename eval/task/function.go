package task

import (
	"regexp"
	"strings"

	"github.com/ingot-run/ingot/ordered"
)

// conversions are the Python functions of the harness's tasks that exist here, by task and function. Each adds columns to a row, which
// it does not change.
var conversions = map[string]func(row *ordered.Object) *ordered.Object{
	"hellaswag utils.process_docs": hellaswag,
}

// hellaswag adds the columns query and choices: the activity, the beginning of the text, and its endings, without WikiHow's marks.
func hellaswag(row *ordered.Object) *ordered.Object {
	text := func(name string) string {
		v, _ := row.Get(name)
		s, _ := v.(string)
		return s
	}
	made := row.Clone()
	made.Set("query", withoutMarks(text("activity_label")+": "+text("ctx_a")+" "+capitalised(text("ctx_b"))))
	endings, _ := row.Get("endings")
	list, _ := endings.([]ordered.Value)
	choices := make([]ordered.Value, len(list))
	for i, e := range list {
		choices[i] = withoutMarks(textOf(e))
	}
	made.Set("choices", choices)
	return made
}

// capitalised is Python's capitalize: the first character in upper case, the others in lower case.
func capitalised(s string) string {
	first, rest := s, ""
	for i := range s {
		if i > 0 {
			first, rest = s[:i], s[i:]
			break
		}
	}
	return strings.ToUpper(first) + strings.ToLower(rest)
}

var marks = regexp.MustCompile(`\[.*?\]`)

func withoutMarks(s string) string {
	s = strings.ReplaceAll(strings.TrimSpace(s), " [title]", ". ")
	return strings.ReplaceAll(marks.ReplaceAllString(s, ""), "  ", " ")
}

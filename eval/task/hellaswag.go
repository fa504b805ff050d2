package task

import (
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/ingot-run/ingot/internal/ordered"
)

// hellaswag adds the columns query (the activity and the beginning of the text) and choices (the
// endings), without WikiHow's marks such as [header].
func hellaswag(row *ordered.Object) (*ordered.Object, error) {
	texts, err := columnTexts(row, "activity_label", "ctx_a", "ctx_b")
	if err != nil {
		return nil, err
	}
	list, err := columnList(row, "endings")
	if err != nil {
		return nil, err
	}
	made := row.Clone()
	made.Set("query", withoutMarks(texts[0]+": "+texts[1]+" "+capitalised(texts[2])))
	choices := make([]ordered.Value, len(list))
	for i, e := range list {
		choices[i] = withoutMarks(textOf(e))
	}
	made.Set("choices", choices)
	return made, nil
}

// capitalised is Python's capitalize: the first character in upper case, the others in lower case.
func capitalised(s string) string {
	_, n := utf8.DecodeRuneInString(s)
	return strings.ToUpper(s[:n]) + strings.ToLower(s[n:])
}

var marks = regexp.MustCompile(`\[.*?\]`)

func withoutMarks(s string) string {
	s = strings.ReplaceAll(strings.TrimSpace(s), " [title]", ". ")
	return strings.ReplaceAll(marks.ReplaceAllString(s, ""), "  ", " ")
}

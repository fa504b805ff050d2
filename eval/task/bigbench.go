package task

import (
	"regexp"
	"slices"
	"strings"

	"github.com/dlclark/regexp2/v2"

	"github.com/ingot-run/ingot/internal/ordered"
)

// bigBench matches the names of the harness's tasks of BIG-Bench Hard whose filters are classes of
// their own.
var bigBench = regexp.MustCompile(`^bbh_(cot_)?zeroshot_`)

// Filters of these tasks.
const (
	inputChoiceRegex = "multi_choice_regex with the choices of the column input"
	wordSort         = "the words of the column input in the order of the answer"
)

// knownFilters maps classes of these tasks to filters.
var knownFilters = map[string]string{"utils.MultiChoiceRegexFilter": inputChoiceRegex, "utils.WordSortFilter": wordSort}

var inputChoice = regexp.MustCompile(`\([A-Z]\)([^\n^(]*)`)

// inputChoices returns the texts after the letters (A), (B) and so on in the column input.
func inputChoices(row *ordered.Object) (list []ordered.Value) {
	input, _ := columnText(row, "input") // a row without it has no choices
	for _, m := range inputChoice.FindAllStringSubmatch(input, -1) {
		list = append(list, m[1])
	}
	return list
}

// sortedWords replaces each answer by the words in it that follow "List:" in the column input. If
// the answer has a word several times, the last one counts.
func sortedWords(answers []string, row *ordered.Object) []string {
	input, _ := columnText(row, "input") // a row without it has no words
	_, list, _ := strings.Cut(input, "List:")
	list, _, _ = strings.Cut(list, "List:")
	var expressions []string
	for _, w := range strings.Fields(list) {
		expressions = append(expressions, `\b`+w+`\b`)
	}
	re, err := compile(strings.Join(expressions, "|"), regexp2.None)
	return each(func(answer string) string {
		if err != nil || expressions == nil {
			return ""
		}
		var words []string
		for _, w := range matches(re, answer) {
			words = append(slices.DeleteFunc(words, func(other string) bool { return other == w }), w)
		}
		return strings.Join(words, " ")
	})(answers, row)
}

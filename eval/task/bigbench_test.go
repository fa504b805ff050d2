package task

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/internal/ordered"
)

// TestFiltersOfBigBench: the answers are what the harness's utils.py of bbh/zeroshot gives.
func TestFiltersOfBigBench(t *testing.T) {
	t.Parallel()
	const settings = ", group_select: 0, ignore_case: true, ignore_punctuation: true, regex_pattern: '(\\([A-Z]\\))'"
	const date = "When?\nOptions:\n(A) 01/05/2021\n(B) May 6th, 2021\n(C) May 6th"
	for _, c := range []struct{ filter, input, answer, want string }{
		{"MultiChoiceRegexFilter" + settings, date, "It is (B), not (A).", "(B)"},
		{"MultiChoiceRegexFilter" + settings, date, "It is MAY 6th 2021!", "(B)"},
		{"MultiChoiceRegexFilter" + settings, date, "It is may 6th", "(C)"},
		{"MultiChoiceRegexFilter" + settings, date, "Answer: C", "(C)"},
		{"MultiChoiceRegexFilter" + settings, date, "Answer: D", "[invalid]"},
		{"MultiChoiceRegexFilter" + settings, "no choices", "Answer: A", "[invalid]"},
		{"WordSortFilter", "Sort these words: List: pear fig apple", "apple, fig and pear; fig", "apple pear fig"},
		{"WordSortFilter", "Sort these words: List: pear fig", "pears", ""},
		{"WordSortFilter", "no words", "pears", ""},
	} {
		for _, group := range []string{"bbh_zeroshot_date", "bbh_cot_zeroshot_date"} {
			task := written(t, "task: "+group+"\ndoc_to_text: input\ndoc_to_target: target\nfilter_list: [{name: f, filter: [{function: !function utils."+c.filter+"}, {function: take_first}]}]")
			row := ordered.NewObject()
			row.Set("input", c.input)
			row.Set("target", "x")
			p, err := task.Prompt(row, nil)
			require.NoError(t, err)
			got, err := task.Filters[0].Apply([]string{c.answer}, &p)
			require.NoError(t, err)
			require.Equal(t, []string{c.want}, got.Texts(), c.answer)
		}
	}
}

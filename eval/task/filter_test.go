package task

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/internal/ordered"
)

func TestFilters(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		filters        string
		answers, wants []string
	}{
		"the most frequent answer":              {"{function: majority_vote}", []string{"a", "b", "b"}, []string{"b"}},
		"of equally frequent ones, the first":   {"{function: majority_vote}", []string{"c", "b", "a", "b", "c", "a"}, []string{"c"}},
		"the most frequent answer is empty":     {"{function: majority_vote}", []string{"a", "", ""}, []string{""}},
		"of one answer":                         {"{function: majority_vote}", []string{"a"}, []string{"a"}},
		"of no answers":                         {"{function: majority_vote}", nil, []string{}},
		"the first":                             {"{function: take_first}", []string{"a", "b"}, []string{"a"}},
		"the first of none":                     {"{function: take_first}", nil, []string{}},
		"the first two":                         {"{function: take_first_k, k: 2}", []string{"a", "b", "c"}, []string{"a", "b"}},
		"the first two of one":                  {"{function: take_first_k, k: 2}", []string{"a"}, []string{"a"}},
		"white space":                           {"{function: remove_whitespace}", []string{" \t\n\r\v\fa b ", "c"}, []string{"a b", "c"}},
		"lower case":                            {"{function: lowercase}", []string{"ÄB", "c"}, []string{"äb", "c"}},
		"upper case":                            {"{function: uppercase}", []string{"äb", "C"}, []string{"ÄB", "C"}},
		"the first match":                       {`{function: regex, regex_pattern: '\d+'}`, []string{"1 22 3", "none"}, []string{"1", "[invalid]"}},
		"the second match":                      {`{function: regex, regex_pattern: '\d+', group_select: 1}`, []string{"1 22 3", "1"}, []string{"22", "[invalid]"}},
		"the last match":                        {`{function: regex, regex_pattern: '\d+', group_select: -1}`, []string{"1 22 3"}, []string{"3"}},
		"the first match from the end":          {`{function: regex, regex_pattern: '\d+', group_select: -3}`, []string{"1 22 3", "1 22"}, []string{"1", "[invalid]"}},
		"a group":                               {`{function: regex, regex_pattern: 'is (\w+)'}`, []string{"it is  so, it is it"}, []string{"it"}},
		"the first group that is not empty":     {`{function: regex, regex_pattern: 'a(b?)(c?)'}`, []string{"abc", "ac", "a"}, []string{"b", "c", "[invalid]"}},
		"one group that is empty":               {`{function: regex, regex_pattern: 'a(b?)'}`, []string{"ab", "a"}, []string{"b", ""}},
		"a match with white space around it":    {`{function: regex, regex_pattern: ':(.*)'}`, []string{"x: y "}, []string{"y"}},
		"another fallback":                      {`{function: regex, regex_pattern: '\d+', fallback: ''}`, []string{"none"}, []string{""}},
		"several filters, in order":             {`{function: regex, regex_pattern: '\w+$'}, {function: lowercase}, {function: majority_vote}`, []string{"x A", "B", "y a"}, []string{"a"}},
		"an expression that takes far too long": {`{function: regex, regex_pattern: '(a+)+$'}`, []string{"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab"}, []string{"[invalid]"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			task := written(t, plainTask+"filter_list: [{name: f, filter: ["+c.filters+"]}]")
			require.Equal(t, "f", task.Filters[0].Name)
			require.Equal(t, c.wants, apply(t, &task.Filters[0], c.answers, nil))
		})
	}
	task := written(t, plainTask)
	require.Len(t, task.Filters, 1)
	require.Equal(t, "none", task.Filters[0].Name)
	require.Equal(t, []string{"a"}, apply(t, &task.Filters[0], []string{"a"}, nil))
}

// apply returns the answers after a pipeline of filters.
func apply(t *testing.T, p *Pipeline, answers []string, row *ordered.Object) []string {
	t.Helper()
	f, err := p.Apply(answers, &Prompt{row: row})
	require.NoError(t, err)
	return f.Texts()
}

package task

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/internal/ordered"
)

// Python's repr of lists is read as Python reads it.
func TestPythonLists(t *testing.T) {
	t.Parallel()
	type list = []ordered.Value
	for text, want := range map[string]ordered.Value{
		`[]`: list{}, ` [ ] `: list{}, `()`: list{}, `['a', "b"]`: list{"a", "b"}, `['a',]`: list{"a"}, `('a', 1)`: list{"a", int64(1)},
		`[1, -2, 2.5, 1e3, True, False, None]`: list{int64(1), int64(-2), 2.5, 1000.0, true, false, nil}, `[True]`: list{true}, "[1,\n\t2]": list{int64(1), int64(2)},
		`[['a'], [], ('b')]`: list{list{"a"}, list{}, list{"b"}}, `'it\'s'`: "it's", `["it's"]`: list{"it's"}, `'a\\b\n\t\r\"'`: "a\\b\n\t\r\"", `'\x41\u00e9\U0001F600'`: "Aé😀", `'\U0010ffff'`: "\U0010ffff", `'\0\a\b\f\v'`: "\x00\a\b\f\v",
		`['''it's "so"''', """a''b"""]`: list{`it's "so"`, "a''b"},
		`''`:                            "", `'é'`: "é", `9223372036854775808`: 9223372036854775808.0, `7`: int64(7), `[[[[[[[[1]]]]]]]]`: list{list{list{list{list{list{list{list{int64(1)}}}}}}}},
	} {
		v, err := literal(text)
		require.NoError(t, err, text)
		require.Equal(t, want, v, text)
	}
	for text, says := range map[string]string{
		``: "the text ends within the list", `[`: "the closing bracket is missing", `['a'`: "a comma or the closing bracket is missing", `['a' 'b']`: "a comma or the closing bracket is missing",
		`['a')`: "a comma or the closing bracket is missing", `['a',`: "the closing bracket is missing", `[] x`: `unexpected text " x" after the list`, `[abc]`: `"abc" is not a text or number`,
		`'''a''`: "the closing quote of a text is missing",
		`['a]`:   "the closing quote of a text is missing", `'a\`: "the closing quote of a text is missing", `'\q'`: `the escape \q is not known or not complete`, `'\x4'`: "is not a character",
		`'\x4`: `the escape \x is not known or not complete`, `'\xzz'`: `the escape \xzz is not a character`, `'\U00110000'`: "is not a character",
		strings.Repeat("[", 10) + strings.Repeat("]", 10): "lists are nested more than 8 deep",
	} {
		_, err := literal(text)
		require.ErrorContains(t, err, says, text)
	}
	for text, want := range map[string][]string{"plain": {"plain"}, "['a', 'b']": {"a", "b"}, "[a": {"[a"}, "[x]": {"[x]"}, "[": {"["}, "[]": {}} {
		require.ElementsMatch(t, want, accepted(parsedTarget(text, true)), text)
	}
}

func TestChoices(t *testing.T) {
	t.Parallel()
	choices := []string{"no", "yes", "7", "1"}
	for _, c := range []struct {
		v    ordered.Value
		want int // -1 for none
	}{{int64(0), 0}, {int64(3), 3}, {int64(4), -1}, {int64(-1), -1}, {int64(7), -1}, {"yes", 1}, {"1", 3}, {"7", 2}, {"2", -1}, {"maybe", -1}, {true, 1}, {false, 0}, {2.0, 2}, {2.5, -1}} {
		got, err := index(c.v, choices)
		require.NoError(t, err)
		require.Equal(t, c.want, got, c.v)
	}
	for n, want := range map[int]int{1: 0, 2: 1, 3: 1} {
		got, err := index(true, choices[:n])
		require.NoError(t, err)
		require.Equal(t, want, got, "True is 1, or the only choice")
	}
	_, err := index(nil, choices)
	require.ErrorContains(t, err, "None is neither the number nor the text of a choice")
	length := func(i int) int { return []int{1, 4, 0}[i] }
	for _, c := range []struct {
		logprobs []float64
		length   func(int) int
		want     int
	}{{[]float64{-3, -1, -2}, nil, 1}, {[]float64{-1, -1}, nil, 0}, {[]float64{-3, -8, -3.5}, length, 1}, {[]float64{-3, -12, -2}, length, 2}, {nil, nil, -1}} {
		require.Equal(t, c.want, Likeliest(c.logprobs, c.length))
	}
	for text, n := range map[string]int{"": 1, "a": 1, "a b": 2, " a  b\n": 4} {
		require.Equal(t, n, Words(text), "as the harness counts: re.split")
	}
	for kind, generates := range map[Type]bool{Generate: true, Judge: true, MultipleChoice: false, LogLikelihood: false, Perplexity: false} {
		require.Equal(t, generates, kind.Generates(), kind)
	}
}

// Rules of IFEval's answers, as its Python code has them.
func TestRulesOfIFEval(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"a ****** b": true, "a ****** a": false, "a": false, "a ****** b ****** c": false, "****** a ****** b": true, "a ****** b ******": true, "a ****** ****** b": false, "******": false,
	} {
		require.Equal(t, want, twoResponses(text), text)
	}
	for _, c := range []struct {
		text  string
		n     number64
		nth   number64
		first string
		want  bool
	}{
		{"One.\n\nTwo, three", 2, 2, "two", true}, {"One.\n\nTwo, three", 2, 1, "ONE", true}, {"One.\n\nTwo", 3, 1, "one", false}, {"One.\n\nTwo", 2, 3, "two", false},
		{"One\n\n'\"Quoted\" x", 2, 2, "quoted", true}, {"One\n\n \n\nTwo", 2, 3, "two", false}, {"One\n\n.", 2, 2, "", true}, {"One\n\n\n\nTwo", 2, 2, "two", false}, {"\n\nOne", 1, 1, "one", false},
	} {
		require.Equal(t, c.want, startsNth(c.text, &instructions{Paragraphs: c.n, Nth: c.nth, FirstWord: c.first}), "%+v", c)
	}
	for text, want := range map[string][2]bool{"ABC 1": {true, false}, "abc 1": {false, true}, "Abc": {false, false}, "1": {false, false}, "ǅ": {false, false}, "": {false, false}} {
		require.Equal(t, want, [2]bool{isUpper(text), isLower(text)}, text)
	}
}

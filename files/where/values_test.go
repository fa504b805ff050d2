package where_test

import (
	_ "embed"
	"fmt"
	"strings"
	"testing"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/types"
	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/files/where"
)

var (
	// values has expressions of all types, many of them in a list.
	//go:embed testdata/values.txt
	values string

	// refused has expressions that fail with the message of expr-lang.org's module.
	//go:embed testdata/refused.txt
	refused string

	// messages has expressions that fail with another message than that of the module, which is
	// about its own code, or that have a type that it does not know. A tab is before the message.
	//go:embed testdata/messages.txt
	messages string

	// operands has expressions whose types are those of the module.
	//go:embed testdata/operands.txt
	operands string
)

func linesOf(text string) []string { return strings.Split(strings.TrimSuffix(text, "\n"), "\n") }

// referenceText returns the value of an expression as a text.
func referenceText(source string) (string, error) {
	env := types.Map{}
	for name := range record {
		env[name] = types.Any
	}
	program, err := expr.Compile("string("+source+")", expr.Env(env))
	if err != nil {
		return "", firstLine(err)
	}
	v, err := expr.Run(program, record)
	if err != nil {
		return "", firstLine(err)
	}
	return v.(string), nil
}

// requireText requires the value of an expression as a text.
func requireText(t *testing.T, source, want string) {
	t.Helper()
	match, err := ours(fmt.Sprintf("string(%s) == %q", source, want))
	require.NoError(t, err, source)
	require.True(t, match, "%s is not %s", source, want)
}

// TestValues: expressions have the values of expr-lang.org's module.
func TestValues(t *testing.T) {
	t.Parallel()
	for _, source := range linesOf(values) {
		want, err := referenceText(source)
		require.NoError(t, err, source)
		requireText(t, source, want)
	}
	for source, want := range map[string]string{ // that the module does not have
		`toJSON(groupBy([1, 2, 3], # % 2))`: "{\n  \"0\": [\n    2\n  ],\n  \"1\": [\n    1,\n    3\n  ]\n}",
		`toJSON([groupBy([1], "k")])`:       "[\n  {\n    \"k\": [\n      1\n    ]\n  }\n]",
		`toJSON({a: groupBy([1], 1.5)})`:    "{\n  \"a\": {\n    \"1.5\": [\n      1\n    ]\n  }\n}",
		// The module writes its own name of the type.
		`type(timezone("UTC"))`: "unknown",
		// The module has no order of keys.
		`keys({b: 1, e: 2, a: 3, d: 4, c: 5})`:   "[a b c d e]",
		`values({b: 1, e: 2, a: 3, d: 4, c: 5})`: "[3 1 5 4 2]",
		// The module multiplies a duration with a fraction to a number.
		`[duration("1h") * 1.5, 1.5 * duration("1h")]`: "[1h30m0s 1h30m0s]",
		// The module ends only chains of names.
		`[nothing?.[1].b, nothing?.["a"].b.c]`: "[<nil> <nil>]",
		`[find(array, # > 2), find(array, # > 9), find([0, 1], # == 0), findLast(array, # < 4), findLast(array, # > 9)]`:                                                            "[3 <nil> 0 3 <nil>]",
		`[findIndex(array, # > 2), findIndex(array, # > 9), findIndex(array, # == 1), findLastIndex(array, # < 4), findLastIndex(array, # == 5), findLastIndex(array, # > 5)]`:      "[2 <nil> 0 2 4 <nil>]",
		`[date(when).Month() + 1, date(when).Month() == 8, date(when).Month() > 7, -date(when).Month(), 2 * date(when).Month(), abs(date(when).Month()), date(when).Weekday() * 2]`: "[9 true true -8 16 August 6]",
		`[date(when).Weekday(), -date(when).Weekday(), date(when).Month() % 3, date(when).Weekday() == 3, date(when).Month() * 1.5, date(when).Weekday() * 1.5]`:                    "[Wednesday -3 2 true 12 4.5]",
	} {
		requireText(t, source, want)
	}
}

// TestRefused: expressions fail with the messages of expr-lang.org's module, at the same place.
func TestRefused(t *testing.T) {
	t.Parallel()
	for _, source := range linesOf(refused) {
		_, want := reference(source)
		require.Error(t, want, source)
		_, err := ours(source)
		require.EqualError(t, err, want.Error(), source)
	}
	for _, line := range linesOf(messages) {
		source, want, _ := strings.Cut(line, "\t")
		_, err := ours(source)
		require.EqualError(t, err, want, source)
	}
}

// TestTypes: operations on all types are refused, or fail, with the messages of expr-lang.org's
// module.
func TestTypes(t *testing.T) {
	t.Parallel()
	for _, operand := range linesOf(operands) {
		for _, operation := range []string{
			"(%s) + {}.x.y + true == 1", "(%s) + true == 1", "not (%s)", "(%s)[0] + true == 1", "(%s).foo + true == 1", "(%s) > true", "(%s) == {a: 1}", "(%s) in [true]", "\"x\" in (%s)",
			"(%s)[0:] == true", "all((%s), 1)", "now() + (%s) == 1", "duration(\"1s\") * (%s) == true", "(%s)..2 == true", "(%s) ? 1 : 2", "[1][%s] == \"a\"", "{a: 1}[%s] == \"a\"",
			"sortBy([1], #, %s) == 1", "(%s) matches \"a\" == 1", "(%s) %% 1 == true",
		} {
			source := fmt.Sprintf(operation, operand)
			got, err := ours(source)
			want, wantErr := reference(source)
			if wantErr != nil {
				require.EqualError(t, err, wantErr.Error(), source)
				continue
			}
			require.NoError(t, err, source)
			require.Equal(t, want, got, source)
		}
	}
}

// TestPlaces: an error gives the line and the column of its operation, in characters.
func TestPlaces(t *testing.T) {
	t.Parallel()
	for source, place := range map[string]string{
		"lang + i == 1": "(1:6)", "\"é\" == lang + i": "(1:13)", "ok and\nlang + i == 1": "(2:6)", "ok and\n\n  lang + i == 1": "(3:8)", "none\n== 1": "(1:1)", "ok and # == 1": "(1:8)",
	} {
		_, err := ours(source)
		require.ErrorContains(t, err, " "+place, source)
		require.True(t, strings.HasSuffix(err.Error(), place), source)
	}
	c, err := where.Compile("lang", nil)
	require.NoError(t, err)
	_, err = c.Match(map[string]any{"lang": 1})
	require.EqualError(t, err, "invalid operation: bool(int) (1:1)")
}

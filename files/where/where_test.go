package where_test

import (
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/types"
	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/files/where"
)

// expressions.txt has a line for each part of the language. They use the columns of record.
//
//go:embed testdata/expressions.txt
var expressions string

func lines() []string { return strings.Split(strings.TrimSpace(expressions), "\n") }

// otherRecord matches expressions that use what records do not have, or the record as a value.
var otherRecord = regexp.MustCompile(`\b(foobar|greet|add)\b|\$env($|[^.[])`)

// generated returns a thousand expressions of the tests of expr-lang.org's module. Their values
// have all types.
func generated(t *testing.T) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/expr-lang/expr").Output()
	if err != nil {
		t.Skipf("expressions of the tests of expr-lang.org are not compared: go list: %v", err)
	}
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(out)), "testdata", "generated.txt"))
	require.NoError(t, err)
	var all []string
	for i, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		if i%25 == 0 && !otherRecord.MatchString(line) {
			all = append(all, line)
		}
	}
	return all
}

// record has columns of all types.
var record = map[string]any{
	"ok": true, "i": 1, "f64": 0.5, "score": "3", "lang": "de", "str": "string", "nothing": nil, "when": "2024-08-14 10:30:00",
	"array": []any{1, 2, 3, 4, 5}, "words": []any{"b", "a", "c"}, "empty": []any{},
	"foo":  map[string]any{"Bar": "bar", "Qux": 2, "String": "x"},
	"list": []any{map[string]any{"Bar": "bar", "n": 2, "on": true}, map[string]any{"Bar": "baz", "n": 1.5, "on": false}},
}

// reference computes an expression with the module of expr-lang.org.
func reference(source string) (bool, error) {
	env := types.Map{}
	for name := range record {
		env[name] = types.Any
	}
	program, err := expr.Compile(source, expr.Env(env), expr.AsBool())
	if err != nil {
		return false, firstLine(err)
	}
	v, err := expr.Run(program, record)
	if err != nil {
		return false, firstLine(err)
	}
	return v.(bool), nil
}

// firstLine removes the lines that show the place in the source.
func firstLine(err error) error {
	text, _, _ := strings.Cut(err.Error(), "\n")
	return errors.New(text)
}

func ours(source string) (bool, error) {
	c, err := where.Compile(source, slices.Collect(maps.Keys(record)))
	if err != nil {
		return false, err
	}
	return c.Match(record)
}

// otherText matches expressions whose results the reference writes in another way: a group without
// elements, and bytes that are not UTF-8.
var otherText = regexp.MustCompile(`^groupBy\(.*\)\.\w+$|fromBase64`)

// TestGeneratedExpressions: of the expressions that have a result in the reference, 98 % have it
// here too, and none has another one. The others use a value where its type does not fit, which is
// refused here before the expression runs.
func TestGeneratedExpressions(t *testing.T) {
	t.Parallel()
	results, refused := 0, []string{}
	for _, source := range generated(t) {
		want, wantErr := referenceText(source)
		if wantErr != nil || otherText.MatchString(source) {
			continue
		}
		results++
		got, err := ours(fmt.Sprintf("string(%s) == %q", source, want))
		if err != nil {
			refused = append(refused, source+": "+err.Error())
			continue
		}
		require.True(t, got, "%s is not %s", source, want)
	}
	require.Greater(t, results, 900)
	require.LessOrEqual(t, 50*len(refused), results, refused)
}

// TestLikeTheReference: conditions hold where they hold for expr-lang.org's own module, and fail
// where they fail.
func TestLikeTheReference(t *testing.T) {
	t.Parallel()
	for _, source := range lines() {
		want, wantErr := reference(source)
		got, err := ours(source)
		if wantErr != nil {
			require.Error(t, err, source)
			continue
		}
		require.NoError(t, err, source)
		require.Equal(t, want, got, source)
	}
}

// TestSplicedExpressions: no expression panics, and where the reference has a result too, it is the
// same.
func TestSplicedExpressions(t *testing.T) {
	t.Parallel()
	all := append(lines(), generated(t)...)
	draw := rand.New(rand.NewPCG(1, 2))
	words := func() []string { return strings.Fields(all[draw.IntN(len(all))]) }
	for range 1500 {
		a, b := words(), words()
		source := strings.Join(append(a[:draw.IntN(len(a)+1)], b[draw.IntN(len(b)+1):]...), " ")
		got, err := ours(source)
		if want, wantErr := reference(source); err == nil && wantErr == nil {
			require.Equal(t, want, got, source)
		}
	}
}

// TestMessages: errors are those of expr-lang.org's module, with the place in the source. A few say
// more than it does.
func TestMessages(t *testing.T) {
	t.Parallel()
	for _, source := range []string{
		`lnag == "de"`, `lang ==`, `lang`, `score > 2`, `1 + "a"`, `nothing > 0`, `lang == "de`, `array[9] == 1`, `lang | foo`, `toJSON() == ""`,
		`int(lang) > 3`, `float("x") > 3`, `filter(array, 1) == []`, `all(1, true)`, `lang matches "["`, `$env["x"] == 1`, `foo.Bar.Baz == 1`,
		`let a = 1; let a = 2; a == 1`, `let len = 1; len == 1`, `"a" in [1, 2]`, `1 in {a: 1}`, `[1]["a"] == 1`, `(lang == 1`, `"a" + 1 == ""`,
		`unknown(1) == 1`, `#index == 1`, `map(array, #acc) == []`, `1 ? true : false`, `sortBy(array, #, 1) == []`, `now() + 1 == now()`, `lang ? 1 : 2`,
		`"abc"["a"] == 1`, `now().Foo() == 1`, `reduce([], #acc + #) == 1`, `bitshl(1, -1) == 1`, `repeat("a", 2000000) == ""`, `duration("x") == nil`,
		`date("x") == nil`, `1..2000000 == []`, `ok ?? true || false`, `lang.`, `foo."a" == 1`, `ok not == true`, `(let a = 1; a == 1) and a == 1`, `now().Year(1) == 1`,
		`now().AddDate(1) == now()`, `1 < "a"`, `1 contains "a"`, `true and 1`, `1..1.5 == []`, `[1][0] + "a" == ""`, `now().Year() + "a" == ""`, `sum([1]) + "a" == ""`,
		`sortBy([1], #)[0] + "a" == ""`, `filter([1], true)[0] + "a" == ""`, `(ok ? 1 : nil) + "a" == ""`, `(ok ? nil : 1) + "a" == ""`, `(1 ?? nil) + "a" == ""`, `(nil ?? 1) + "a" == ""`,
		`("a" ?? "b") + 1 == 1`, `sum([duration("1s")]) + "a" == ""`, `(ok ? 1 : 2) + "a" == ""`, `nothing.Foo() == 1`, `(ok ? [1] : ["a"]) + 1 == 1`, `9999999999999999999 == 1`, `{1: 2, +} == 1`, `nil.a == 1`, "lang ==\n  lnag",
	} {
		_, want := reference(source)
		_, err := ours(source)
		require.Error(t, want, source)
		require.EqualError(t, err, want.Error(), source)
	}
	for source, want := range map[string]string{
		`len(1)`:          "invalid argument for len (type int) (1:5)",
		`upper(1) == "A"`: "invalid argument for upper (type int) (1:7)",
		`not lang`:        "invalid operation: not needs bool, not string (1:1)",
		`i contains "1"`:  "invalid operation: cannot use int with contains: it must be string (1:3)",
		`lang() == ""`:    "lang is not a function (1:1)",
		`upper == ""`:     "upper is a function: call it (1:1)",
	} {
		_, err := ours(source)
		require.EqualError(t, err, want, source)
	}
}

// TestBeyondTheReference: months and days of the week are numbers, and a column may have the name
// of a function. expr-lang.org's module does not find them equal, or cannot call the function.
func TestBeyondTheReference(t *testing.T) {
	t.Parallel()
	c, err := where.Compile(`date(date).Month() == 8 and date(date).Weekday() == 3 and date == "2024-08-14"`, []string{"date"})
	require.NoError(t, err)
	match, err := c.Match(map[string]any{"date": "2024-08-14"})
	require.NoError(t, err)
	require.True(t, match)
}

// TestNames: only the columns that a condition may read have to be given.
func TestNames(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		`a == 1 and any(b, # > 1)`: "a b", `$env["a"] == 1`: "a b c", `let a = c; a == 1`: "c", `b.a == 1`: "b", `any([1], true)`: "",
	} {
		c, err := where.Compile(source, nil)
		require.NoError(t, err)
		var names []string
		for _, name := range []string{"a", "b", "c"} {
			if c.Names(name) {
				names = append(names, name)
			}
		}
		require.Equal(t, want, strings.Join(names, " "), source)
	}
}

// TestLimits: an expression cannot make lists or texts without bounds, and neither can its source.
func TestLimits(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		`len(map(1..1000, {let a = #; map(1..1000, a)})) > 0`:           "memory budget exceeded",
		`len(reduce(1..40, #acc + #acc, "0123456789")) > 0`:             "memory budget exceeded",
		strings.Repeat("1 + ", 20_000) + "1 > 0":                        "exceeds maximum allowed nodes",
		strings.Repeat("(", 20_000) + "1" + strings.Repeat(")", 20_000): "exceeds maximum allowed nodes",
		strings.Repeat("if ok { ", 20_000):                              "exceeds maximum allowed nodes",
	} {
		_, err := ours(source)
		require.ErrorContains(t, err, want)
	}
	_, err := ours("!(" + strings.Repeat("1 + ", 4997) + "1 > 0)") // ten thousand nodes
	require.NoError(t, err)
	_, err = ours("!!(" + strings.Repeat("1 + ", 4997) + "1 > 0)")
	require.ErrorContains(t, err, "exceeds maximum allowed nodes")
	for _, list := range []string{ // a thousand elements each
		"reverse(a)", "concat(a)", "filter(a, true)", "map(a, #)", "sortBy(a, #)", "groupBy(a, #)", "sort(a)", "-499..500", "repeat('a', 1000)", "uniq(a)[0] == 1 ? a : []", "flatten(a)",
	} {
		_, err := ours(`let a = map(1..1000, 1); len(map(a, {let b = ` + list + `; map(1..100, b)})) > 0`)
		require.ErrorContains(t, err, "memory budget exceeded", list)
		for range 2 { // what one record used does not count for the next
			match, err := ours(`let a = map(1..1000, 1); len(` + list + `) > 0`)
			require.NoError(t, err, list)
			require.True(t, match)
		}
	}
	for _, made := range []string{"[1, 2, 3]", "({a: 1, b: 2, c: 3})"} {
		_, err := ours(`len(map(1..1000, {map(1..300, ` + made + `)})) > 0`)
		require.ErrorContains(t, err, "memory budget exceeded", made)
		_, err = ours(`len(map(1..500, {map(1..300, ` + made + `)})) > 0`)
		require.NoError(t, err, made)
	}
	for _, c := range []struct {
		before, repeated, after string
		nodes                   int // of what is repeated
	}{
		{"ok", " ? ok : ok", "", 3}, {"foo", ".a[1]", "", 3}, {"foo", ".a().b()", "", 2}, {"array", "[1:]", "", 2}, {"", "- ", "1 > 0", 2}, {"1", " + 1", " > 0", 2},
		{"any([1], # > 0", " or #", ")", 3}, {"", "len(", "1", 2}, {"", "all(", "1", 2}, {"[", "1, 2, ", "]", 2}, {"ok", " or not ok", "", 4}, {"1", " < 1", "", 3}, {"ok", " ?? ok", "", 2},
	} {
		_, err := ours(c.before + strings.Repeat(c.repeated, 9900/c.nodes) + c.after)
		if err != nil {
			require.NotContains(t, err.Error(), "maximum allowed nodes", c.repeated)
		}
		_, err = ours(c.before + strings.Repeat(c.repeated, 10100/c.nodes) + c.after)
		require.ErrorContains(t, err, "exceeds maximum allowed nodes", c.repeated)
	}
}

package jinja

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/internal/ordered"
)

func renderWithin(tmpl *Template, ctx *ordered.Object, budget, maxText int) (string, error) {
	r := newRender(tmpl, ctx, vectorsNow)
	defer r.release()
	r.budget, r.maxOutput = budget, maxText
	return r.prompt()
}

// requireRendered renders templates and compares the results: want maps templates to prompts.
func requireRendered(t *testing.T, want map[string]string) {
	t.Helper()
	for source, text := range want {
		tmpl, err := Parse("t", source)
		require.NoError(t, err)
		out, err := tmpl.Render(nil, vectorsNow)
		require.NoError(t, err)
		require.Equal(t, text, out, source)
	}
}

// TestLimits renders templates that would never end or would fill the memory. Each must end soon
// with an error. The limits are lower than the real limits, so that the tests are fast.
func TestLimits(t *testing.T) {
	t.Parallel()
	grow := func(step string) string {
		return "{% set ns = namespace(x=" + step + ") %}{% for i in range(100000) %}{% set ns.x = "
	}
	tests := map[string]struct {
		template string
		want     error
	}{
		"loops":            {"{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}", errBudget},
		"output":           {"{% for a in range(100000) %}{{ 'x' * 10000 }}{% endfor %}", errOutput},
		"text":             {"{% for a in range(100000) %}" + strings.Repeat("x", 10000) + "{% endfor %}", errOutput},
		"captured output":  {"{% set x %}{% for a in range(100000) %}{{ 'x' * 10000 }}{% endfor %}{% endset %}", errOutput},
		"repeated string":  {"{{ 'x' * 100000000000 }}", errOutput},
		"repeated list":    {"{{ [1] * 100000000000 }}", errOutput},
		"doubled string":   {grow("'ab'") + "ns.x ~ ns.x %}{% endfor %}", errBudget},
		"added string":     {grow("'ab'") + "ns.x + ns.x %}{% endfor %}", errOutput},
		"doubled list":     {grow("[1]") + "ns.x + ns.x %}{% endfor %}", errOutput},
		"replaced":         {grow("'ab'") + "ns.x | replace('a', 'aaaa') %}{% endfor %}", errOutput},
		"joined":           {grow("'ab'") + "[ns.x, ns.x] | join(ns.x) %}{% endfor %}", errOutput},
		"formatted":        {grow("'ab'") + "'%s%s' % (ns.x, ns.x) %}{% endfor %}", errOutput},
		"filled in":        {grow("'ab'") + "'{0}{0}'.format(ns.x) %}{% endfor %}", errBudget},
		"indented":         {grow("'a\\nb'") + "ns.x | indent(ns.x) %}{% endfor %}", errOutput},
		"width":            {"{% set f = '%999999999d' %}{{ f % 1 }}", nil},
		"json indent":      {"{{ [[[1]]] | tojson(indent=10000000000) }}", nil},
		"json indents":     {"{{ [[[1]]] | tojson(indent='x' * 6000000) }}", errOutput},
		"json of sharing":  {grow("[1]") + "[ns.x, ns.x] %}{% if i > 40 %}{{ ns.x | tojson }}{% endif %}{% endfor %}", errOutput},
		"repr of sharing":  {grow("[1]") + "[ns.x, ns.x] %}{% if i > 40 %}{{ ns.x }}{% endif %}{% endfor %}", nil},
		"equal sharing":    {grow("[1]") + "[ns.x, ns.x] %}{% if i > 40 %}{{ ns.x == [ns.x[0], ns.x[1]] }}{% endif %}{% endfor %}", nil},
		"order of sharing": {grow("[1]") + "[ns.x, ns.x] %}{% if i > 40 %}{{ [ns.x, ns.x] < [ns.x] }}{% endif %}{% endfor %}", nil},
		"nested list":      {grow("[]") + "[ns.x] %}{% endfor %}{{ ns.x }}", errDepth},
		"nested json":      {grow("[]") + "[ns.x] %}{% endfor %}{{ ns.x | tojson }}", errDepth},
		"nested equality":  {grow("[]") + "[ns.x] %}{% endfor %}{% set a = [ns.x] %}{{ ns.x == a }}", errDepth},
		"nested filters":   {grow("[1]") + "ns.x | select %}{% endfor %}{{ ns.x | list }}", errDepth},
		"own member":       {"{% set ns = namespace() %}{% set ns.x = [ns] %}{{ ns }}", errDepth},
		"macros":           {"{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", errCalls},
		"two macros":       {"{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}", errCalls},
		"many macros":      {"{% macro m(n) %}{{ m(n + 1) }}{{ m(n + 1) }}{% endmacro %}{{ m(0) }}", errCalls},
		"range":            {"{{ range(100001) }}", nil},
		"huge range":       {"{{ range(-9223372036854775807, 9223372036854775807) }}", nil},
		"characters":       {"{% for a in range(100000) %}{% set x = ('x' * 100000) | list %}{% endfor %}", errBudget},
		"searches":         {"{% set x = 'x' * 1000000 %}{% for a in range(100000) %}{% set y = 'y' in x %}{% endfor %}", errBudget},
		"methods":          {"{% set x = 'x' * 1000000 %}{% for a in range(100000) %}{% set y = x.find('y') %}{% endfor %}", errBudget},
		"comparisons": {
			"{% set x = 'x' * 1000000 %}{% set z = 'x' * 1000000 %}{% for a in range(100000) %}{% set y = x == z %}{% endfor %}",
			errBudget,
		},
		"last characters": {"{% set x = 'x' * 1000000 %}{% for a in range(100000) %}{% set y = x[-1] %}{% endfor %}", errBudget},
		"long keys":       {"{% set x = 'x' * 1000000 %}{% for a in range(100000) %}{% set y = {x: 1} %}{% endfor %}", errBudget},
		"looked-up keys":  {"{% set x = 'x' * 1000000 %}{% set y = {x: 1} %}{% for a in range(100000) %}{% set z = y[x] %}{% endfor %}", errBudget},
		"dates":           {"{{ strftime_now('%d' * 2000000) }}", errBudget},
		"frames":          {"{% macro m() %}{% if x %}" + sets(1000) + "{% endif %}{% endmacro %}{% for i in range(100000) %}{{ m() }}{% endfor %}", errBudget},
		"prefixes":        {"{{ ('x' * 100000).startswith(('x' * 99999 ~ 'y',) * 100000) }}", errBudget},
		"lines":           {"{{ ('\\n' * 3000000).splitlines() }}", errOutput},
		"words":           {"{{ ('x ' * 3000000).split() }}", errOutput},
		"parts":           {"{{ ('x ' * 3000000).split(' ') }}", errOutput},
		"last parts":      {"{{ ('x ' * 3000000).rsplit(' ', 2500000) }}", errOutput},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tmpl, err := Parse(name, test.template)
			require.NoError(t, err)
			out, err := renderWithin(tmpl, ordered.NewObject(), maxBudget/8, maxOutput/8)
			require.Error(t, err, "the template rendered %d bytes", len(out))
			if test.want != nil {
				require.ErrorIs(t, err, test.want)
			}
		})
	}
}

// sets returns n statements. Each sets a different variable.
func sets(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "{%% set v%d = 1 %%}", i)
	}
	return b.String()
}

// TestRealLimits renders two templates that exceed the real limits.
func TestRealLimits(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]error{
		"{% for a in range(1000) %}{% set x = 'x' * 1000000 %}{% endfor %}": errBudget,
		"{{ ('x' * 1000000) * 65 }}{{ ('x' * 1000000) * 3 }}":               errOutput,
	} {
		tmpl, err := Parse("limit", source)
		require.NoError(t, err)
		_, err = tmpl.Render(nil, vectorsNow)
		require.ErrorIs(t, err, want)
	}
}

// TestParserLimits parses templates that are nested too deeply or are too long. Parsing must return
// an error and must not crash.
func TestParserLimits(t *testing.T) {
	t.Parallel()
	const n = 20_000
	deep := func(open, end string) string {
		return "{{ " + strings.Repeat(open, n) + "1" + strings.Repeat(end, n) + " }}"
	}
	for name, source := range map[string]string{
		"parentheses":  deep("(", ")"),
		"lists":        deep("[", "]"),
		"dictionaries": deep("{'a': ", "}"),
		"calls":        deep("f(", ")"),
		"signs":        deep("- ", ""),
		"nots":         deep("not ", ""),
		"sums":         deep("1 + ", ""),
		"powers":       deep("2 ** ", ""),
		"or":           deep("a or ", ""),
		"attributes":   deep("", ".a"),
		"items":        deep("", "[0]"),
		"results":      deep("", "()"),
		"filters":      deep("", "|e"),
		"tests":        deep("", " is defined == 1"),
		"conditions":   deep("1 if 2 else ", ""),
		"ifs":          strings.Repeat("{% if 1 %}", n),
		"loops":        strings.Repeat("{% for x in y %}", n),
		"macros":       strings.Repeat("{% macro m() %}", n),
		"targets":      "{% set " + strings.Repeat("(", n) + "a" + strings.Repeat(",)", n) + " = 1 %}",
		"block filter": "{% filter e" + strings.Repeat("|e", n) + " %}{% endfilter %}",
		"size":         strings.Repeat("x", maxSource+1),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Parse(name, source)
			if name == "tests" {
				require.NoError(t, err) // a chain of comparisons is not nested
				return
			}
			var located *Error
			require.ErrorAs(t, err, &located)
		})
	}
}

func TestErrorPlaces(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		"a\nb {{ x + }}":               "t.jinja:2:10: found '}}' where an expression is expected",
		"é {{ 'x }}":                   "t.jinja:1:6: the string has no closing quote",
		"{% if a %}\n{% for x in y %}": "t.jinja:2:17: the body of 'for' that begins here has no end",
		"{% if a %}{% endfor %}":       "t.jinja:1:14: found 'endfor' where elif or else or endif is expected",
		"{% endif %}":                  "t.jinja:1:4: found 'endif', but no statement is open here",
		"x\n\n  {{ a.b.c }}":           "t.jinja:3:7: 'a' is undefined",
		"{{ 1\n +\n 'a' }}":            "t.jinja:2:2: unsupported operand type(s) for +: 'int' and 'str'",
		"{% include 'x' %}":            "t.jinja:1:4: the statement 'include' is not supported in chat templates",
		"{{ x | nope }}":               "t.jinja:1:8: there is no filter named 'nope'",
		"{{ [] | join(1, 2, 3) }}":     "t.jinja:1:9: join: takes at most 2 arguments, not 3",
		"{% macro m(a) %}\n{{ a.b.c }}{% endmacro %}\n{{ m({}) }}": "t.jinja:2:7: 'dict object' has no attribute 'b'",
		"\xff": "t.jinja:1:1: the template is not UTF-8",
		"{# x": "t.jinja:1:1: the comment has no end: #} is missing",
		"{{ raise_exception('no system role') }}": "t.jinja:1:19: no system role",
	} {
		tmpl, err := Parse("t.jinja", source)
		if err == nil {
			_, err = tmpl.Render(ordered.NewObject(), time.Time{})
		}
		require.EqualError(t, err, want, source)
		var located *Error
		require.ErrorAs(t, err, &located)
	}
}

// TestLongTexts renders operations on long texts. The time must not grow with the square of the
// length.
func TestLongTexts(t *testing.T) {
	t.Parallel()
	requireRendered(t, map[string]string{
		"{{ ('é' * 10000000).strip('ü' * 10000000 ~ 'é') | length }}": "0",
	})
}

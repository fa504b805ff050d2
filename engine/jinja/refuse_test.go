package jinja

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestRefused parses unsupported features of Jinja and Python. The error must name the feature.
func TestRefused(t *testing.T) {
	t.Parallel()
	refused := map[string]string{ // errors by template
		"{% for x in y recursive %}{% endfor %}":      "1:15: recursive loops are not supported in chat templates",
		"{{ 2 ** 3 }}":                                "1:6: the operator ** is not supported in chat templates",
		"{{ x[1, 2] }}":                               "1:7: a tuple as a key is not supported in chat templates",
		"{% macro m() %}{{ caller() }}{% endmacro %}": "1:19: the name 'caller' is not supported in chat templates",
		"{% macro m() %}{{ kwargs }}{% endmacro %}":   "1:19: the name 'kwargs' is not supported in chat templates",
		"{{ 0x1f }}":                                  "1:4: numbers with 'x' are not supported in chat templates; use decimal digits",
		"{{ 1_000 }}":                                 "1:4: numbers with '_' are not supported in chat templates; use decimal digits",
		`{{ '\101' }}`:                                `1:4: the escape \1 in strings is not supported in chat templates; use \x or \u`,
		`{{ '\N{x}' }}`:                               `1:4: the escape \N in strings is not supported in chat templates; use \x or \u`,

		"{{ '%r' % x }}":                "1:9: the format field at the start of \"%r\" is not supported in chat templates; use %s, %d or %f",
		"{{ '%*d' % (1, 2) }}":          "1:10: the format field at the start of \"%*d\" is not supported in chat templates; use %s, %d or %f",
		"{{ '%.2d %1000d' % x }}":       "1:18: the format field at the start of \"%.2d %1000\" is not supported in chat templates; use %s, %d or %f",
		"{{ '%x' | format(1) }}":        "1:11: the format field at the start of \"%x\" is not supported in chat templates; use %s, %d or %f",
		"{{ '{:>5}'.format(x) }}":       "1:18: the format field at the start of \"{:>5}\" is not supported in chat templates; use {} or {name}",
		"{{ '{a.b}'.format(a=x) }}":     "1:18: the format field at the start of \"{a.b}\" is not supported in chat templates; use {} or {name}",
		"{{ '{!r}'.format(x) }}":        "1:17: the format field at the start of \"{!r}\" is not supported in chat templates; use {} or {name}",
		"{{ strftime_now('%U') }}":      "1:16: strftime_now: the conversion at the start of \"%U\" is not supported in chat templates",
		"{{ strftime_now('%d %-Q!') }}": "1:16: strftime_now: the conversion at the start of \"%-Q\" is not supported in chat templates",
	}
	for _, name := range refusedStatements {
		refused["{% "+name+" x %}"] = "1:4: the statement '" + name + "' is not supported in chat templates"
	}
	for _, name := range refusedFilters {
		refused["{% if x %}{{ y | "+name+" }}{% endif %}"] = "1:18: the filter '" + name + "' is not supported in chat templates"
	}
	for _, name := range refusedTests {
		refused["{% if x is "+name+" %}{% endif %}"] = "1:12: the test '" + name + "' is not supported in chat templates"
	}
	for _, name := range refusedGlobals {
		refused["{{ "+name+"(1) }}"] = "1:4: the name '" + name + "' is not supported in chat templates"
	}
	for _, name := range refusedMethods {
		refused["{{ x."+name+"() }}"] = "1:5: the method '" + name + "' is not supported in chat templates"
	}
	for _, name := range refusedOfLoop {
		refused["{% for x in y %}{{ loop."+name+" }}{% endfor %}"] = "1:25: the attribute '" + name + "' of loop is not supported in chat templates"
	}
	for source, want := range refused {
		_, err := Parse("t", source)
		require.EqualError(t, err, "t:"+want, source)
		_, err = ParseStrict("t", "rubrics", source)
		assert.EqualError(t, err, "t:"+strings.Replace(want, "chat templates", "rubrics", 1), source)
	}
}

// TestNotRefused renders templates that must not be refused: a template may define a name that is
// refused elsewhere, and it may use an unknown filter in a branch that is not executed.
func TestNotRefused(t *testing.T) {
	t.Parallel()
	requireRendered(t, map[string]string{
		"{% macro joiner(a) %}{{ a }}{% endmacro %}{{ joiner(1) }}":              "1",
		"{% set kwargs = 2 %}{% macro m() %}{{ kwargs }}{% endmacro %}{{ m() }}": "2",
		"{% if false %}{{ 'x' | from_json }}{% endif %}":                         "",
		"{{ {'center': 1}.center }}":                                             "1",
	})
}

// TestRefusedWhenUsed renders templates that are refused only for certain values of a chat.
func TestRefusedWhenUsed(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		"{{ ('%' ~ 'x') % 1 }}":            "t:1:16: the format field at the start of \"%x\" is not supported in chat templates; use %s, %d or %f",
		"{{ {none: 1} }}":                  "t:1:4: the keys of a dictionary must be strings or 64-bit integers, not NoneType",
		"{{ {1.5: 1} }}":                   "t:1:4: the keys of a dictionary must be strings or 64-bit integers, not float",
		"{{ ('x' | safe).upper() }}":       "t:1:22: the method 'upper' of a string that the filter 'safe' has marked is not supported; apply 'safe' last",
		"{{ 'x' | safe | trim }}":          "t:1:17: applying the filter 'trim' to a string that the filter 'safe' has marked is not supported; apply 'safe' last",
		"{{ ('x' | safe)[0] }}":            "t:1:16: an item of a string that the filter 'safe' has marked is not supported; apply 'safe' last",
		"{{ ('x' | safe)[:1] }}":           "t:1:16: a slice of a string that the filter 'safe' has marked is not supported; apply 'safe' last",
		"{{ {}.keys() == {}.keys() }}":     "t:1:14: a value of type 'dict_keys' cannot be compared; convert it with the filter \"list\"",
		"{{ 1 | round(-1) }}":              "t:1:8: round: a precision of -1 digits is not supported; use 0 to 300",
		"{{ [1].append(2) }}":              "t:1:14: access to attribute 'append' of 'list' object is not allowed in templates",
		"{{ (['a'] | map('upper')) ~ 1 }}": "t:1:27: a value of type 'generator' cannot be printed",
	} {
		tmpl, err := Parse("t", source)
		require.NoError(t, err, source)
		_, err = tmpl.Render(nil, vectorsNow)
		assert.EqualError(t, err, want, source)
	}
}

package jinja_test

import (
	"fmt"
	"math/big"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/jinja"
)

func Example() {
	tmpl, err := jinja.Parse("small.jinja", `
{%- for m in messages %}
<|{{ m.role }}|>{{ m.content }}
{% endfor %}
{% if add_generation_prompt %}
<|assistant|>
{% endif %}`)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, err := jinja.ParseJSON([]byte(`{"messages": [{"role": "user", "content": "Hi!"}]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	object := ctx.(*jinja.Object)
	object.Set("add_generation_prompt", true)
	prompt, err := tmpl.Render(object, time.Now())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(prompt)
	// Output:
	// <|user|>Hi!
	// <|assistant|>
}

func render(t *testing.T, source, ctx string) string {
	t.Helper()
	tmpl, err := jinja.Parse("t", source)
	require.NoError(t, err)
	v, err := jinja.ParseJSON([]byte(ctx))
	require.NoError(t, err)
	out, err := tmpl.Render(v.(*jinja.Object), time.Time{})
	require.NoError(t, err)
	return out
}

func TestJSONGoesThroughUnchanged(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`{"z": 1, "a": {"y": [], "b": {}}, "m": null}`,
		`[1, 1.0, -0.5, 1e+16, 123456789012345678901234567890, true, false, null]`,
		`"<b> & 'quotes' \"é\" \\ 日本 🎉 \n\t\u0001"`,
		`{"10": 1, "9": 2, "1": 3, "2": 4, "3": 5, "4": 6, "5": 7, "6": 8, "7": 9, "8": 10, "0": 11}`,
	} {
		require.Equal(t, text, render(t, "{{ x | tojson }}", `{"x":`+text+`}`))
	}
}

func TestParseJSONErrors(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		``:                                    "parse JSON: offset 0: the text ends where a value is expected",
		`{"a" 1}`:                             "parse JSON: offset 5: found '1' where a colon is expected",
		`{"a": 1,}`:                           "parse JSON: offset 8: found '}' where a key is expected",
		`[1 2]`:                               "parse JSON: offset 3: found '2' where a comma or a closing bracket is expected",
		`[1] x`:                               "parse JSON: offset 4: found 'x' where the end is expected",
		`01`:                                  "parse JSON: offset 1: found '1' where the end of the number 0 is expected",
		`-`:                                   "parse JSON: offset 1: the text ends where a digit is expected",
		`"a`:                                  "parse JSON: offset 2: the text ends where a closing quote is expected",
		`"\q"`:                                "parse JSON: offset 2: found 'q' where an escape is expected",
		"\"\n\"":                              `parse JSON: offset 1: a string holds the control character '\n' unescaped`,
		"\"\xff\"":                            "parse JSON: the text is not UTF-8",
		`NaN`:                                 "parse JSON: offset 0: found 'N' where a value is expected",
		"[" + strings.Repeat("9", 5000) + "]": "parse JSON: offset 5001: an integer has more than 4300 digits",
	} {
		_, err := jinja.ParseJSON([]byte(text))
		require.EqualError(t, err, want)
	}
	_, err := jinja.ParseJSON([]byte(strings.Repeat("[", 100_000)))
	require.ErrorContains(t, err, "nested more than")
}

func TestParseJSONNumbers(t *testing.T) {
	t.Parallel()
	huge, _ := new(big.Int).SetString("9223372036854775808", 10)
	for text, want := range map[string]jinja.Value{
		"1": int64(1), "1.0": 1.0, "1e2": 100.0, "-9223372036854775808": int64(-1 << 63), "9223372036854775808": huge,
	} {
		got, err := jinja.ParseJSON([]byte(text))
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

func TestObjectKeepsOrder(t *testing.T) {
	t.Parallel()
	o := jinja.NewObject()
	var keys []string
	for i := range 100 {
		keys = append(keys, fmt.Sprint("key", 100-i))
		o.Set(keys[i], int64(i))
	}
	o.Set(keys[50], "changed")
	c := o.Clone()
	c.Set("new", true)
	c.Set(keys[0], nil)
	require.Equal(t, keys, o.Keys())
	require.Equal(t, append(keys, "new"), c.Keys())
	v, ok := o.Get(keys[50])
	require.True(t, ok)
	require.Equal(t, "changed", v)
	v, _ = o.Get(keys[0])
	require.Equal(t, int64(0), v)
	_, ok = o.Get("new")
	require.False(t, ok)
}

func TestValuesOfOtherTypesAreRefused(t *testing.T) {
	t.Parallel()
	ctx := jinja.NewObject()
	ctx.Set("x", map[string]any{"a": 1})
	for _, source := range []string{
		"{{ x }}", "{{ x + 1 }}", "{{ x | tojson }}", "{{ [x] }}", "{{ x | list }}", "{{ {x: 1} }}", "{{ x < x }}", "{{ x[0].y }}",
	} {
		tmpl, err := jinja.Parse("t", source)
		require.NoError(t, err)
		_, err = tmpl.Render(ctx, time.Time{})
		require.Error(t, err, source)
	}
}

func TestRaiseError(t *testing.T) {
	t.Parallel()
	tmpl, err := jinja.Parse("gemma", "{% if messages[0].role == 'system' %}\n{{ raise_exception('System role not supported') }}{% endif %}")
	require.NoError(t, err)
	v, err := jinja.ParseJSON([]byte(`{"messages": [{"role": "system", "content": "x"}]}`))
	require.NoError(t, err)
	_, err = tmpl.Render(v.(*jinja.Object), time.Time{})
	var refused *jinja.RaiseError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, "System role not supported", refused.Message)
	require.EqualError(t, err, "gemma:2:19: System role not supported")
}

// TestConcurrentRendering renders one template with one context from many goroutines at once.
func TestConcurrentRendering(t *testing.T) {
	t.Parallel()
	tmpl, err := jinja.Parse("t", `{% set ns = namespace(n=0) %}{% macro m(x) %}<{{ x }}>{% endmacro %}`+
		`{% for m_ in messages if m_.role %}{% set ns.n = ns.n + loop.index %}{{ m(m_.content | upper) }}{% endfor %}{{ ns.n }}{{ who }}`)
	require.NoError(t, err)
	v, err := jinja.ParseJSON([]byte(`{"messages": [{"role": "user", "content": "é"}, {"role": "user", "content": "b"}]}`))
	require.NoError(t, err)
	shared := v.(*jinja.Object)
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for range 200 {
				own := shared.Clone()
				own.Set("who", int64(i))
				out, err := tmpl.Render(own, time.Time{})
				if err != nil || out != fmt.Sprintf("<É><B>3%d", i) {
					t.Errorf("goroutine %d: %q, %v", i, out, err)
					return
				}
				if out, err = tmpl.Render(shared, time.Time{}); err != nil || out != "<É><B>3" {
					t.Errorf("goroutine %d, shared: %q, %v", i, out, err)
					return
				}
			}
		})
	}
	group.Wait()
}

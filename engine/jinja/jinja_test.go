package jinja_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/jinja"
	"github.com/ingot-run/ingot/internal/ordered"
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
	ctx, err := ordered.ParseJSON([]byte(`{"messages": [{"role": "user", "content": "Hi!"}]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	object := ctx.(*ordered.Object)
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
	v, err := ordered.ParseJSON([]byte(ctx))
	require.NoError(t, err)
	out, err := tmpl.Render(v.(*ordered.Object), time.Time{})
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

func TestValuesOfOtherTypesAreRefused(t *testing.T) {
	t.Parallel()
	ctx := ordered.NewObject()
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
	v, err := ordered.ParseJSON([]byte(`{"messages": [{"role": "system", "content": "x"}]}`))
	require.NoError(t, err)
	_, err = tmpl.Render(v.(*ordered.Object), time.Time{})
	var refused *jinja.RaiseError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, "System role not supported", refused.Message)
	require.EqualError(t, err, "gemma:2:19: System role not supported")
}

// TestConcurrentRendering renders one template on many goroutines. Each goroutine uses a separate
// context and a shared one in turn.
func TestConcurrentRendering(t *testing.T) {
	t.Parallel()
	tmpl, err := jinja.Parse("t", `{% set ns = namespace(n=0) %}{% macro m(x) %}<{{ x }}>{% endmacro %}`+
		`{% for m_ in messages if m_.role %}{% set ns.n = ns.n + loop.index %}{{ m(m_.content | upper) }}{% endfor %}{{ ns.n }}{{ who }}`)
	require.NoError(t, err)
	v, err := ordered.ParseJSON([]byte(`{"messages": [{"role": "user", "content": "é"}, {"role": "user", "content": "b"}]}`))
	require.NoError(t, err)
	shared := v.(*ordered.Object)
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
					t.Errorf("goroutine %d, shared context: %q, %v", i, out, err)
					return
				}
			}
		})
	}
	group.Wait()
}

package jinja

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/internal/ordered"
)

// FuzzTemplate parses and renders arbitrary text. The result must be a prompt or an *Error. A
// second rendering must give the same result, and the context must not change.
func FuzzTemplate(f *testing.F) {
	table, ctx := readConformance(f)
	for _, c := range table.Cases {
		f.Add(c.Template)
	}
	f.Add(chatML)
	const budget = 1 << 22
	f.Fuzz(func(t *testing.T, source string) {
		tmpl, err := Parse("fuzz", source)
		if err != nil {
			var located *Error
			require.ErrorAs(t, err, &located)
			return
		}
		before := mustRepr(t, ctx)
		first, err1 := renderWithin(tmpl, ctx, budget, maxOutput)
		second, err2 := renderWithin(tmpl, ctx, budget, maxOutput)
		require.Equal(t, first, second)
		require.Equal(t, err1, err2)
		require.Equal(t, before, mustRepr(t, ctx))
		if err1 == nil {
			require.True(t, utf8.ValidString(first))
		}
	})
}

// FuzzToJSON checks that tojson writes JSON that parses to the same values.
func FuzzToJSON(f *testing.F) {
	for _, seed := range []string{`{"a":[1,-2.5e3,true,null,"\u00e9\ud83c\udf89\n"],"b":{}}`, `[]`, `"x"`, `-0`, `1e999`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := ordered.ParseJSON(data)
		if err != nil {
			return
		}
		r := newRender(&Template{}, nil, vectorsNow)
		text := filterToJSON(r, v, args{})
		if strings.Contains(text.(string), "Infinity") {
			return // Python prints this value as NaN or Infinity, which is not JSON
		}
		again, err := ordered.ParseJSON([]byte(text.(string)))
		require.NoError(t, err)
		require.Equal(t, mustRepr(t, v), mustRepr(t, again))
	})
}

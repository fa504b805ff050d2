package ordered_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ingot-run/ingot/internal/ordered"
)

// spaced adds white space at places where JSON allows it.
func spaced(t *rapid.T, text []byte) []byte {
	space := rapid.StringOfN(rapid.RuneFrom([]rune(" \t\r\n")), 0, 2, -1)
	var all []byte
	quoted := false
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case quoted && c == '\\':
			all = append(all, c, text[i+1])
			i++
			continue
		case c == '"':
			quoted = !quoted
		case !quoted && (c == ',' || c == ':' || c == '[' || c == ']' || c == '{' || c == '}'):
			all = append(append(append(all, space.Draw(t, "before")...), c), space.Draw(t, "after")...)
			continue
		}
		all = append(all, c)
	}
	return all
}

// anyJSON draws a JSON value.
func anyJSON(depth int) *rapid.Generator[any] {
	kinds := []*rapid.Generator[any]{
		rapid.Just[any](nil), rapid.Bool().AsAny(), rapid.Float64Range(-1e9, 1e9).AsAny(), rapid.IntRange(-9, 9).AsAny(), rapid.String().AsAny(),
	}
	if depth > 0 {
		inner := anyJSON(depth - 1)
		kinds = append(kinds, rapid.SliceOfN(inner, 0, 4).AsAny(), rapid.MapOfN(rapid.String(), inner, 0, 4).AsAny())
	}
	return rapid.OneOf(kinds...)
}

// The parts of objects and arrays are those that encoding/json reads.
func TestPartsOfJSON(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		object, err := json.Marshal(rapid.MapOfN(rapid.String(), anyJSON(3), 0, 6).Draw(t, "object"))
		require.NoError(t, err)
		text := spaced(t, object)
		want := map[string]json.RawMessage{}
		require.NoError(t, json.Unmarshal(text, &want))
		got := map[string]json.RawMessage{}
		for key, value := range ordered.Members(text) {
			got[key] = value
		}
		require.Equal(t, want, got)

		array, err := json.Marshal(rapid.SliceOfN(anyJSON(3), 0, 6).Draw(t, "array"))
		require.NoError(t, err)
		text = spaced(t, array)
		list := []json.RawMessage{}
		require.NoError(t, json.Unmarshal(text, &list))
		parts := []json.RawMessage{}
		for e := range ordered.Items(text) {
			parts = append(parts, e)
		}
		require.Equal(t, list, parts)
	})
}

// The last of several values of a key counts, and keys may have escapes, as in encoding/json.
func TestKeysOfObjects(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`{"a":1,"a":2}`, `{"\u0061":1,"a":2}`, `{"a":1,"\u0061":2}`, `{"é\n\"":1}`, "{\"\xff\":1}", `{"\ud800":1}`, ` { } `, `{"":{"":[]}}`} {
		want := map[string]json.RawMessage{}
		require.NoError(t, json.Unmarshal([]byte(text), &want))
		got := map[string]json.RawMessage{}
		for key, value := range ordered.Members([]byte(text)) {
			got[key] = value
		}
		require.Equal(t, want, got, text)
	}
}

func TestPlainStrings(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`"a~ "`, `""`} {
		s, ok := ordered.Plain([]byte(text))
		require.True(t, ok)
		require.Equal(t, text, `"`+s+`"`)
	}
	for _, text := range []string{`"\n"`, `"é"`, "\"\x7f\"", `1`, `null`, `["a"]`} {
		_, ok := ordered.Plain([]byte(text))
		require.False(t, ok, text)
	}
}

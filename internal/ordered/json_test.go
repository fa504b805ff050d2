package ordered_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/jinja"
	"github.com/ingot-run/ingot/internal/ordered"
)

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
		`"\q"`:                                "parse JSON: offset 2: found 'q' where an escape of JSON is expected",
		"\"\n\"":                              `parse JSON: offset 1: a string contains the control character '\n', which must be escaped`,
		"\"\xff\"":                            "parse JSON: offset 1: the text is not UTF-8",
		`NaN`:                                 "parse JSON: offset 0: found 'N' where a value is expected",
		"[" + strings.Repeat("9", 5000) + "]": "parse JSON: offset 5001: an integer has more than 4300 digits",
	} {
		_, err := ordered.ParseJSON([]byte(text))
		require.EqualError(t, err, want)
		require.Error(t, ordered.Fault([]byte(text)))
	}
	require.EqualError(t, ordered.Fault([]byte("not")), "byte 1: found 'n' where a value is expected")
	require.NoError(t, ordered.Fault([]byte("null")))
	_, err := ordered.ParseJSON([]byte(strings.Repeat("[", 100_000)))
	require.ErrorContains(t, err, "nested more than")
}

func TestParseJSONNumbers(t *testing.T) {
	t.Parallel()
	huge, _ := new(big.Int).SetString("9223372036854775808", 10)
	for text, want := range map[string]jinja.Value{
		"1": int64(1), "1.0": 1.0, "1e2": 100.0, "-9223372036854775808": int64(-1 << 63), "9223372036854775808": huge,
	} {
		got, err := ordered.ParseJSON([]byte(text))
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

// FuzzParseJSON compares the results with those of encoding/json.
func FuzzParseJSON(f *testing.F) {
	for _, seed := range []string{
		`{"a":[1,-2.5e3,true,null,"\u00e9\ud83c\udf89\ud800\n"],"b":{}}`, `[]`, `"x"`, `01`, `-0`, `1e999`, `{"a":1,"a":2}`,
		"[1,]", "\"\x01\"", strings.Repeat("9", 30), " [ ] ", `"\x"`, "nul", "[[[[1]]]]", "\xff",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := ordered.ParseJSON(data)
		if !json.Valid(data) || !utf8.Valid(data) {
			require.Error(t, err)
			return
		}
		if err != nil {
			require.Regexp(t, "nested more than|more than 4300 digits", err.Error())
			return
		}
		var want any
		d := json.NewDecoder(bytes.NewReader(data))
		d.UseNumber()
		require.NoError(t, d.Decode(&want))
		requireSame(t, want, got)
	})
}

// requireSame compares a value with the value that encoding/json read from the same text.
func requireSame(t *testing.T, want any, got ordered.Value) {
	t.Helper()
	switch want := want.(type) {
	case map[string]any:
		o, ok := got.(*ordered.Object)
		require.True(t, ok, "%T", got)
		require.Equal(t, len(want), o.Len())
		for key, value := range o.All() {
			require.Contains(t, want, key)
			requireSame(t, want[key], value)
		}
	case []any:
		list, ok := got.([]ordered.Value)
		require.True(t, ok, "%T", got)
		require.Len(t, list, len(want))
		for i := range want {
			requireSame(t, want[i], list[i])
		}
	case json.Number:
		if f, ok := got.(float64); ok {
			g, _ := strconv.ParseFloat(want.String(), 64)
			require.Equal(t, g, f)
			return
		}
		n, ok := new(big.Int).SetString(want.String(), 10)
		require.True(t, ok, "%s became %T", want, got)
		require.Equal(t, n.String(), fmt.Sprint(got))
	default:
		require.Equal(t, want, got)
	}
}

package ordered_test

import (
	"encoding/json"
	"math"
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ingot-run/ingot/internal/ordered"
)

func TestAppendJSON(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`null`, `true`, `-9223372036854775808`, `9223372036854775808`, `0.1`, `1e+30`, `100.0`, `1e999`, `-1e999`, `"a\"\\\n<é\u0001"`, `[]`, `{}`,
		`{"b":[1,{"a":"x"}],"a":null,"":[]}`,
	} {
		v, err := ordered.ParseJSON([]byte(text))
		require.NoError(t, err)
		require.Equal(t, "x"+text, string(ordered.AppendJSON([]byte("x"), v)))
	}
	require.Panics(t, func() { ordered.AppendJSON(nil, 1) }, "an int is no value")
}

// What was written is read as the same value.
func TestAppendJSONIsRead(t *testing.T) {
	t.Parallel()
	var value func(depth int) *rapid.Generator[ordered.Value]
	value = func(depth int) *rapid.Generator[ordered.Value] {
		return rapid.Custom(func(t *rapid.T) ordered.Value {
			switch rapid.IntRange(0, 7-2*min(depth, 1)).Draw(t, "type") {
			case 0:
				return nil
			case 1:
				return rapid.Bool().Draw(t, "bool")
			case 2:
				return rapid.Int64().Draw(t, "int")
			case 3:
				return new(big.Int).Add(big.NewInt(math.MaxInt64), big.NewInt(rapid.Int64Min(1).Draw(t, "more")))
			case 4:
				return rapid.Float64().Draw(t, "float")
			case 5:
				return rapid.String().Draw(t, "string")
			case 6:
				return append([]ordered.Value{}, rapid.SliceOfN(value(depth+1), 0, 4).Draw(t, "list")...)
			}
			o := ordered.NewObject()
			for _, v := range rapid.SliceOfN(value(depth+1), 0, 4).Draw(t, "members") {
				o.Set(rapid.String().Draw(t, "key"), v)
			}
			return o
		})
	}
	rapid.Check(t, func(t *rapid.T) {
		v := value(0).Draw(t, "value")
		text := ordered.AppendJSON(nil, v)
		require.True(t, json.Valid(text), "%s", text)
		got, err := ordered.ParseJSON(text)
		require.NoError(t, err)
		require.Equal(t, v, got)
	})
}

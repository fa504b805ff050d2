package eval

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// Nothing has neither a value nor an error. Absent scores are null in JSON, and other JSON is
// refused.
func TestValuesOfNothing(t *testing.T) {
	t.Parallel()
	value, stderr := bootstrapped(nil, func([]float64) float64 { return 1 })
	require.True(t, math.IsNaN(value))
	require.True(t, math.IsNaN(stderr))
	text, err := json.Marshal(struct{ V Values }{})
	require.NoError(t, err)
	require.Equal(t, `{"V":null}`, string(text))
	v := Values{"a": 1}
	require.Error(t, json.Unmarshal([]byte(`{"a":"x"}`), &v))
	require.NoError(t, v.UnmarshalJSON([]byte(`null`)))
	require.Equal(t, Values{"a": 1}, v)
	_, _, err = readDocument(t.TempDir(), "")
	require.ErrorContains(t, err, "a JSON file must be a file of at most ")
}

// The limit of rounding is relative to numbers above 1.
func TestNearScores(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b float64
		want bool
	}{{0, 1e-5, true}, {0, 1.01e-5, false}, {-100, -100.0009, true}, {-100, -100.002, false}, {math.NaN(), math.NaN(), true}, {math.NaN(), 1, false}} {
		require.Equal(t, c.want, near(c.a, c.b), "%v, %v", c.a, c.b)
	}
}

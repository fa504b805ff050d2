package pyrandom

import (
	"encoding/json"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDrawsOfPython compares samples, numbers, choices and shuffles with those that Python has
// drawn (testdata/record.py), for seeds of one and of two words and for both ways to sample.
func TestDrawsOfPython(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/python.json")
	require.NoError(t, err)
	var all []struct {
		Seed    string  `json:"seed"`
		N       int     `json:"n"`
		K       int     `json:"k"`
		Samples [][]int `json:"samples"`
		Float   float64 `json:"float"`
		Choices []int   `json:"choices"`

		Shuffled []int `json:"shuffled"` // the numbers from 0, shuffled
	}
	require.NoError(t, json.Unmarshal(text, &all))
	require.NotEmpty(t, all)
	for _, c := range all {
		seed, err := strconv.ParseUint(c.Seed, 10, 64)
		require.NoError(t, err)
		r := New(seed)
		for _, want := range c.Samples {
			require.Equal(t, want, r.Sample(c.N, c.K)[:len(want)], "%+v", c)
		}
		require.Equal(t, c.Float, r.Float(), "%+v", c)
		for _, want := range c.Choices {
			require.Equal(t, want, r.Choice(c.N), "%+v", c)
		}
		list := make([]int, len(c.Shuffled))
		for i := range list {
			list[i] = i
		}
		r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		require.Equal(t, c.Shuffled, list, "%+v", c)
	}
}

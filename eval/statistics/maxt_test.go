package statistics

import (
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// testsOf returns tests on the same rows from the differences of each.
func testsOf(differences [][]float64) [][]Observation {
	tests := make([][]Observation, len(differences))
	for k, list := range differences {
		for i, d := range list {
			tests[k] = append(tests[k], Observation{strconv.Itoa(i), d})
		}
	}
	return tests
}

// The same test twice costs nothing, and one on other rows costs as much as a correction of
// independent p-values does.
func TestMaxTOfTheSameAndOfOtherRows(t *testing.T) {
	t.Parallel()
	d := slices.Concat(slices.Repeat([]float64{-1}, 60), slices.Repeat([]float64{1}, 40), make([]float64, 300))
	_, exact := McNemar(60, 40)
	one := MaxT(testsOf([][]float64{d}))
	require.InDelta(t, exact, one[0], 0.01, "one test is McNemar's")
	require.Equal(t, []float64{one[0], one[0], one[0]}, MaxT(testsOf([][]float64{d, d, d})))
	other := testsOf([][]float64{d, d})
	for i := range other[1] {
		other[1][i].Unit = "other " + other[1][i].Unit
	}
	require.InDelta(t, 1-(1-one[0])*(1-one[0]), MaxT(other)[0], 0.02)
}

func TestMaxTOfNothing(t *testing.T) {
	t.Parallel()
	require.Empty(t, MaxT(nil))
	require.Equal(t, []float64{1, 1}, MaxT([][]Observation{nil, {{"a", 0}}}))
	require.Equal(t, []float64{0.125, 1}, MaxT(testsOf([][]float64{{-1, -1, -1}, {0, 0, 0}})))
	require.Equal(t, []float64{1}, MaxT(testsOf([][]float64{{1, 1, 1}})))
}

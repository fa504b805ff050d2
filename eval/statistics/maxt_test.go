package statistics

import (
	"math/rand/v2"
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

// If all rows lost, only the observed signs lose as much: one of all combinations for up to 13
// rows, and one of the draws for many rows.
func TestMaxTOfRowsThatAllLost(t *testing.T) {
	t.Parallel()
	for rows, want := range map[int]float64{1: 1. / 2, 2: 1. / 4, 12: 1. / 4096, 13: 1. / 8192, 60: 1. / draws, 200: 1. / draws} {
		lost := slices.Repeat([]float64{-0.5}, rows)
		require.Equal(t, []float64{want}, MaxT(testsOf([][]float64{lost})), "%d rows", rows)
	}
}

// P-values stay the same between versions: the signs of 64 rows are the bits of one random number,
// from the lowest.
func TestMaxTDrawsABitForEachRow(t *testing.T) {
	t.Parallel()
	for _, rows := range []int{14, 63, 64, 65, 128} {
		d := slices.Repeat([]float64{1}, rows)
		observed := 0
		for i := range d {
			if i%5 != 0 && i%7 != 0 {
				d[i] = -1
			}
			observed -= int(d[i])
		}
		random, reached := rand.New(rand.NewPCG(1, 0)), 1
		for range draws - 1 {
			sum, word := 0, uint64(0)
			for i := range d {
				if i%64 == 0 {
					word = random.Uint64()
				}
				if word>>(i%64)&1 == 0 {
					sum -= int(d[i])
				} else {
					sum += int(d[i])
				}
			}
			if sum >= observed {
				reached++
			}
		}
		require.InDelta(t, float64(reached)/draws, MaxT(testsOf([][]float64{d}))[0], 1e-12, "%d rows", rows)
	}
}

func TestMaxTOfNothing(t *testing.T) {
	t.Parallel()
	require.Empty(t, MaxT(nil))
	require.Equal(t, []float64{1, 1}, MaxT([][]Observation{nil, {{"a", 0}}}))
	require.Equal(t, []float64{0.125, 1}, MaxT(testsOf([][]float64{{-1, -1, -1}, {0, 0, 0}})))
	require.Equal(t, []float64{1}, MaxT(testsOf([][]float64{{1, 1, 1}})))
	require.Equal(t, []float64{1. / draws, 1}, MaxT(testsOf([][]float64{slices.Repeat([]float64{-1}, 60), make([]float64, 60)})), "a test without differences has a loss of 0 in every draw")
}

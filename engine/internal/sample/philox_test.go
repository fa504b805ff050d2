package sample

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// The vectors are the three philox4x32-10 lines of the file kat_vectors in Random123, which is by
// the generator's authors.
func TestPhiloxKnownAnswers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		counter [4]uint32
		key     [2]uint32
		want    [4]uint32
	}{
		{[4]uint32{}, [2]uint32{}, [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
		{
			[4]uint32{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
			[2]uint32{0xffffffff, 0xffffffff},
			[4]uint32{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
		},
		{
			[4]uint32{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
			[2]uint32{0xa4093822, 0x299f31d0},
			[4]uint32{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1},
		},
	} {
		require.Equal(t, c.want, philox(c.counter, c.key))
	}
}

// The mapping of random words to numbers must not change between versions. The expected number
// follows from the first two words of the zero vector.
func TestUniformIsTheLeading53Bits(t *testing.T) {
	t.Parallel()
	require.Equal(t, math.Ldexp(0x6627e8d5e169c58d>>11, -53), uniform(0, 0, 0))
}

func TestUniformIsUniformAlongEachArgument(t *testing.T) {
	t.Parallel()
	const draws, bins = 40000, 64
	for name, at := range map[string]func(i int) float64{
		"position": func(i int) float64 { return uniform(7, i, 3) },
		"choice":   func(i int) float64 { return uniform(7, 3, i) },
		"seed":     func(i int) float64 { return uniform(uint64(i), 3, 0) },
		"high seed": func(i int) float64 {
			return uniform(uint64(i)<<32, 3, 0)
		},
	} {
		seen := make([]int, bins)
		want := make([]float64, bins)
		for i := range draws {
			u := at(i)
			require.True(t, u >= 0 && u < 1)
			seen[int(u*bins)]++
		}
		for i := range want {
			want[i] = draws / bins
		}
		require.Less(t, chiSquared(seen, want), chiSquaredLimit(bins-1), name)
	}
}

// chiSquared returns Pearson's chi-squared statistic.
func chiSquared(seen []int, want []float64) float64 {
	sum := 0.0
	for i, n := range seen {
		d := float64(n) - want[i]
		sum += d * d / want[i]
	}
	return sum
}

// chiSquaredLimit returns the value that the statistic exceeds once in about 30,000 tests (4 sigma)
// if the distribution is right, by Wilson and Hilferty's approximation.
func chiSquaredLimit(freedom int) float64 {
	k := float64(freedom)
	return k * math.Pow(1-2/(9*k)+4*math.Sqrt(2/(9*k)), 3)
}

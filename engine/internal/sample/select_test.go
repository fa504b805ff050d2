package sample

import (
	"math"
	"math/big"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// values draws floats of both signs and all magnitudes. Many of them are equal.
func values(t *rapid.T) []float32 {
	one := rapid.OneOf(
		rapid.Float32Range(-math.MaxFloat32, math.MaxFloat32),
		rapid.Map(rapid.IntRange(-3, 3), func(i int) float32 { return float32(i) }),
		rapid.SampledFrom([]float32{0, float32(math.Copysign(0, -1)), 1e-45, -1e-45}),
	)
	return rapid.SliceOfN(one, 1, 50).Draw(t, "values")
}

func TestReachFindsTheKthHighest(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		v := values(t)
		k := rapid.IntRange(1, len(v)).Draw(t, "k")
		at, above := new(Scratch).reach(v, nil, float64(k))
		cut := fromKey(at)
		sorted := slices.Clone(v)
		slices.SortFunc(sorted, func(a, b float32) int { return -compare(a, b) })
		require.InDelta(t, sorted[k-1], cut, 0, "number %d of %v", k, sorted)
		higher := 0
		for _, x := range v {
			if key(x) > at {
				higher++
			}
		}
		require.InDelta(t, higher, above, 0)
	})
}

func TestReachFindsTheMass(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		v := values(t)
		weights := make([]float64, len(v))
		total := 0.0
		for i := range weights {
			weights[i] = float64(rapid.IntRange(1, 8).Draw(t, "weight"))
			total += weights[i]
		}
		mass := rapid.Float64Range(0.1, total+1).Draw(t, "mass")
		cut, above := new(Scratch).reach(v, weights, mass)
		higher, upTo := 0.0, 0.0
		for i, x := range v {
			if key(x) > cut {
				higher += weights[i]
			}
			if key(x) >= cut {
				upTo += weights[i]
			}
		}
		require.InDelta(t, higher, above, 0)
		require.Less(t, higher, mass)
		require.GreaterOrEqual(t, upTo, min(mass, total))
	})
}

func compare(a, b float32) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func TestKeysKeepTheOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		for _, a := range values(t) {
			for _, b := range values(t) {
				require.Equal(t, compare(a, b) < 0, key(a) < key(b) && a != b)
			}
			require.Equal(t, math.Float32bits(a), math.Float32bits(fromKey(key(a))))
		}
	})
}

func TestTopIsTheHeadOfAStableSort(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		v := values(t)
		n := rapid.IntRange(0, len(v)+2).Draw(t, "n")
		ids := make([]int32, len(v))
		for i := range ids {
			ids[i] = int32(i)
		}
		slices.SortStableFunc(ids, func(a, b int32) int { return -compare(v[a], v[b]) })
		want := append([]int32{99}, ids[:min(n, len(ids))]...)
		require.Equal(t, want, Top([]int32{99}, v, n))
	})
}

// The reference adds up the exponentials in 200-bit arithmetic, without subtracting the highest
// logit.
func TestLogSumExp(t *testing.T) {
	t.Parallel()
	for _, logits := range [][]float32{{0}, {-700, -700}, {1, 2, 3}, {600, 599.5, -600}, randomLogits(2000)} {
		sum := new(big.Float).SetPrec(200)
		for _, l := range logits {
			sum.Add(sum, new(big.Float).SetPrec(200).SetFloat64(math.Exp(float64(l))))
		}
		exponent := sum.MantExp(sum)
		mantissa, _ := sum.Float64()
		got, err := LogSumExp(logits)
		require.NoError(t, err)
		require.InDelta(t, math.Log(mantissa)+float64(exponent)*math.Ln2, got, 1e-11)
	}
}

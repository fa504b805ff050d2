package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/compute"
)

// drawScales are factors of logits: those of usual temperatures, and the extreme ones.
var drawScales = func() (all []float32) {
	for _, temperature := range []float64{1, 0.3, 2.5, 1e-9, 1e-3, 1e9, math.MaxFloat64} {
		all = append(all, (&compute.Draw{Temperature: temperature}).Scale())
	}
	return all
}()

// drawLogits returns logits of a row, some of which are -Inf or excluded, and the exponent of the
// highest one.
func drawLogits(r *rand.Rand, n int, deviation float64, scale float32) (x []float32, top int32) {
	x = randomRow(r, n, deviation)
	for i := range x {
		switch r.IntN(20) {
		case 0:
			x[i] = float32(math.Inf(-1))
		case 1:
			x[i] = -compute.MaxLogit
		case 2:
			x[i] = float32(math.Round(float64(x[i])))
		}
	}
	top = math.MinInt32
	for _, v := range x {
		_, exponent := compute.Weigh(v, scale)
		top = max(top, exponent)
	}
	return x, top
}

// Every level computes the weights of compute.Weigh and compute.FixedWeight, which are exact in
// float32, and their exact sums.
func TestWeights(t *testing.T) {
	t.Parallel()
	eachSet(t, func(t *testing.T, s *Set) {
		r := rand.New(rand.NewPCG(11, 12))
		for _, n := range append(lengths, 2048, 70_001) {
			for _, scale := range drawScales {
				for _, deviation := range []float64{0, 1, 30, 1e5, 1e25} {
					x, top := drawLogits(r, n, deviation, scale)
					lowest := []float32{math.Nextafter32(-compute.MaxLogit, 0), x[r.IntN(n)]}[r.IntN(2)]
					lowest = max(lowest, -math.MaxFloat32)
					out, total := make([]float32, n), uint64(0)
					a := &WeighArgs{X: &x[0], N: int64(n), Scale: float64(scale), Lowest: float64(lowest), Top: int64(top), Out: &out[0]}
					s.Weigh(a)
					for i, v := range x {
						want := uint64(0)
						if v >= lowest {
							mantissa, exponent := compute.Weigh(v, scale)
							want = compute.FixedWeight(mantissa, exponent, top)
						}
						if want != uint64(out[i]) {
							require.Equal(t, want, uint64(out[i]), "logit %g, scale %g, highest exponent %d, lowest %g", v, scale, top, lowest)
						}
						total += want
					}
					require.Equal(t, total, a.Sum)
					a.Out = nil
					s.Weigh(a)
					require.Equal(t, total, a.Sum)
				}
			}
		}
	})
}

// Bracket and List list the logits between two limits, and Bracket and Above add up the weights of
// higher ones.
func TestLimitsOfLogits(t *testing.T) {
	t.Parallel()
	eachSet(t, func(t *testing.T, s *Set) {
		r := rand.New(rand.NewPCG(13, 14))
		for _, n := range append(lengths, 2048, 65_536) {
			for _, deviation := range []float64{1, 1e25} {
				x, top := drawLogits(r, n, deviation, 1)
				weights := make([]float32, n)
				w := &WeighArgs{X: &x[0], N: int64(n), Scale: 1, Lowest: -1e29, Top: int64(top), Out: &weights[0]}
				s.Weigh(w)
				low, high := max(x[r.IntN(n)], -math.MaxFloat32), x[r.IntN(n)]
				t.Run(fmt.Sprintf("%d values from %g to %g", n, low, high), func(t *testing.T) {
					ids, values := []int32{}, []float32{}
					above := uint64(0)
					for i, v := range x {
						switch {
						case v > high:
							above += uint64(weights[i])
						case v >= low:
							ids, values = append(ids, int32(i)), append(values, v)
						}
					}
					got, listed := make([]int32, n+16), make([]float32, n+16)
					b := &BracketArgs{
						X: &x[0], N: int64(n), Scale: 1, Lowest: w.Lowest, Top: w.Top, Low: float64(low), High: float64(high),
						Values: &listed[0],
					}
					s.Bracket(b)
					require.Equal(t, w.Sum, b.Sum)
					require.Equal(t, above, b.Above)
					require.Equal(t, values, listed[:b.Count:b.Count])
					clear(listed)
					l := &ListArgs{X: &x[0], N: int64(n), Low: float64(low), High: float64(high), IDs: &got[0], Values: &listed[0]}
					s.List(l)
					requireListed(t, ids, values, got[:l.Count], listed)
					a := &AboveArgs{X: &x[0], Weights: &weights[0], N: int64(n), Limit: float64(high)}
					s.Above(a)
					require.Equal(t, above, a.Sum)
				})
			}
		}
	})
}

func requireListed(t *testing.T, ids []int32, values []float32, gotIDs []int32, gotValues []float32) {
	t.Helper()
	require.Len(t, gotIDs, len(ids))
	for i, id := range ids {
		if gotIDs[i] != id || gotValues[i] != values[i] {
			require.Equal(t, id, gotIDs[i])
			require.InDelta(t, values[i], gotValues[i], 0)
		}
	}
}

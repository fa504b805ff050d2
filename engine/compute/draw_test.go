package compute

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// The weights of logits are those of the exponential function, for all temperatures and for logits
// of all sizes. Their exponents do not decrease.
func TestWeights(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 200_000 {
		d := Draw{Temperature: math.Exp2(float64(r.IntN(20) - 10))}
		scale := d.Scale()
		logit := float32(r.NormFloat64() * math.Exp2(float64(r.IntN(12)-4)))
		mantissa, exponent := Weigh(logit, scale)
		got := math.Log2(float64(mantissa)) - 24 + float64(exponent)
		require.InDelta(t, float64(logit)*float64(scale), got, 3e-7, "logit %g, scale %g", logit, scale)
		_, next := Weigh(math.Nextafter32(logit, 1e9), scale)
		require.GreaterOrEqual(t, next, exponent)
	}
}

// The bits of weights are the same on every processor. The products of these logits lose much to
// rounding, so fused operations would change them.
func TestBitsOfWeights(t *testing.T) {
	t.Parallel()
	d := Draw{Temperature: 0.3}
	for _, c := range []struct {
		logit    uint32 // its bits
		mantissa uint32
		exponent int32
	}{{0x404c7357, 21569488, 15}, {0x403ede2a, 21263536, 14}, {0x404e7852, 11980885, 16}} {
		mantissa, exponent := Weigh(math.Float32frombits(c.logit), d.Scale())
		require.Equal(t, c.mantissa, mantissa)
		require.Equal(t, c.exponent, exponent)
	}
	d = Draw{Repetition: 1.1, Frequency: 0.3}
	product := float32(-1.2345678) * d.Repetition
	product = math.Float32frombits(math.Float32bits(product))
	require.Equal(t, math.Float32bits(product-float32(0.3)), math.Float32bits(d.Edited(-1.2345678, Edit{Count: 1})))
}

// Extreme logits and temperatures give finite weights: those of the highest logit, or 0.
func TestExtremeWeights(t *testing.T) {
	t.Parallel()
	for _, temperature := range []float64{5e-324, 1e-30, 1e-5, 1, 1e30, math.MaxFloat64} {
		d := Draw{Temperature: temperature}
		previous := int32(math.MinInt32)
		for _, logit := range []float32{-math.MaxFloat32, -MaxLogit, -1e10, -90, -1e-40, 0, 1e-40, 90, 1e10, MaxLogit, math.MaxFloat32} {
			mantissa, exponent := Weigh(logit, d.Scale())
			require.GreaterOrEqual(t, exponent, previous)
			require.LessOrEqual(t, mantissa, uint32(1<<25))
			require.GreaterOrEqual(t, mantissa, uint32(1<<23))
			require.Less(t, FixedWeight(mantissa, exponent, exponent), uint64(1)<<40)
			previous = exponent
		}
	}
}

func TestLogitKeys(t *testing.T) {
	t.Parallel()
	ascending := []float32{-math.MaxFloat32, -2, -1, -1e-45, 0, 1e-45, 1, 2, math.MaxFloat32}
	for i := range ascending[1:] {
		require.Less(t, LogitKey(ascending[i]), LogitKey(ascending[i+1]))
	}
	require.Equal(t, LogitKey(0), LogitKey(float32(math.Copysign(0, -1))))
}

// The mass of TopP is rounded up, but not for shares that are decimal fractions of equal weights.
func TestMass(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		p     float64
		total uint64
		want  uint64
	}{{0.5, 10, 5}, {0.5, 11, 6}, {0.9, 10 << 39, 9 << 39}, {1e-300, 5, 1}, {0.25, 1 << 60, 1 << 58}} {
		got := Mass((&Draw{TopP: c.p}).Share(), c.total)
		require.InDelta(t, float64(c.want), float64(got), float64(c.total)/(1<<31), "%+v", c)
		require.LessOrEqual(t, got, c.want)
		require.Positive(t, got)
	}
	require.Zero(t, (&Draw{TopP: 1}).Share())
	require.Zero(t, (&Draw{}).Share())
	require.True(t, (&Draw{Temperature: 1, TopP: 1}).Whole())
}

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
	// The mapping of random words to numbers must not change between versions.
	require.Equal(t, uint64(0x6627e8d5e169c58d), Random(0, 0, 0))
}

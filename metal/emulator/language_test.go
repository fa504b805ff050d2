package emulator_test

import (
	"encoding/binary"
	"math"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/metal"
	"github.com/ingot-run/ingot/metal/emulator"
)

// TestLanguage checks the parts of Metal's library that the kernels use, on one simdgroup.
func TestLanguage(t *testing.T) {
	for _, mode := range []metal.Mode{metal.Release, metal.Debug, metal.FastMath} {
		for _, seed := range []uint32{0, 3} {
			b := newBench(t, emulator.Options{Seed: seed}, mode, "language.metal", "language", 1024)
			require.NoError(t, b.run(t, 1, 32, 0))
			got := b.floats()
			for lane := range 32 {
				at := func(i int) float32 { return got[32*i+lane] }
				require.Equal(t, float32(496), at(0), "sum")
				require.Equal(t, float32(31), at(1), "max")
				require.Equal(t, float32(0), at(2), "min")
				require.Equal(t, float32(lane*(lane-1)/2), at(3), "prefix sum")
				require.Equal(t, float32((lane ^ 5)), at(4), "xor")
				require.Equal(t, float32(7), at(5), "broadcast")
				require.InDelta(t, 1/math.Sqrt(float64(lane+1)), at(6), 1e-6, "rsqrt")
				require.Equal(t, float32(lane)+0.5, at(7), "half")
				require.Equal(t, float32(4*lane+6), at(8), "float4")
				require.Equal(t, treeSum([32]float32(got[288:320])), at(10), "tree_sums")
			}
		}
	}
}

// treeSum computes tree_sums of kernels/defs.h: lane i adds lane i^16, then i^8, and so on.
func treeSum(v [32]float32) float32 {
	for step := 16; step > 0; step /= 2 {
		was := v
		for lane := range v {
			v[lane] = was[lane] + was[lane^step]
		}
	}
	return v[0]
}

// TestMatrices compares products of 8x8 matrices with sums in order.
func TestMatrices(t *testing.T) {
	b := newBench(t, emulator.Options{Seed: 5}, metal.Debug, "language.metal", "matrices", 256)
	in := b.floats()
	require.NoError(t, b.run(t, 1, 32, 0))
	got := b.floats()[128:192]
	for r := range 8 {
		for c := range 8 {
			want := float32(0.5)
			for k := range 8 {
				want = float32(math.FMA(float64(in[8*r+k]), float64(in[64+8*c+k]), float64(want))) // b is loaded transposed
			}
			require.Equal(t, want, got[8*r+c], "row %d, column %d", r, c)
		}
	}
}

func TestConstants(t *testing.T) {
	b := newBench(t, emulator.Options{}, metal.Release, "language.metal", "constants", 64)
	var err error
	b.pipeline, err = b.dev.Pipeline(b.library, "constants", []metal.Constant{{Index: 0, Value: 7}, {Index: 3, Value: math.Float32bits(1.5)}, {Index: 4, Value: 1}})
	require.NoError(t, err)
	require.NoError(t, b.run(t, 1, 64, 0))
	require.Equal(t, []float32{7, 1.5, 1}, b.floats()[:3])
}

// TestInfinities checks that all modes handle infinities and NaN, as attention needs.
func TestInfinities(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for _, mode := range []metal.Mode{metal.Release, metal.Debug, metal.FastMath} {
		b := newBench(t, emulator.Options{}, mode, "language.metal", "infinities", 64)
		for i, v := range []float64{1, 0, inf, nan} {
			binary.LittleEndian.PutUint32(b.dev.Contents(b.buffer)[4*i:], math.Float32bits(float32(v)))
		}
		require.NoError(t, b.run(t, 1, 64, 0))
		for i, want := range []float64{0, nan, 1, inf, nan, 1, 1, 0, 1, 1} {
			got := float64(b.floats()[4+i])
			require.True(t, got == want || math.IsNaN(got) && math.IsNaN(want), "mode %d, value %d: %g, not %g", mode, i, got, want)
		}
	}
}

// TestSubnormalsStay checks that loading kernels of mode FastMath does not turn off subnormal
// numbers in the thread.
func TestSubnormalsStay(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	dev := open(t, emulator.Options{Cache: t.TempDir()}) // a new cache, so that the library is not loaded already
	_, err := dev.Compile(source(t, "language.metal"), metal.FastMath)
	require.NoError(t, err)
	require.Equal(t, uint32(1), math.Float32bits(halved(math.Float32frombits(2))))
}

// halved divides at run time. Without noinline, Go's compiler would compute the result.
//
//go:noinline
func halved(x float32) float32 { return x / 2 }

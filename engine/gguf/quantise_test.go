package gguf

import (
	"bytes"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestQuantiseFiles quantises the weights of the F16 file. The result must have the same bytes as
// the files that the reference implementation wrote.
func TestQuantiseFiles(t *testing.T) {
	t.Parallel()
	exact := openTiny(t, "f16")
	for name, typ := range map[string]Type{"q8_0": TypeQ80, "q4_0": TypeQ40} {
		f := openTiny(t, name)
		compared := 0
		for _, x := range f.Tensors() {
			if x.Type != typ {
				continue
			}
			compared++
			ref, _ := exact.Tensor(x.Name)
			got := make([]byte, len(x.Data))
			require.NoError(t, Quantise(got, typ, ref.Values()))
			require.True(t, bytes.Equal(x.Data, got), "%s: %s", name, x.Name)
		}
		require.Greater(t, compared, 10)
	}
}

// TestRequantise dequantises and quantises the weights of files that the reference implementation
// wrote. The bytes must stay the same.
func TestRequantise(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"../../models/tiny-llama.q4_0.gguf", "../../models/tiny-glm.q8_0.gguf", "../model/testdata/micro-llama.gguf"} {
		f, err := Open(path)
		require.NoError(t, err)
		for _, x := range f.Tensors() {
			got := make([]byte, len(x.Data))
			require.NoError(t, Quantise(got, x.Type, x.Values()))
			require.True(t, bytes.Equal(x.Data, got), "%s: bytes of tensor %s of type %v", path, x.Name, x.Type)
		}
		require.NoError(t, f.Close())
	}
}

// TestQuantiseError checks that the error of a weight is within the bound that follows from the
// format's step.
func TestQuantiseError(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.SliceOfN(rapid.Float32Range(-1000, 1000), 64, 64).Draw(t, "weights")
		for typ, steps := range map[Type]float64{TypeQ80: 127, TypeQ40: 8} {
			n, err := typ.RowBytes(len(x))
			require.NoError(t, err)
			b, y := make([]byte, n), make([]float32, len(x))
			require.NoError(t, Quantise(b, typ, x))
			Dequantise(y, typ, b)
			for block := 0; block < len(x); block += 32 {
				largest := 0.0
				for _, v := range x[block : block+32] {
					largest = math.Max(largest, math.Abs(float64(v)))
				}
				step := largest / steps
				// The error is at most half a step. In Q4_0, it is at most a whole step near +8,
				// because +8 has no code. The rounding of the scale to F16 adds an error, which is
				// absolute for tiny scales.
				bound := step/2 + largest*0x1p-10 + 0x1p-24*steps
				if typ == TypeQ40 {
					bound += step / 2
				}
				for i := block; i < block+32; i++ {
					if math.Abs(float64(x[i])-float64(y[i])) > bound {
						t.Fatalf("%v: weight %d is %v before and %v after quantisation", typ, i, x[i], y[i])
					}
				}
			}
		}
	})
}

func TestQuantiseRefuses(t *testing.T) {
	t.Parallel()
	ones := make([]float32, 256)
	require.ErrorContains(t, Quantise(make([]byte, 144), TypeQ4K, ones), "quantise to Q4_K: not supported")
	require.ErrorContains(t, Quantise(make([]byte, 144), 9, ones), "Q8_1 is not supported")
	require.ErrorContains(t, Quantise(make([]byte, 34), TypeQ80, ones), "the destination has 34 bytes, but needs 272")
	require.ErrorContains(t, Quantise(make([]byte, 34), TypeQ80, ones[:31]), "cannot have type Q8_0, whose blocks have 32 weights")
	ones[40] = float32(math.NaN())
	require.ErrorContains(t, Quantise(make([]byte, 272), TypeQ80, ones), "weight 40 is NaN")
	ones[40] = float32(math.Inf(-1))
	require.ErrorContains(t, Quantise(make([]byte, 144), TypeQ40, ones), "weight 40 is -Inf")
	require.NoError(t, Quantise(make([]byte, 512), TypeF16, ones))
}

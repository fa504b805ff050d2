package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/gguf"
)

// lengths has lengths of rows: less than a vector, whole vectors, and whole vectors with a
// remainder.
var lengths = []int{1, 2, 15, 16, 17, 48, 63, 64, 576, 1000}

func randomRow(r *rand.Rand, n int, scale float64) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64() * scale)
	}
	return x
}

// requireClose requires that got equals want up to a tolerance, which is relative to the larger of
// want's magnitude and floor.
func requireClose(t *testing.T, want float64, got float32, tolerance, floor float64, message string, args ...any) {
	t.Helper()
	if math.Abs(want-float64(got)) > tolerance*max(math.Abs(want), floor) {
		require.Failf(t, "values differ", "want %v, got %v: %s", want, got, fmt.Sprintf(message, args...))
	}
}

func TestQuantise(t *testing.T) {
	t.Parallel()
	eachProducts(t, func(t *testing.T, p operation) {
		r := rand.New(rand.NewPCG(1, 2))
		for _, blocks := range []int{1, 2, 7, 64} {
			x, copied := p.activations(32*blocks, 1), p.activations(32, 1)
			x.floats = randomRow(r, 32*blocks, 3)
			clear(x.floats[:min(32, 32*blocks-32)]) // one block has only zeros
			p.Quantise(&QuantiseArgs{X: &x.floats[0], Out: x.block(0), Blocks: int64(blocks)})
			for k := range blocks {
				largest := 0.0
				q, sums := x.get(k)
				for i, v := range q {
					require.LessOrEqual(t, max(v, -v), p.largest())
					require.InDelta(t, x.floats[32*k+i], sums.D*float32(v), 0.51*float64(sums.D))
					largest = max(largest, math.Abs(float64(x.floats[32*k+i])))
				}
				requireClose(t, largest/float64(p.largest()), sums.D, 1e-6, 0, "scale")
				copied.set(0, q, sums.D)
				again, want := copied.get(0)
				require.Equal(t, again, q)
				require.Equal(t, want, sums)
			}
		}
	})
}

func TestRMSNorm(t *testing.T) {
	t.Parallel()
	eachSet(t, func(t *testing.T, s *Set) {
		r := rand.New(rand.NewPCG(3, 4))
		for _, n := range lengths {
			src, gain, dst := randomRow(r, n, 2), randomRow(r, n, 1), make([]float32, n)
			s.RMSNorm(&NormArgs{Dst: &dst[0], Src: &src[0], Gain: &gain[0], N: int64(n), Eps: 1e-5})
			sum := 0.0
			for _, v := range src {
				sum += float64(v) * float64(v)
			}
			scale := 1 / math.Sqrt(sum/float64(n)+1e-5)
			for i := range dst {
				requireClose(t, float64(src[i])*scale*float64(gain[i]), dst[i], 2e-6, 1e-6, "value %d of %d", i, n)
			}
			s.RMSNorm(&NormArgs{Dst: &src[0], Src: &src[0], Gain: &gain[0], N: int64(n), Eps: 1e-5})
			require.Equal(t, dst, src, "in place")
		}
	})
}

func TestGate(t *testing.T) {
	t.Parallel()
	eachSet(t, func(t *testing.T, s *Set) {
		r := rand.New(rand.NewPCG(5, 6))
		for _, n := range lengths {
			g, up, dst := randomRow(r, n, 10), randomRow(r, n, 8), make([]float32, n)
			g[0] = -200 // a value for which e^-x is infinite
			for kind, want := range []func(x, u float64) float64{
				func(x, u float64) float64 { return x / (1 + math.Exp(-x)) * u },
				func(x, u float64) float64 {
					return x / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x))) * u
				},
				func(x, u float64) float64 {
					x, u = min(x, 7), min(max(u, -7), 7)
					return x / (1 + math.Exp(-1.702*x)) * (u + 1)
				},
				func(x, u float64) float64 { return max(x, 0) * u },
			} {
				s.Gate(&GateArgs{Dst: &dst[0], Gate: &g[0], Up: &up[0], N: int64(n), Kind: int64(kind)})
				for i := range dst {
					// Very small expected values are inexact: 1+tanh(x) loses digits near tanh(x) =
					// -1. The floor of the tolerance allows for that.
					requireClose(t, want(float64(g[i]), float64(up[i])), dst[i], 2e-6, 1e-6, "kind %d of gate %v, up %v", kind, g[i], up[i])
				}
			}
		}
	})
}

func TestConvolve(t *testing.T) {
	t.Parallel()
	eachSet(t, func(t *testing.T, s *Set) {
		r := rand.New(rand.NewPCG(8, 9))
		for _, n := range lengths {
			out, w := randomRow(r, n, 1), randomRow(r, 4*n, 1)
			want := slices.Clone(out)
			var x [4][]float32
			for j := range x {
				x[j] = randomRow(r, n, 2)
				for c, v := range x[j] {
					want[c] += float32(v * w[4*c+j])
				}
			}
			s.Convolve(&ConvolveArgs{Out: &out[0], W: &w[0], X0: &x[0][0], X1: &x[1][0], X2: &x[2][0], X3: &x[3][0], N: int64(n)})
			require.Equal(t, want, out, "%d columns", n)
		}
	})
}

func TestSoftCap(t *testing.T) {
	t.Parallel()
	eachSet(t, func(t *testing.T, s *Set) {
		r := rand.New(rand.NewPCG(6, 7))
		infinite := float32(math.Inf(1))
		for _, limit := range []float32{3, 30} {
			for _, n := range append(lengths, 100_000) {
				x := randomRow(r, n, 25)
				copy(x, []float32{float32(math.NaN()), infinite, -infinite, 0, float32(math.Copysign(0, -1)), 1e-42, -1e-6, 1e30, 650, -660})
				got := slices.Clone(x)
				s.SoftCap(&SoftCapArgs{X: &got[0], N: int64(n), Limit: float64(limit)})
				for i, v := range x {
					want := float32(float64(limit) * math.Tanh(float64(v)/float64(limit)))
					if math.IsNaN(float64(want)) {
						require.True(t, math.IsNaN(float64(got[i])), "limit %v", limit)
						continue
					}
					require.Equal(t, math.Float32bits(want), math.Float32bits(got[i]), "%v, limit %v", v, limit)
				}
			}
		}
	})
}

func TestSoftmax(t *testing.T) {
	t.Parallel()
	eachSet(t, func(t *testing.T, s *Set) {
		r := rand.New(rand.NewPCG(7, 8))
		for _, n := range lengths {
			for _, scale := range []float64{0, 1, 50} {
				x := randomRow(r, n, scale)
				got := append([]float32(nil), x...)
				s.Softmax(&SoftmaxArgs{X: &got[0], N: int64(n)})
				best, sum := slices.Max(x), 0.0
				for _, v := range x {
					sum += math.Exp(float64(v - best)) // the kernel rounds the difference to float32 as well
				}
				for i, v := range x {
					requireClose(t, math.Exp(float64(v-best))/sum, got[i], 3e-6, 1e-30, "score %v of %d", v, n)
				}
			}
		}
	})
}

func TestHighest(t *testing.T) {
	t.Parallel()
	eachSet(t, func(t *testing.T, s *Set) {
		r := rand.New(rand.NewPCG(9, 9))
		for _, n := range append(lengths, 3000) {
			for _, scale := range []float64{0, 0.3, 30} {
				x := randomRow(r, n, scale)
				for i := range x {
					x[i] = float32(math.Round(float64(x[i])*4) / 4) // many values are equal
				}
				for i := 1; i < n; i += 5 {
					x[i] = float32(math.Inf(-1)) // has no weight
				}
				best, sum := slices.Max(x), 0.0
				for _, v := range x {
					sum += math.Exp(float64(v) - float64(best))
				}
				a := &HighestArgs{X: &x[0], N: int64(n)}
				s.Highest(a)
				require.Equal(t, slices.Index(x, best), int(a.ID), "of %d", n)
				require.InDelta(t, best, a.Value, 0)
				require.InEpsilon(t, sum, a.Sum, 2e-6, "of %d", n)
				p := &PeakArgs{X: &x[0], N: int64(n)}
				s.Peak(p)
				require.Equal(t, a.ID, p.ID)
				require.InDelta(t, best, p.Value, 0)
			}
			for _, bad := range []float64{math.NaN(), math.Inf(1)} {
				x := randomRow(r, n, 1)
				x[r.IntN(n)] = float32(bad)
				a, p := &HighestArgs{X: &x[0], N: int64(n)}, &PeakArgs{X: &x[0], N: int64(n)}
				s.Highest(a)
				s.Peak(p)
				require.True(t, math.IsInf(a.Sum, 1), "%v of %d", bad, n)
				require.True(t, math.IsInf(p.Value, 1), "%v of %d", bad, n)
				for _, id := range []int64{a.ID, p.ID} {
					require.Less(t, id, int64(n))
					require.GreaterOrEqual(t, id, int64(0))
				}
			}
		}
	})
}

func TestRotate(t *testing.T) {
	t.Parallel()
	const heads, stride = 3, 80
	eachSet(t, func(t *testing.T, s *Set) {
		r := rand.New(rand.NewPCG(9, 10))
		for _, n := range []int{2, 8, 16, 20, 64} {
			src, angles := randomRow(r, heads*stride, 1), randomRow(r, n, 1)
			dst := append([]float32(nil), src...)
			s.Rotate(&RotateArgs{Dst: &dst[0], Src: &dst[0], Angles: &angles[0], N: int64(n), Heads: heads, DstStride: stride, SrcStride: stride})
			for i := 0; i < len(src); i += 2 {
				a, b := float64(src[i]), float64(src[i+1])
				if k := i % stride; k < n {
					c, sn := float64(angles[k]), float64(angles[k+1])
					a, b = a*c-b*sn, a*sn+b*c
				}
				require.InDelta(t, a, dst[i], 1e-6)
				require.InDelta(t, b, dst[i+1], 1e-6)
			}
			// With Halves, the same pairs are rotated in the same way.
			half := n / 2
			split := func(x []float32) (out []float32) {
				out = slices.Clone(x)
				for i := range half {
					out[i], out[half+i] = x[2*i], x[2*i+1]
				}
				return out
			}
			turns, halved, want := split(angles), slices.Clone(src), slices.Clone(dst)
			for h := 0; h < len(src); h += stride {
				copy(halved[h:], split(src[h:h+stride]))
				copy(want[h:], split(dst[h:h+stride]))
			}
			s.Rotate(&RotateArgs{Dst: &halved[0], Src: &halved[0], Angles: &turns[0], N: int64(n), Heads: heads, DstStride: stride, SrcStride: stride, Halves: 1})
			require.InDeltaSlice(t, want, halved, 1e-6)
		}
	})
}

// TestConvert compares conversions with the results of package gguf. Q8_0 and Q4_0 may round a
// value near the middle of a step to either side.
func TestConvert(t *testing.T) {
	t.Parallel()
	eachSet(t, func(t *testing.T, s *Set) {
		for _, c := range []struct {
			kind     gguf.Type
			to, from func(*ConvertArgs)
			steps    float64 // maximum error of a value, in units of its block's scale
		}{
			{gguf.TypeF16, s.ToF16, s.FromF16, 0},
			{gguf.TypeQ80, s.ToQ80, s.FromQ80, 0.51},
			{gguf.TypeQ40, s.ToQ40, s.FromQ40, 1.01}, // the highest value of the range has no code
		} {
			r := rand.New(rand.NewPCG(11, uint64(c.kind)))
			x := randomRow(r, 32*9, 1)
			clear(x[32:64])
			size, err := c.kind.RowBytes(len(x))
			require.NoError(t, err)
			stored, back := make([]byte, size), make([]float32, len(x))
			c.to(&ConvertArgs{Dst: unsafe.Pointer(&stored[0]), Src: unsafe.Pointer(&x[0]), N: int64(len(x))})
			c.from(&ConvertArgs{Dst: unsafe.Pointer(&back[0]), Src: unsafe.Pointer(&stored[0]), N: int64(len(x))})
			want := make([]float32, len(x))
			gguf.Dequantise(want, c.kind, stored)
			require.Equal(t, want, back, "%v", c.kind)
			for i := range x {
				if c.kind == gguf.TypeF16 {
					require.Equal(t, gguf.F16ToF32(gguf.F32ToF16(x[i])), back[i])
					continue
				}
				at := i / 32 * c.kind.BlockBytes()
				scale := math.Abs(float64(half(stored[at:], 0)))
				require.InDelta(t, x[i], back[i], c.steps*scale+1e-3*math.Abs(float64(x[i])), "%v, value %d", c.kind, i)
			}
		}
	})
}

// TestDelta applies several rows of the gated delta rule to a matrix.
func TestDelta(t *testing.T) {
	t.Parallel()
	eachSet(t, func(t *testing.T, s *Set) {
		r := rand.New(rand.NewPCG(3, 4))
		for _, keys := range []int{1, 16, 128} {
			for _, values := range lengths[:8] {
				m, want := randomRow(r, keys*values, 1), make([]float64, keys*values)
				for i, x := range m {
					want[i] = float64(x)
				}
				for range 3 {
					k, q, v := randomRow(r, keys, 1/math.Sqrt(float64(keys))), randomRow(r, keys, 1), randomRow(r, values, 1)
					out := make([]float32, values)
					decay, beta := float64(float32(r.Float64())), float64(float32(r.Float64()))
					s.Delta(&DeltaArgs{S: &m[0], K: &k[0], Q: &q[0], V: &v[0], Out: &out[0], Keys: int64(keys), Values: int64(values), Decay: decay, Beta: beta})
					for c := range values {
						known, read := 0.0, 0.0
						for i := range keys {
							want[i*values+c] *= decay
							known += want[i*values+c] * float64(k[i])
						}
						for i := range keys {
							want[i*values+c] += float64(k[i]) * beta * (float64(v[c]) - known)
							read += want[i*values+c] * float64(q[i])
							requireClose(t, want[i*values+c], m[i*values+c], 1e-5, 1, "%d by %d", keys, values)
						}
						requireClose(t, read, out[c], 1e-5, 10, "%d by %d", keys, values)
					}
				}
			}
		}
	})
}

package kernels

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/gguf"
)

// unpackWords writes row r of a group that is packed as words.
func unpackWords(dst []float32, group []byte, r int) {
	for i := range dst {
		q, scale := wordOf(group, r, i, len(dst))
		dst[i] = scale * float32(q)
	}
}

// wordOf returns the integer of row r and column i of a group with n columns, and the scale of its
// block.
func wordOf(group []byte, r, i, n int) (q int16, scale float32) {
	at := exponentBytes(n/32) + i/32*wordBlockBytes + i%32/2*64 + 4*r + i%2*2
	return int16(binary.LittleEndian.Uint16(group[at:])), math.Float32frombits(uint32(group[i/32*GroupRows+r]) << 23)
}

// blocksOf16 are blocks of 32 values that are hard to convert.
func blocksOf16() map[string][]float32 {
	r := rand.New(rand.NewPCG(1, 7))
	draw := func(f func(i int) float64) []float32 {
		x := make([]float32, 32)
		for i := range x {
			x[i] = float32(f(i))
		}
		return x
	}
	return map[string][]float32{
		"zeros":           draw(func(int) float64 { return 0 }),
		"normal":          draw(func(int) float64 { return r.NormFloat64() }),
		"small":           draw(func(int) float64 { return 1e-3 * r.NormFloat64() }),
		"all largest":     draw(func(int) float64 { return 65504 }),
		"alternating":     draw(func(i int) float64 { return float64(1 - i%2*2) }),
		"one large":       draw(func(i int) float64 { return r.NormFloat64() + 3e4*float64(max(0, 1-i)) }),
		"one alone":       draw(func(i int) float64 { return -7 * float64(max(0, i-30)) }),
		"subnormal":       draw(func(i int) float64 { return float64(i) * 0x1p-24 }),
		"powers of two":   draw(func(i int) float64 { return math.Ldexp(1, -i/2) }),
		"just below two":  draw(func(int) float64 { return 1.999 }),
		"one of a fourth": draw(func(i int) float64 { return 2.03125 - 1.523*float64(max(0, 1-i)) }),
		"uniform, signed": draw(func(int) float64 { return 2*r.Float64() - 1 }),
	}
}

// TestPackWords: packed weights differ from the weights by at most half their scale, the largest
// ones are exact, and the norm of a block leaves room for the sum of 32 products. The rows of a
// group have the same blocks, each in another order.
func TestPackWords(t *testing.T) {
	t.Parallel()
	blocks := blocksOf16()
	names := slices.Sorted(maps.Keys(blocks))
	n := 32 * len(names)
	for kind, bits := range map[gguf.Type]int{gguf.TypeF16: 11, gguf.TypeBF16: 8} {
		for _, rows := range []int{16, 11, 1} {
			data, want := make([]byte, 2*rows*n), make([]float32, rows*n)
			for i := range rows * len(names) {
				require.NoError(t, gguf.Quantise(data[64*i:64*i+64], kind, blocks[names[(i+i/len(names))%len(names)]]))
			}
			gguf.Dequantise(want, kind, data)
			packed := pack(t, kind, data, rows, n)
			for i := range rows * len(names) {
				block := packedBlock(packed, i/len(names), i%len(names), n)
				block.check(t, want[32*i:32*i+32], bits, fmt.Sprintf("%v, row %d, block %d, %s", kind, i/len(names), i%len(names), names[(i+i/len(names))%len(names)]))
			}
		}
	}
}

// wordsOf is a block of a row of packed weights.
type wordsOf struct {
	q     [32]int16
	scale float64
}

// packedBlock returns block k of row r of a group with n columns.
func packedBlock(group []byte, r, k, n int) (b wordsOf) {
	for i := range b.q {
		q, scale := wordOf(group, r, 32*k+i, n)
		b.q[i], b.scale = q, float64(scale)
	}
	return b
}

// check compares a block with its weights, which have so many significant bits.
func (b *wordsOf) check(t *testing.T, want []float32, bits int, what string) {
	t.Helper()
	largest, squares := 0.0, 0.0
	for i, v := range want {
		got := b.scale * float64(b.q[i])
		largest, squares = max(largest, math.Abs(float64(v))), squares+float64(b.q[i])*float64(b.q[i])
		require.InDelta(t, v, got, b.scale/2, "%s, %d", what, i)
		require.NotEqual(t, int16(math.MinInt16), b.q[i], what)
		if _, exponent := math.Frexp(float64(v)); math.Ldexp(1, exponent-bits) >= b.scale {
			require.Equal(t, float64(v), got, "%s, %d", what, i)
		}
	}
	for i, v := range want {
		if math.Abs(float64(v)) >= math.Ldexp(largest, bits-13) { // 1/4 of the largest for F16, 1/32 for BF16
			require.Equal(t, float64(v), b.scale*float64(b.q[i]), "%s, %d", what, i)
		}
	}
	// A scale is at most 2 times the smallest possible one, which is largest·√32/46330.
	require.LessOrEqual(t, b.scale, 2*largest*math.Sqrt(32)/maxNorm, what)
	require.LessOrEqual(t, squares, float64(math.MaxInt32), what)
}

// TestQuantiseWords: activations differ from the values by at most half their scale, up to the
// rounding of float32, and the norm of a block leaves room for the sum of 32 products. All levels
// of machine code give the same bits.
func TestQuantiseWords(t *testing.T) {
	t.Parallel()
	for name, values := range blocksOf16() {
		for _, scale := range []float32{1, 1e-30, 1e30} {
			scaled := make([]float32, 0, 5*32)
			for k := range 5 { // a tile of four blocks, and one alone
				for _, v := range values {
					scaled = append(scaled, v*scale*float32(k+1))
				}
			}
			var first []WordBlock
			eachSet(t, func(t *testing.T, s *Set) {
				blocks := make([]WordBlock, 5)
				s.high.QuantiseWords(&QuantiseArgs{X: &scaled[0], Out: unsafe.Pointer(&blocks[0]), Blocks: 5})
				for i, v := range scaled {
					b := &blocks[i/32]
					require.InDelta(t, v, float64(b.D)*float64(b.Q[i%32]), 0.51*float64(b.D), "%s, %d", name, i)
				}
				for k, b := range blocks {
					squares, largest := 0.0, 0.0
					for i, q := range b.Q {
						squares += float64(q) * float64(q)
						largest = max(largest, math.Abs(float64(scaled[32*k+i])))
					}
					require.LessOrEqual(t, squares, float64(math.MaxInt32), name)
					require.LessOrEqual(t, float64(b.D), 1.001*largest*math.Sqrt(32)/maxNorm, name)
				}
				if s.Name == "portable" {
					return
				}
				if first == nil {
					first = blocks
				}
				require.Equal(t, first, blocks, name)
			})
		}
	}
}

// TestWordsExact: the sums of integers are exact at the largest norms that blocks can have, so all
// levels give the sum in float64, up to its rounding.
func TestWordsExact(t *testing.T) {
	t.Parallel()
	for _, kind := range []gguf.Type{gguf.TypeF16, gguf.TypeBF16} {
		for name, values := range blocksOf16() {
			data := make([]byte, 64*GroupRows)
			for r := range GroupRows {
				require.NoError(t, gguf.Quantise(data[64*r:64*r+64], kind, values))
			}
			packed := pack(t, kind, data, GroupRows, 32)
			for _, p := range allProducts() {
				x := p.activations(32, 2)
				copy(x.floats, values)
				for i, v := range values {
					x.floats[32+i] = -v
				}
				p.QuantiseWords(&QuantiseArgs{X: &x.floats[0], Out: unsafe.Pointer(&x.words[0]), Blocks: 2})
				got := make([]float32, 2*GroupRows)
				x.multiply(kind, packed, []int{0, 1}, nil, got)
				for row := range 2 {
					sum := int64(0)
					for i, q := range x.words[row].Q {
						w, _ := wordOf(packed, 3, i, 32)
						sum += int64(w) * int64(q)
					}
					_, scale := wordOf(packed, 3, 0, 32)
					want := float32(sum) * (scale * x.words[row].D)
					require.Equal(t, want, got[row*GroupRows+3], "%s %v %v, %s", p.level, p.precision, kind, name)
				}
			}
		}
	}
}

// TestWordsPropagate: an infinity or a NaN in weights or activations reaches the results of its
// row, and no others.
func TestWordsPropagate(t *testing.T) {
	t.Parallel()
	const rows, n = 3, 64
	for _, value := range []float32{float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN())} {
		for _, bad := range []struct {
			input, weight int // the row with the value; -1: none
		}{{-1, 0}, {-1, 7}, {-1, GroupRows - 1}, {0, -1}, {rows - 1, -1}} {
			for _, p := range allProducts() {
				t.Run(fmt.Sprint(value, bad, p.level, p.precision), func(t *testing.T) {
					weights, x := slices.Repeat([]float32{1}, GroupRows*n), p.activations(n, rows)
					copy(x.floats, slices.Repeat([]float32{1}, rows*n))
					if bad.weight >= 0 {
						weights[bad.weight*n+40] = value
					} else {
						x.floats[bad.input*n+40] = value
					}
					data := make([]byte, 2*len(weights))
					for i, v := range weights {
						binary.LittleEndian.PutUint16(data[2*i:], gguf.F32ToF16(v))
					}
					p.QuantiseWords(&QuantiseArgs{X: &x.floats[0], Out: unsafe.Pointer(&x.words[0]), Blocks: rows * n / 32})
					got := make([]float32, rows*GroupRows)
					x.multiply(gguf.TypeF16, pack(t, gguf.TypeF16, data, GroupRows, n), []int{0, 1, 2}, nil, got)
					for i, v := range got {
						if i/GroupRows == bad.input || i%GroupRows == bad.weight {
							require.True(t, math.IsNaN(float64(v)) || math.IsInf(float64(v), 0), "result %d is %g", i, v)
						} else {
							require.InDelta(t, n, v, 1e-3, "result %d", i)
						}
					}
				})
			}
		}
	}
}

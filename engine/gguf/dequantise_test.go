package gguf

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// field reads n bits of a block from bit `at` on, one bit at a time: bit k of a block is bit k%8 of
// its byte k/8.
func field(b []byte, at, n int) int {
	v := 0
	for k := range n {
		if b[(at+k)/8]&(1<<((at+k)%8)) != 0 {
			v += 1 << k
		}
	}
	return v
}

func signed8(b []byte, at int) int {
	v := field(b, at, 8)
	if v >= 128 {
		v -= 256
	}
	return v
}

func halfAt(b []byte, at int) float64 { return half64(uint16(field(b, 8*at, 16))) }

// reference has, for each type, a function that returns weight i of block b by the formula d*q + m.
// It uses float64 and reads the block bit by bit.
var reference = map[Type]func(b []byte, i int) float64{
	TypeF32:  func(b []byte, _ int) float64 { return float64(math.Float32frombits(uint32(field(b, 0, 32)))) },
	TypeF16:  func(b []byte, _ int) float64 { return halfAt(b, 0) },
	TypeBF16: func(b []byte, _ int) float64 { return float64(math.Float32frombits(uint32(field(b, 0, 16)) << 16)) },
	TypeQ40: func(b []byte, i int) float64 {
		return halfAt(b, 0) * float64(field(b, 8*(2+i%16)+i/16*4, 4)-8)
	},
	TypeQ41: func(b []byte, i int) float64 {
		return halfAt(b, 0)*float64(field(b, 8*(4+i%16)+i/16*4, 4)) + halfAt(b, 2)
	},
	TypeQ50: func(b []byte, i int) float64 {
		q := field(b, 8*(6+i%16)+i/16*4, 4) + 16*field(b, 8*2+i, 1)
		return halfAt(b, 0) * float64(q-16)
	},
	TypeQ51: func(b []byte, i int) float64 {
		q := field(b, 8*(8+i%16)+i/16*4, 4) + 16*field(b, 8*4+i, 1)
		return halfAt(b, 0)*float64(q) + halfAt(b, 2)
	},
	TypeQ80: func(b []byte, i int) float64 { return halfAt(b, 0) * float64(signed8(b, 8*(2+i))) },
	TypeQ4K: func(b []byte, i int) float64 {
		scale, minimum := scaleAndMin(b, i/32)
		q := field(b, 8*(16+i/64*32+i%32)+i%64/32*4, 4)
		return halfAt(b, 0)*float64(scale)*float64(q) - halfAt(b, 2)*float64(minimum)
	},
	TypeQ5K: func(b []byte, i int) float64 {
		scale, minimum := scaleAndMin(b, i/32)
		q := field(b, 8*(48+i/64*32+i%32)+i%64/32*4, 4) + 16*field(b, 8*(16+i%32)+i/32, 1)
		return halfAt(b, 0)*float64(scale)*float64(q) - halfAt(b, 2)*float64(minimum)
	},
	TypeQ6K: func(b []byte, i int) float64 {
		side, in := i/128, i%128
		q := field(b, 8*(64*side+in%64)+in/64*4, 4) + 16*field(b, 8*(128+32*side+in%32)+in/32*2, 2)
		return halfAt(b, 208) * float64(signed8(b, 8*(192+i/16))) * float64(q-32)
	},
	TypeQ2K: func(b []byte, i int) float64 {
		q := field(b, 8*(16+i/128*32+i%32)+i%128/32*2, 2)
		return halfAt(b, 80)*float64(field(b, 8*(i/16), 4))*float64(q) - halfAt(b, 82)*float64(field(b, 8*(i/16)+4, 4))
	},
	TypeQ3K: func(b []byte, i int) float64 {
		q := field(b, 8*(32+i/128*32+i%32)+i%128/32*2, 2) + 4*field(b, 8*(i%32)+i/32, 1)
		s := i / 16
		scale := field(b, 8*(96+s%8)+s/8*4, 4) + 16*field(b, 8*(96+8+s%4)+s/4*2, 2)
		return halfAt(b, 108) * float64(scale-32) * float64(q-4)
	},
	TypeIQ4NL: func(b []byte, i int) float64 {
		return halfAt(b, 0) * iq4Values[field(b, 8*(2+i%16)+i/16*4, 4)]
	},
	TypeIQ4XS: func(b []byte, i int) float64 {
		s := i / 32
		scale := field(b, 8*4+4*s, 4) + 16*field(b, 8*2+2*s, 2)
		return halfAt(b, 0) * float64(scale-32) * iq4Values[field(b, 8*(8+16*s+i%16)+i%32/16*4, 4)]
	},
	TypeMXFP4: func(b []byte, i int) float64 {
		at := 8*(1+i%16) + i/16*4
		exponent, mantissa := field(b, at+1, 2), float64(field(b, at, 1))
		v := mantissa / 2
		if exponent > 0 {
			v = (1 + mantissa/2) * math.Exp2(float64(exponent-1))
		}
		if field(b, at+3, 1) == 1 {
			v = -v
		}
		return v * math.Exp2(float64(field(b, 0, 8)-127))
	},
	TypeNVFP4: nvfp4Weight,
	TypeNVFP4F32: func(b []byte, i int) float64 {
		return float64(math.Float32frombits(uint32(field(b, 0, 32)))) * nvfp4Weight(b[4:], i)
	},
	TypeIQ2XXS: func(b []byte, i int) float64 {
		at := 8 * (2 + i/32*8)
		magnitude := []float64{8, 25, 43}[digit(GridIQ2XXS, field(b, at+i%32/8*8, 8), i%8, 2)]
		scale := float64(field(b, at+60, 4)) + 0.5
		return halfAt(b, 0) * scale / 4 * magnitude * evenSign(b, at+32+i%32/8*7, i%8)
	},
	TypeIQ2XS: func(b []byte, i int) float64 {
		at := 8*2 + i/8*16
		magnitude := []float64{8, 25, 43}[digit(GridIQ2XS, field(b, at, 9), i%8, 2)]
		scale := float64(field(b, 8*66+i/16*4, 4)) + 0.5
		return halfAt(b, 0) * scale / 4 * magnitude * evenSign(b, at+9, i%8)
	},
	TypeIQ2S: func(b []byte, i int) float64 {
		index := field(b, 8*(2+i/8), 8) + 256*field(b, 8*66+i/8*2, 2)
		magnitude := []float64{8, 25, 43}[digit(GridIQ2S, index, i%8, 2)]
		scale := float64(field(b, 8*74+i/16*4, 4)) + 0.5
		return halfAt(b, 0) * scale / 4 * magnitude * sign(field(b, 8*34+i, 1))
	},
	TypeIQ3XXS: func(b []byte, i int) float64 {
		at := 8 * (66 + i/32*4)
		magnitude := []float64{4, 12, 20, 28, 36, 44, 52, 62}[digit(GridIQ3XXS, field(b, 8*(2+i/4), 8), i%4, 3)]
		scale := float64(field(b, at+28, 4)) + 0.5
		return halfAt(b, 0) * scale / 2 * magnitude * evenSign(b, at+i%32/8*7, i%8)
	},
	TypeIQ3S: func(b []byte, i int) float64 {
		index := field(b, 8*(2+i/4), 8) + 256*field(b, 8*66+i/4, 1)
		magnitude := float64(2*digit(GridIQ3S, index, i%4, 3) + 1)
		scale := float64(2*field(b, 8*106+i/32*4, 4) + 1)
		return halfAt(b, 0) * scale * magnitude * sign(field(b, 8*74+i, 1))
	},
	TypeIQ1S: func(b []byte, i int) float64 {
		word := 8 * (34 + i/32*2)
		index := field(b, 8*(2+i/8), 8) + 256*field(b, word+i%32/8*3, 3)
		shift := sign(field(b, word+15, 1)) / 8
		return halfAt(b, 0) * float64(2*field(b, word+12, 3)+1) * (float64(digit(GridIQ1, index, i%8, 2)-1) + shift)
	},
	TypeIQ1M: func(b []byte, i int) float64 {
		high := 8*32 + i/8*4
		index := field(b, 8*(i/8), 8) + 256*field(b, high, 3)
		shift := sign(field(b, high+3, 1)) / 8
		d := 0
		for k := range 4 {
			d += field(b, 8*(48+2*k)+12, 4) << (4 * k)
		}
		scale := float64(2*field(b, 8*(48+i/64*2)+i%64/16*3, 3) + 1)
		return half64(uint16(d)) * scale * (float64(digit(GridIQ1, index, i%8, 2)-1) + shift)
	},
	TypeTQ10: func(b []byte, i int) float64 {
		at, place := i%32, i/32 // the first digit of a byte is the highest
		switch {
		case i >= 240:
			at, place = 48+i%4, (i-240)/4
		case i >= 160:
			at, place = 32+i%16, (i-160)/16
		}
		value := field(b, 8*at, 8)
		for range place {
			value = value * 3 % 256
		}
		return halfAt(b, 52) * float64(value*3/256-1)
	},
	TypeTQ20: func(b []byte, i int) float64 {
		return halfAt(b, 64) * float64(field(b, 8*(i/128*32+i%32)+i%128/32*2, 2)-1)
	},
}

func nvfp4Weight(b []byte, i int) float64 {
	s := i / 16
	return floatOf(b, 8*s, 4, 3) * floatOf(b, 8*(4+8*s+i%8)+i%16/8*4, 2, 1)
}

// digit returns a code of a point of a grid.
func digit(points []uint16, index, at, width int) int {
	return int(points[index]) >> (at * width) & (1<<width - 1)
}

func sign(bit int) float64 { return 1 - 2*float64(bit) }

// evenSign returns sign i of eight. Seven bits are stored from bit `at` on, and the last sign makes
// the number of negative signs even.
func evenSign(b []byte, at, i int) float64 {
	if i < 7 {
		return sign(field(b, at+i, 1))
	}
	product := 1.0
	for k := range 7 {
		product *= sign(field(b, at+k, 1))
	}
	return product
}

// floatOf reads a small float from bit `at` on: mantissa, exponent and, for floats of four bits, a
// sign. A float of eight bits has no sign and stands for 0 if its seven bits are ones.
func floatOf(b []byte, at, exponents, mantissas int) float64 {
	exponent, mantissa := field(b, at+mantissas, exponents), float64(field(b, at, mantissas))/math.Exp2(float64(mantissas))
	bias := float64(int(1)<<(exponents-1) - 1)
	if exponents == 4 && field(b, at, 8) == 127 {
		return 0
	}
	v := mantissa * math.Exp2(1-bias)
	if exponent > 0 {
		v = (1 + mantissa) * math.Exp2(float64(exponent)-bias)
	}
	if exponents == 2 {
		v *= sign(field(b, at+3, 1))
	}
	return v
}

// iq4Values has the values of the 16 codes of IQ4_NL.
var iq4Values = []float64{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}

// scaleAndMin unpacks the scale and minimum of a sub-block from 12 packed bytes. Each has six bits.
// For the first four sub-blocks, these are the low six bits of bytes 0 to 7. For the other
// sub-blocks, the low four bits are in bytes 8 to 11, and the high two bits are in the high two
// bits of bytes 0 to 7.
func scaleAndMin(b []byte, j int) (scale, minimum int) {
	const at = 8 * 4
	if j < 4 {
		return field(b, at+8*j, 6), field(b, at+8*(j+4), 6)
	}
	scale = field(b, at+8*(j+4), 4) + 16*field(b, at+8*(j-4)+6, 2)
	minimum = field(b, at+8*(j+4)+4, 4) + 16*field(b, at+8*j+6, 2)
	return scale, minimum
}

// randomBlocks returns blocks of random bits with finite scales.
func randomBlocks(r *rand.Rand, t Type, n int) []byte {
	b := make([]byte, n*t.BlockBytes())
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	finite := func(at int) { b[at+1] &^= 0x40 } // the exponent's highest bit
	for i := 0; i < len(b); i += t.BlockBytes() {
		switch t {
		case TypeF32:
			b[i+3] &^= 0x40
		case TypeQ6K:
			finite(i + 208)
		case TypeQ3K:
			finite(i + 108)
		case TypeQ2K:
			finite(i + 80)
			finite(i + 82)
		case TypeMXFP4, TypeNVFP4: // every scale is finite
		case TypeNVFP4F32: // with few bits, so that products are exact
			b[i], b[i+1] = 0, 0
			b[i+3] = b[i+3]&0x80 | 0x3f
		case TypeTQ10:
			finite(i + 52)
		case TypeTQ20:
			finite(i + 64)
		case TypeIQ1M:
			finite(i + 54)
		case TypeQ41, TypeQ51, TypeQ4K, TypeQ5K:
			finite(i)
			finite(i + 2)
		default:
			finite(i)
		}
	}
	return b
}

// TestDequantise compares weights with the formulas bit for bit. Every product of a scale and a
// quant is exact in float32, so only the last sum is rounded, to float32 in both computations.
func TestDequantise(t *testing.T) {
	t.Parallel()
	require.Len(t, reference, len(Types()))
	for _, typ := range Types() {
		t.Run(typ.String(), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(1, uint64(typ)))
			const blocks = 200
			size, bytes := typ.BlockSize(), typ.BlockBytes()
			src := randomBlocks(r, typ, blocks)
			dst := make([]float32, blocks*size)
			Dequantise(dst, typ, src)
			for i, got := range dst {
				b := src[i/size*bytes : (i/size+1)*bytes]
				if want := float32(reference[typ](b, i%size)); got != want {
					t.Fatalf("block %d, weight %d: got %v, want %v", i/size, i%size, got, want)
				}
			}
		})
	}
}

func TestDequantiseSpecialScales(t *testing.T) {
	t.Parallel()
	block := make([]byte, 18)
	for i := range 16 {
		block[2+i] = 0x79 // quants 1 and -1
	}
	dst := make([]float32, 32)
	for bits, want := range map[uint16]float64{0x0001: 0x1p-24, 0x7bff: 65504, 0x7c00: math.Inf(1)} {
		block[0], block[1] = byte(bits), byte(bits>>8)
		Dequantise(dst, TypeQ40, block)
		require.Equal(t, want, float64(dst[0]))
		require.Equal(t, -want, float64(dst[16]))
	}
	block[0], block[1] = 0x01, 0x7e
	Dequantise(dst, TypeQ40, block)
	require.True(t, math.IsNaN(float64(dst[0])))
}

// TestDequantiseFiles compares the quantised files of a model, which other programs wrote, with its
// F16 file. The error of a quantiser is about 1/sqrt(12) of a step. The bounds are twice the
// measured errors of these files.
func TestDequantiseFiles(t *testing.T) {
	t.Parallel()
	exact := openTiny(t, "f16")
	bounds := map[Type]float64{TypeF16: 0, TypeF32: 0, TypeQ40: 0.2, TypeQ4K: 0.15, TypeQ5K: 0.08, TypeQ6K: 0.04, TypeQ80: 0.012}
	seen := map[Type]bool{}
	for _, name := range []string{"q4_0", "q4_k_m", "q5_k_m", "q6_k", "q8_0"} {
		f := openTiny(t, name)
		for _, x := range f.Tensors() {
			bound, ok := bounds[x.Type]
			require.True(t, ok, "tensor %s has type %v, for which the test has no bound", x.Name, x.Type)
			seen[x.Type] = true
			ref, ok := exact.Tensor(x.Name)
			require.True(t, ok, x.Name)
			require.Equal(t, ref.Shape, x.Shape)
			require.LessOrEqual(t, relativeRMS(x.Values(), ref.Values()), bound, "%s: error of tensor %s of type %v", name, x.Name, x.Type)
		}
	}
	for typ := range bounds {
		require.True(t, seen[typ] || typ == TypeF16, "no file has a tensor of type %v", typ)
	}
}

// openTiny opens the file of tiny-llama in the given type. If INGOT_MODELS is set, it opens the
// whole file in that folder. Otherwise, it opens a file with the first rows of the tensors, which
// testdata/cut wrote.
func openTiny(t *testing.T, kind string) *File {
	t.Helper()
	dir := cmp.Or(os.Getenv("INGOT_MODELS"), "testdata")
	f, err := Open(filepath.Join(dir, "tiny-llama."+kind+".gguf"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	return f
}

func relativeRMS(got, want []float32) float64 {
	var diff, norm float64
	for i := range want {
		d := float64(got[i]) - float64(want[i])
		diff += d * d
		norm += float64(want[i]) * float64(want[i])
	}
	return math.Sqrt(diff / norm)
}

func TestRowBytes(t *testing.T) {
	t.Parallel()
	for typ, want := range map[Type]int{
		TypeF32: 1024, TypeF16: 512, TypeBF16: 512, TypeQ40: 144, TypeQ41: 160, TypeQ50: 176, TypeQ51: 192,
		TypeQ80: 272, TypeQ2K: 84, TypeQ3K: 110, TypeQ4K: 144, TypeQ5K: 176, TypeQ6K: 210,
		TypeIQ4NL: 144, TypeIQ4XS: 136, TypeMXFP4: 136, TypeNVFP4: 144, TypeNVFP4F32: 160, TypeTQ10: 54, TypeTQ20: 66,
		TypeIQ1S: 50, TypeIQ1M: 56, TypeIQ2XXS: 66, TypeIQ2XS: 74, TypeIQ2S: 82, TypeIQ3XXS: 98, TypeIQ3S: 110,
	} {
		got, err := typ.RowBytes(256)
		require.NoError(t, err)
		require.Equal(t, want, got, typ)
	}
	_, err := TypeQ4K.RowBytes(576)
	require.ErrorContains(t, err, "576 weights cannot have type Q4_K, whose blocks have 256 weights")
	_, err = TypeF32.RowBytes(-1)
	require.Error(t, err)
	_, err = TypeF32.RowBytes(math.MaxInt / 2)
	require.ErrorContains(t, err, "too many bytes")
	_, err = Type(9).RowBytes(256)
	require.ErrorContains(t, err, "Q8_1 is not supported (supported: F32,")
	require.Equal(t, "type 1000", Type(1000).String())
	require.False(t, Type(1000).readable())
}

func BenchmarkDequantise(b *testing.B) {
	for _, typ := range Types() {
		b.Run(typ.String(), func(b *testing.B) {
			src := randomBlocks(rand.New(rand.NewPCG(1, 1)), typ, 4096/typ.BlockSize())
			dst := make([]float32, 4096)
			b.SetBytes(int64(4 * len(dst)))
			for b.Loop() {
				Dequantise(dst, typ, src)
			}
		})
	}
}

// TestDequantiseIsThatOfGGML compares weights with those of GGML's Python package, as hashes which
// testdata/dequantised.py wrote.
func TestDequantiseIsThatOfGGML(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(filepath.Join("testdata", "dequantised.json"))
	require.NoError(t, err)
	var hashes map[string]struct {
		Blocks int
		SHA256 string
	}
	require.NoError(t, json.Unmarshal(data, &hashes))
	for _, typ := range FileTypes() {
		if typ.BlockSize() == 1 {
			continue
		}
		t.Run(typ.String(), func(t *testing.T) {
			t.Parallel()
			want := hashes[typ.String()]
			hash, state, finite := sha256.New(), uint32(1), 0
			block, weights := make([]byte, typ.BlockBytes()), make([]float32, typ.BlockSize())
			for range 4000 {
				for i := range block {
					state = state*1664525 + 1013904223
					block[i] = byte(state >> 24)
				}
				Dequantise(weights, typ, block)
				if !slices.ContainsFunc(weights, func(v float32) bool { return v-v != 0 }) {
					finite++
					for i := range weights {
						weights[i] += 0 // turns -0 into 0
					}
					require.NoError(t, binary.Write(hash, binary.LittleEndian, weights))
				}
			}
			require.Equal(t, want.Blocks, finite)
			require.Equal(t, want.SHA256, hex.EncodeToString(hash.Sum(nil)))
		})
	}
}

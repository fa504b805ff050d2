package kernels

import (
	"encoding/binary"
	"math"
	"unsafe"

	"github.com/ingot-run/ingot/engine/gguf"
)

// Weights of F16 and BF16 are packed as integers of 15 bits and a sign, with a power of two for
// each 32 weights of a row as their scale. Processors multiply integers of 16 bits twice as fast as
// float32. An F16 weight of 11 bits is exact if it is at least 1/4 of the largest of its block, a
// BF16 weight of 8 bits if it is at least 1/32 of it; smaller ones are exact in most blocks. The
// error of a weight is at most half the scale, and the scale at most 1/4000 of the largest weight
// or 2^-126.
//
// A group has the exponents of all blocks' scales, one byte for each of the 16 rows, and then, from
// a multiple of 64 bytes on, the blocks: 16 registers of 64 bytes, of which register j has weights
// 2j and 2j+1 of each row, side by side. An exponent e is the scale 2^(e-127), or 0 for e = 0. If a
// weight of a block is infinite or NaN, e is 255, which makes all products of the block NaN.
const wordBlockBytes = 16 * 64

// exponentBytes returns the size of the exponents in a group of so many blocks.
func exponentBytes(blocks int) int { return (GroupRows*blocks + 63) &^ 63 }

func wordGroupBytes(n int) int { return exponentBytes(n/32) + n/32*wordBlockBytes }

// packWords packs rows of weights of 16 bits.
func packWords(dst []byte, t gguf.Type, src []byte, rowBytes int) {
	blocks := rowBytes / 64
	exponents, words := dst, dst[exponentBytes(blocks):]
	var w [32]float32
	for k := range blocks {
		block := words[k*wordBlockBytes:][:wordBlockBytes]
		for r := 0; r*rowBytes < len(src); r++ {
			widen(&w, t, (*[64]byte)(src[r*rowBytes+64*k:]))
			exponents[GroupRows*k+r] = packWordRow(block, &w, r)
		}
	}
}

// widen is gguf.Dequantise for 32 weights, with fewer calls and branches.
func widen(w *[32]float32, t gguf.Type, src *[64]byte) {
	if t == gguf.TypeBF16 {
		for i := range w {
			w[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(src[2*i:])) << 16)
		}
		return
	}
	for i := range w {
		h := uint32(binary.LittleEndian.Uint16(src[2*i:]))
		x := math.Float32bits(math.Float32frombits(h<<13&(1<<28-1)) * 0x1p112) // moves the exponent's bias
		if h&0x7c00 == 0x7c00 {
			x |= 0x7f800000
		}
		w[i] = math.Float32frombits(x | h<<16&(1<<31))
	}
}

// packWordRow packs row r of a block, and returns the exponent of its scale.
func packWordRow(block []byte, w *[32]float32, r int) byte {
	var largest uint32 // the bits of magnitudes have the order of their values
	squares := 0.0
	for _, v := range w {
		largest = max(largest, math.Float32bits(v)&(1<<31-1))
		squares += float64(float64(v) * float64(v))
	}
	e := wordExponent(max(float64(math.Float32frombits(largest))/MaxWord, math.Sqrt(squares)/maxNorm))
	if e == 0 || e == 255 {
		return e
	}
	inverse := math.Float32frombits(uint32(254-e) << 23)
	// Added to a float32 of up to 2²², the number rounds it to a whole number in its lowest bits.
	const round = 3 << 22
	for j := range 16 {
		even := math.Float32bits(float32(w[2*j]*inverse) + round)
		odd := math.Float32bits(float32(w[2*j+1]*inverse) + round)
		putWord(block[64*j:], r, even&0xffff|odd<<16)
	}
	return e
}

// wordExponent returns the exponent of the lowest power of two that is at least scale.
func wordExponent(scale float64) byte {
	if scale == 0 {
		return 0
	}
	if math.IsInf(scale, 0) || math.IsNaN(scale) {
		return 255
	}
	fraction, e := math.Frexp(scale)
	if fraction == 0.5 {
		e--
	}
	return byte(max(e+127, 1))
}

func wordScale(e byte) float32 { return math.Float32frombits(uint32(e) << 23) }

func quantiseWords(a *QuantiseArgs) {
	out := from((*WordBlock)(a.Out), a.Blocks)
	for k := range out {
		out[k].set(from(after(a.X, 32*int64(k)), 32))
	}
}

// set converts 32 values. A NaN or an infinity makes the scale NaN.
func (b *WordBlock) set(x []float32) {
	var largest, inverse float32
	for _, v := range x {
		largest = max(largest, float32(math.Abs(float64(v))))
	}
	if largest > 0x1p-120 {
		inverse = 1 / largest
	}
	var squares float32
	for _, v := range x {
		y := float32(v * inverse)
		squares += float32(y * y)
	}
	norm := float32(math.Sqrt(float64(squares)))
	most := float32(MaxWord)
	if norm*MaxWord > maxNorm {
		most = maxNorm / norm
	}
	for i, v := range x {
		b.Q[i] = int16(int32(math.RoundToEven(float64(float32(v*inverse) * most))))
	}
	b.D = largest/most + (norm - norm)
}

// wordProduct is the product of weights packed as words.
func wordProduct(a *ProductArgs) {
	n := int64(wordGroupBytes(32 * int(a.Blocks)))
	for g := range a.Groups {
		exponents := from((*byte)(unsafe.Add(a.W, g*n)), n)
		words := exponents[exponentBytes(int(a.Blocks)):]
		for row, in := range from(a.In, a.Rows) {
			var acc group
			for k := range a.Blocks {
				x := (*WordBlock)(unsafe.Add(a.X, uintptr(in+k)*unsafe.Sizeof(WordBlock{})))
				addWords(&acc, exponents[GroupRows*k:][:GroupRows], words[k*wordBlockBytes:][:wordBlockBytes], x)
			}
			a.write(int64(row), g, &acc)
		}
	}
}

// addWords adds the products of a block of weights and a block of activations.
func addWords(acc *group, exponents, words []byte, x *WordBlock) {
	var sums [GroupRows]int32
	for j := range 16 {
		even, odd := int32(x.Q[2*j]), int32(x.Q[2*j+1])
		for r := range sums {
			pair := word(words[64*j:], r)
			sums[r] += even*int32(int16(pair)) + odd*int32(int16(pair>>16))
		}
	}
	for r := range acc {
		acc[r] += float32(sums[r]) * float32(wordScale(exponents[r])*x.D)
	}
}

package kernels

import (
	"math"

	"github.com/ingot-run/ingot/engine/gguf"
)

// Blocks of 256 weights that gguf.Codes reads are packed as their codes instead of as points of a
// grid, so that products unpack them like other types, without look-ups in memory. The packed codes
// have four bits in IQ3, three in IQ2, and two in IQ1 and the ternary types.

// packedAs has the types that have the packed layout, and so the kernel, of another type.
var packedAs = map[gguf.Type]gguf.Type{gguf.TypeIQ2S: gguf.TypeIQ2XS, gguf.TypeTQ10: gguf.TypeTQ20}

// codes32 are 32 weights of a block of 256.
type codes32 struct {
	scales  [2]byte   // of the first and of the last 16 weights
	columns [8]uint32 // the codes, one in each byte
}

// codesLayout returns the layout of a type. put packs 32 weights as row r of a block of the given
// size. unpack sets the weights of b to the codes, and multiplies the scales of b.
func codesLayout(t gguf.Type, size int, put func(block []byte, r int, c *codes32), unpack func(b *unpacked, block []byte)) layout {
	table := gguf.CodeTableOf(t)
	return layout{
		super: 32, block: size, columns: 32,
		pack: func(dst []byte, r int, b []byte) {
			var c gguf.Codes
			c.Read(t, b)
			dst[2*r], dst[2*r+1] = byte(c.D), byte(c.D>>8)
			for s := range 8 {
				part := codes32{scales: [2]byte(c.Scales[2*s:])}
				for j := range part.columns {
					part.columns[j] = word(c.Codes[32*s:], j)
				}
				put(dst[32+s*size:], r, &part)
			}
		},
		unpack: func(b *unpacked, block, _ []byte) {
			unpack(b, block)
			for c := range b.w {
				for r, code := range b.w[c] {
					b.w[c][r] = table.Values[code]
				}
			}
			b.multiply(func(int, int) float32 { return table.Unit })
		},
	}
}

// multiply multiplies the scales of b.
func (b *unpacked) multiply(by func(half, r int) float32) {
	for half := range b.scale {
		for r := range b.scale[half] {
			b.scale[half][r] *= by(half, r)
		}
	}
}

// putTwos packs the low two bits of codes.
func putTwos(block []byte, r int, c *codes32) {
	var planes [2]uint32
	for j, v := range c.columns {
		planes[j/4] |= v & 0x03030303 << (2 * (j % 4))
	}
	putWord(block, r, planes[0])
	putWord(block[64:], r, planes[1])
}

func unpackTwos(b *unpacked, block []byte) { b.twos(block, 0) }

// putIQ3 packs codes of four bits. Both halves of a block have the same scale.
func putIQ3(block []byte, r int, c *codes32) {
	block[r] = c.scales[0]
	packColumns(block[16:], r, &c.columns)
}

func unpackIQ3(b *unpacked, block []byte) {
	b.nibbles(block[16:], 0)
	b.multiply(func(_, r int) float32 { return float32(block[r]) })
}

// putIQ2 packs codes of three bits. Scales are odd, so their lowest bits are left out.
func putIQ2(block []byte, r int, c *codes32) {
	block[r] = c.scales[0]>>1 | c.scales[1]>>1<<4
	putTwos(block[16:], r, c)
	plane := uint32(0)
	for j, v := range c.columns {
		plane |= v >> 2 & 0x01010101 << j
	}
	putWord(block[144:], r, plane)
}

func unpackIQ2(b *unpacked, block []byte) {
	b.twos(block[16:], 0)
	b.thirds(block[144:])
	b.multiply(func(half, r int) float32 { return float32(block[r]>>(4*half)&15*2 + 1) })
}

// putIQ1S packs codes of two bits. Both halves of a block have the same scale, and all its weights
// have the same third bit.
func putIQ1S(block []byte, r int, c *codes32) {
	block[r] = c.scales[0] | byte(c.columns[0]>>2&1)<<7
	putTwos(block[16:], r, c)
}

func unpackIQ1S(b *unpacked, block []byte) {
	b.twos(block[16:], 0)
	for c := range b.w {
		for r := range GroupRows {
			b.w[c][r] |= int8(block[r] >> 7 << 2)
		}
	}
	b.multiply(func(_, r int) float32 { return float32(block[r] & 15) })
}

// putIQ1M packs codes of two bits. Each eight weights have the same third bit.
func putIQ1M(block []byte, r int, c *codes32) {
	block[r] = c.scales[0] | c.scales[1]<<4
	for i := range 4 {
		block[GroupRows+r] |= byte(c.columns[2*i]>>2&1) << i
	}
	putTwos(block[32:], r, c)
}

func unpackIQ1M(b *unpacked, block []byte) {
	b.twos(block[32:], 0)
	for c := range b.w {
		for r := range GroupRows {
			b.w[c][r] |= int8(block[GroupRows+r] >> (c / 8) & 1 << 2)
		}
	}
	b.multiply(func(half, r int) float32 { return float32(block[r] >> (4 * half) & 15) })
}

// packNVFP4 packs a block of four runs of 16 weights, in which the weights in the two halves of a
// byte are 8 columns apart. A scale of 127 stands for 0.
func packNVFP4(dst []byte, r int, b []byte) { packRuns(dst, r, b, nvfp4Bytes, 32) }

// packNVFP4F32 is packNVFP4 with the block's factor after the scales.
func packNVFP4F32(dst []byte, r int, b []byte) {
	for s := range 2 {
		putWord(dst[s*nvfp4F32Bytes+32:], r, word(b, 0))
	}
	packRuns(dst, r, b[4:], nvfp4F32Bytes, 32+64)
}

// packRuns packs the runs of a block. size is the size of 32 packed columns, whose codes begin at
// the given offset.
func packRuns(dst []byte, r int, b []byte, size, codesAt int) {
	for s := range 2 {
		block := dst[s*size:]
		var columns [8]uint32
		for half := range 2 {
			run := 2*s + half
			if b[run] != 127 {
				block[GroupRows*half+r] = b[run] & 127
			}
			for j := range 2 {
				codes := word(b[4+8*run:], j)
				columns[4*half+j], columns[4*half+j+2] = codes&0x0f0f0f0f, codes>>4&0x0f0f0f0f
			}
		}
		packColumns(block[codesAt:], r, &columns)
	}
}

const nvfp4Bytes, nvfp4F32Bytes = 32 + 256, 32 + 64 + 256

func unpackNVFP4(b *unpacked, block, _ []byte) {
	b.codes(block[32:], &gguf.CodesMX)
	b.floatBytes(block)
}

func unpackNVFP4F32(b *unpacked, block, _ []byte) {
	b.codes(block[96:], &gguf.CodesMX)
	b.floatBytes(block)
	b.multiply(func(_, r int) float32 { return math.Float32frombits(word(block[32:], r)) })
}

// floatBytes sets the scales of the two halves.
func (b *unpacked) floatBytes(block []byte) {
	for half := range b.scale {
		for r := range b.scale[half] {
			b.scale[half][r] = gguf.FloatByte(block[GroupRows*half+r])
		}
	}
}

package kernels

import (
	"encoding/binary"

	"github.com/ingot-run/ingot/engine/gguf"
)

// Weights are packed in groups of 16 rows. A vector register then holds values of the same columns
// for all 16 rows, so a product needs no sum over the lanes of a register. The last group is padded
// with rows of zeros.
//
// A group of a float type has, for each column, the values of the 16 rows. If rows are whole blocks
// of 32 columns, F16 and BF16 are packed as words instead; see pack_words.go.
//
// A group of a quantised type has blocks of 32 columns, one after another. A block has the scales
// of the 16 rows, then the low four bits of the weights (all eight for Q8_0, none for Q2_K and
// Q3_K), then planes of the weights' further bits. The 32-bit word 16j+r of the low bits has
// weights 4j to 4j+3 of row r in the low halves of its bytes, and weights 16+4j to 16+4j+3 in the
// high halves. The unpacked weights of a block are 8 registers of 64 bytes: register j has weights
// 4j to 4j+3 of each row. Byte i of a plane has the further bits of byte i of several of these
// registers. Types with blocks of 256 weights have the scales of these blocks in front of every
// eighth block.

// GroupRows is the number of rows in a group.
const GroupRows = 16

type layout struct {
	super, block int // bytes in front of every eighth block, and bytes of a block
	columns      int // number of columns in a block
	// pack packs a block of the file into row r of a group. It is nil for the float types.
	pack func(dst []byte, r int, b []byte)
	// unpack reads a packed block in portable Go. It is nil for the float types. The caller has set
	// the block's scale to the float16 at the start of super or, for a type without super, at the
	// start of block. It has set min to 0.
	unpack func(b *unpacked, block, super []byte)
}

// layouts has an entry for every type of gguf.Types. The C kernels of c/product_*.c
// read the same layouts.
var layouts = map[gguf.Type]layout{
	gguf.TypeF32:  {block: 64, columns: 1},
	gguf.TypeF16:  {block: 32, columns: 1},
	gguf.TypeBF16: {block: 32, columns: 1},
	gguf.TypeQ40:  {0, 32 + 256, 32, packQ40, unpackQ40},
	gguf.TypeQ41:  {0, 64 + 256, 32, packQ41, unpackQ41},
	gguf.TypeQ50:  {0, 32 + 256 + 64, 32, packQ50, unpackQ50},
	gguf.TypeQ51:  {0, 64 + 256 + 64, 32, packQ51, unpackQ51},
	gguf.TypeQ80:  {0, 32 + 512, 32, packQ80, unpackQ80},
	gguf.TypeQ2K:  {64, 32 + 128, 32, packQ2K, unpackQ2K},
	gguf.TypeQ3K:  {32, 32 + 128 + 64, 32, packQ3K, unpackQ3K},
	gguf.TypeQ4K:  {64, 32 + 256, 32, packQ4K, unpackQ4K},
	gguf.TypeQ5K:  {64, 32 + 256 + 64, 32, packQ5K, unpackQ5K},
	gguf.TypeQ6K:  {32, 32 + 256 + 128, 32, packQ6K, unpackQ6K},

	gguf.TypeIQ4NL: {0, 32 + 256, 32, packQ40, unpackIQ4NL},
	gguf.TypeIQ4XS: {32, 16 + 256, 32, packIQ4XS, unpackIQ4XS},
	gguf.TypeMXFP4: {0, 16 + 256, 32, packMXFP4, unpackMXFP4},
	gguf.TypeNVFP4: {0, nvfp4Bytes, 32, packNVFP4, unpackNVFP4},

	gguf.TypeNVFP4F32: {0, nvfp4F32Bytes, 32, packNVFP4F32, unpackNVFP4F32},

	gguf.TypeIQ1S:   codesLayout(gguf.TypeIQ1S, 16+128, putIQ1S, unpackIQ1S),
	gguf.TypeIQ1M:   codesLayout(gguf.TypeIQ1M, 32+128, putIQ1M, unpackIQ1M),
	gguf.TypeIQ2XXS: codesLayout(gguf.TypeIQ2XXS, 16+128+64, putIQ2, unpackIQ2),
	gguf.TypeIQ2XS:  codesLayout(gguf.TypeIQ2XS, 16+128+64, putIQ2, unpackIQ2),
	gguf.TypeIQ2S:   codesLayout(gguf.TypeIQ2S, 16+128+64, putIQ2, unpackIQ2),
	gguf.TypeIQ3XXS: codesLayout(gguf.TypeIQ3XXS, 16+256, putIQ3, unpackIQ3),
	gguf.TypeIQ3S:   codesLayout(gguf.TypeIQ3S, 16+256, putIQ3, unpackIQ3),
	gguf.TypeTQ10:   codesLayout(gguf.TypeTQ10, 128, putTwos, unpackTwos),
	gguf.TypeTQ20:   codesLayout(gguf.TypeTQ20, 128, putTwos, unpackTwos),
}

// GroupBytes returns the size of a packed group of rows of n weights.
func GroupBytes(t gguf.Type, n int) int {
	if FormOf(t, n) == Words {
		return wordGroupBytes(n)
	}
	l := layouts[t]
	blocks := n / l.columns
	return blocks*l.block + blocks/8*l.super
}

// PackGroup packs up to 16 rows of n weights of type t into a group. src has the rows in the format
// of GGUF. dst must have GroupBytes bytes, all 0.
func PackGroup(dst []byte, t gguf.Type, src []byte, n int) {
	rowBytes, err := t.RowBytes(n)
	if err != nil {
		panic(err)
	}
	switch FormOf(t, n) {
	case Floats:
		packFloats(dst, src, rowBytes, rowBytes/n)
		return
	case Words:
		packWords(dst, t, src, rowBytes)
		return
	}
	for r := 0; len(src) > 0; r++ {
		packRow(dst, t, src[:rowBytes], r)
		src = src[rowBytes:]
	}
}

// packedAtOnce is the number of columns of a group that packFloats packs at once, so that they stay
// in the cache until all rows are packed.
const packedAtOnce = 64

// packFloats packs rows of values of 2 or 4 bytes.
func packFloats(dst, src []byte, rowBytes, size int) {
	for from := 0; from < rowBytes; from += packedAtOnce * size {
		to := min(from+packedAtOnce*size, rowBytes)
		for r := 0; r*rowBytes < len(src); r++ {
			row, at := src[r*rowBytes+from:r*rowBytes+to], dst[GroupRows*from+r*size:]
			if size == 2 {
				for i := 0; i < len(row); i += 2 {
					binary.LittleEndian.PutUint16(at[GroupRows*i:], binary.LittleEndian.Uint16(row[i:]))
				}
				continue
			}
			for i := 0; i < len(row); i += 4 {
				binary.LittleEndian.PutUint32(at[GroupRows*i:], binary.LittleEndian.Uint32(row[i:]))
			}
		}
	}
}

func packRow(dst []byte, t gguf.Type, row []byte, r int) {
	l, size := layouts[t], t.BlockBytes()
	for ; len(row) > 0; row = row[size:] {
		l.pack(dst, r, row[:size])
		dst = dst[l.super+t.BlockSize()/32*l.block:]
	}
}

func packQ40(dst []byte, r int, b []byte) {
	copy16(dst, r, b)
	packNibbles(dst[32:], r, b[2:])
}

func packQ41(dst []byte, r int, b []byte) {
	copy16(dst, r, b)
	copy16(dst[32:], r, b[2:])
	packNibbles(dst[64:], r, b[4:])
}

func packQ50(dst []byte, r int, b []byte) {
	copy16(dst, r, b)
	packNibbles(dst[32:], r, b[6:])
	packFifths(dst[288:], r, b[2:])
}

func packQ51(dst []byte, r int, b []byte) {
	copy16(dst, r, b)
	copy16(dst[32:], r, b[2:])
	packNibbles(dst[64:], r, b[8:])
	packFifths(dst[320:], r, b[4:])
}

func packQ80(dst []byte, r int, b []byte) {
	copy16(dst, r, b)
	for j := range 8 {
		copy(dst[32+64*j+4*r:][:4], b[2+4*j:])
	}
}

func packQ4K(dst []byte, r int, b []byte) { packK(dst, r, b, nil, b[16:]) }
func packQ5K(dst []byte, r int, b []byte) { packK(dst, r, b, b[16:48], b[48:]) }

func copy16(dst []byte, r int, src []byte) { dst[2*r], dst[2*r+1] = src[0], src[1] }

func word(b []byte, i int) uint32       { return binary.LittleEndian.Uint32(b[4*i:]) }
func putWord(b []byte, i int, v uint32) { binary.LittleEndian.PutUint32(b[4*i:], v) }

// packNibbles copies the 32 weights of four bits in src to row r. The weights in the two halves of
// a byte are 16 columns apart, both in the file and in a group.
func packNibbles(dst []byte, r int, src []byte) {
	for j := range 4 {
		putWord(dst, GroupRows*j+r, word(src, j))
	}
}

// packFifths packs the fifth bits of 32 weights of row r. Bit i of the first word of src is the
// fifth bit of weight i.
func packFifths(dst []byte, r int, src []byte) {
	bits, plane := word(src, 0), uint32(0)
	for column := range 32 {
		plane |= bits >> column & 1 << (8*(column%4) + column/4)
	}
	putWord(dst, r, plane)
}

// packColumns packs the low four bits of 32 weights of row r. Each byte of columns has one weight.
func packColumns(dst []byte, r int, columns *[8]uint32) {
	for j := range 4 {
		putWord(dst, GroupRows*j+r, columns[j]&0x0f0f0f0f|columns[j+4]&0x0f0f0f0f<<4)
	}
}

// packK packs a block of Q4_K or Q5_K. The low halves of 32 bytes of quants belong to 32 weights,
// and the high halves of these bytes to the next 32 weights. high has the fifth bits of Q5_K.
func packK(dst []byte, r int, b, high, quants []byte) {
	copy16(dst, r, b)
	copy16(dst[32:], r, b[2:])
	size := 288
	if high != nil {
		size += 64
	}
	for s := range 8 {
		block := dst[64+s*size:]
		block[r], block[GroupRows+r] = gguf.KScale(s, b[4:16])
		var columns [8]uint32
		plane := uint32(0)
		for j := range columns {
			columns[j] = word(quants[s/2*32:], j) >> (s % 2 * 4)
			if high != nil {
				plane |= word(high, j) >> s & 0x01010101 << j
			}
		}
		packColumns(block[32:], r, &columns)
		if high != nil {
			putWord(block[288:], r, plane)
		}
	}
}

// packQ6K packs a block of Q6_K: each half of 128 weights has 64 bytes of low and 32 bytes of high
// bits.
func packQ6K(dst []byte, r int, b []byte) {
	copy16(dst, r, b[208:])
	for s := range 8 {
		block, half, quarter := dst[32+s*416:], s/4, s%4
		low, high := b[64*half+quarter%2*32:], b[128+32*half:]
		block[r], block[GroupRows+r] = b[192+2*s], b[192+2*s+1]
		var columns [8]uint32
		var planes [2]uint32
		for j := range columns {
			columns[j] = word(low, j) >> (quarter / 2 * 4)
			planes[j/4] |= word(high, j) >> (2 * quarter) & 0x03030303 << (2 * (j % 4))
		}
		packColumns(block[32:], r, &columns)
		putWord(block[288:], r, planes[0])
		putWord(block[352:], r, planes[1])
	}
}

// packQ2K packs a block of Q2_K: each half of 128 weights has 32 bytes, with two bits for each of
// four runs of 32 weights.
func packQ2K(dst []byte, r int, b []byte) {
	copy16(dst, r, b[80:])
	copy16(dst[32:], r, b[82:])
	for s := range 8 {
		block := dst[64+s*160:]
		block[r], block[GroupRows+r] = b[2*s], b[2*s+1]
		packTwos(block[32:], r, b[16+s/4*32:], s%4)
	}
}

// packTwos packs 32 weights of two bits. Weight i is bits 2*run and 2*run+1 of byte i of src.
func packTwos(dst []byte, r int, src []byte, run int) {
	var planes [2]uint32
	for j := range 8 {
		planes[j/4] |= word(src, j) >> (2 * run) & 0x03030303 << (2 * (j % 4))
	}
	putWord(dst, r, planes[0])
	putWord(dst[64:], r, planes[1])
}

// packQ3K packs a block of Q3_K: like Q2_K, with third bits in the first 32 bytes and without
// minima.
func packQ3K(dst []byte, r int, b []byte) {
	copy16(dst, r, b[108:])
	for s := range 8 {
		block := dst[32+s*224:]
		block[r], block[GroupRows+r] = byte(gguf.Q3KScale(2*s, b[96:108])), byte(gguf.Q3KScale(2*s+1, b[96:108]))
		packTwos(block[32:], r, b[32+s/4*32:], s%4)
		plane := uint32(0)
		for j := range 8 {
			plane |= word(b, j) >> s & 0x01010101 << j
		}
		putWord(block[160:], r, plane)
	}
}

func packIQ4XS(dst []byte, r int, b []byte) {
	copy16(dst, r, b)
	for s := range 8 {
		block := dst[32+s*272:]
		block[r] = byte(gguf.IQ4XSScale(s, b))
		packNibbles(block[16:], r, b[8+16*s:])
	}
}

func packMXFP4(dst []byte, r int, b []byte) {
	dst[r] = b[0]
	packNibbles(dst[16:], r, b[1:])
}

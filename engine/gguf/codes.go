package gguf

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// Codes is a block of 256 weights of a type with a grid, or of a ternary type. Weight i is
// D·Unit·Scales[i/16]·Values[Codes[i]], with the type's CodeTable.
type Codes struct {
	D      uint16     // a float16
	Scales [16]uint8  // odd numbers below 32
	Codes  [256]uint8 // below 16
}

// CodeTable has the values of a type's codes.
type CodeTable struct {
	Unit   float32 // a power of two
	Values [16]int8
}

// The codes of IQ2 and IQ3 are those of the grid, with the weight's sign in the bit above. The
// codes of IQ1 have the sign of the shift by an eighth, which several weights share, in this bit.
var codeTables = map[Type]CodeTable{
	TypeIQ2XXS: {1. / 8, valuesIQ2},
	TypeIQ2XS:  {1. / 8, valuesIQ2},
	TypeIQ2S:   {1. / 8, valuesIQ2},
	TypeIQ3XXS: {1. / 4, [16]int8{4, 12, 20, 28, 36, 44, 52, 62, -4, -12, -20, -28, -36, -44, -52, -62}},
	TypeIQ3S:   {1, [16]int8{1, 3, 5, 7, 9, 11, 13, 15, -1, -3, -5, -7, -9, -11, -13, -15}},
	TypeIQ1S:   {1. / 8, valuesIQ1},
	TypeIQ1M:   {1. / 8, valuesIQ1},
	TypeTQ10:   {1, valuesTQ},
	TypeTQ20:   {1, valuesTQ},
}

var (
	valuesIQ2 = [16]int8{8, 25, 43, 0, -8, -25, -43, 0}
	valuesIQ1 = [16]int8{-7, 1, 9, 0, -9, -1, 7, 0}
	valuesTQ  = [16]int8{-1, 0, 1, 2}
)

// CodeTableOf returns the table of a type that Codes.Read reads.
func CodeTableOf(t Type) CodeTable { return codeTables[t] }

// dequantCodesOf returns the dequantiser of a type that Codes.Read reads.
func dequantCodesOf(t Type) func(y []float32, b []byte) {
	table := codeTables[t]
	return func(y []float32, b []byte) {
		var c Codes
		c.Read(t, b)
		d := F16ToF32(c.D) * table.Unit
		for s, scale := range c.Scales {
			by := d * float32(scale)
			for i := 16 * s; i < 16*s+16; i++ {
				y[i] = by * float32(table.Values[c.Codes[i]])
			}
		}
	}
}

// Read reads a block of type t. It panics for types that have no CodeTable.
func (c *Codes) Read(t Type, b []byte) {
	switch t {
	case TypeIQ2XXS:
		c.readIQ2XXS(b)
	case TypeIQ2XS:
		c.readIQ2XS(b)
	case TypeIQ2S:
		c.readIQ2S(b)
	case TypeIQ3XXS:
		c.readIQ3XXS(b)
	case TypeIQ3S:
		c.readIQ3S(b)
	case TypeIQ1S:
		c.readIQ1S(b)
	case TypeIQ1M:
		c.readIQ1M(b)
	case TypeTQ10:
		c.readTQ10(b)
	case TypeTQ20:
		c.readTQ20(b)
	default:
		panic(fmt.Sprintf("gguf: type %v has no codes", t))
	}
}

// twos sets the codes of eight weights: those of a grid's point with two bits each, and bit i of
// high above the code of weight i.
func (c *Codes) twos(eight int, point uint16, high uint8) {
	for i := range 8 {
		c.Codes[8*eight+i] = uint8(point>>(2*i))&3 | high>>i&1<<2
	}
}

// threes sets the codes of four weights as twos does.
func (c *Codes) threes(four int, point uint16, high uint8) {
	for i := range 4 {
		c.Codes[4*four+i] = uint8(point>>(3*i))&7 | high>>i&1<<3
	}
}

// evenSigns returns eight signs, of which seven are stored: the number of negative weights is even.
func evenSigns(seven uint32) uint8 {
	return uint8(seven&127 | uint32(bits.OnesCount32(seven&127))&1<<7)
}

// readIQ2XXS reads 8 bytes for each 32 weights: four indices, and a word with four times seven
// signs and a scale in its highest four bits.
func (c *Codes) readIQ2XXS(b []byte) {
	c.D = binary.LittleEndian.Uint16(b)
	for s := range 8 {
		indices, word := b[2+8*s:], binary.LittleEndian.Uint32(b[6+8*s:])
		for i := range 4 {
			c.twos(4*s+i, GridIQ2XXS[indices[i]], evenSigns(word>>(7*i)))
		}
		scale := uint8(word>>28)*2 + 1
		c.Scales[2*s], c.Scales[2*s+1] = scale, scale
	}
}

// nibbleScales reads a scale of four bits for each 16 weights.
func (c *Codes) nibbleScales(b []byte) {
	for i := range c.Scales {
		c.Scales[i] = b[i/2]>>(i%2*4)&15*2 + 1
	}
}

// readIQ2XS reads a word of 16 bits for each eight weights: an index of nine bits and seven signs.
func (c *Codes) readIQ2XS(b []byte) {
	c.D = binary.LittleEndian.Uint16(b)
	for i := range 32 {
		word := binary.LittleEndian.Uint16(b[2+2*i:])
		c.twos(i, GridIQ2XS[word&511], evenSigns(uint32(word>>9)))
	}
	c.nibbleScales(b[66:74])
}

// readIQ2S reads the low eight bits of 32 indices, their signs, and two high bits for each index.
func (c *Codes) readIQ2S(b []byte) {
	c.D = binary.LittleEndian.Uint16(b)
	low, signs, high := b[2:34], b[34:66], b[66:74]
	for i := range 32 {
		c.twos(i, GridIQ2S[int(low[i])|int(high[i/4]>>(i%4*2)&3)<<8], signs[i])
	}
	c.nibbleScales(b[74:82])
}

// readIQ3XXS reads 64 indices, each of four weights, and for each 32 weights a word as in IQ2_XXS.
func (c *Codes) readIQ3XXS(b []byte) {
	c.D = binary.LittleEndian.Uint16(b)
	indices := b[2:66]
	for s := range 8 {
		word := binary.LittleEndian.Uint32(b[66+4*s:])
		for i := range 4 {
			signs := evenSigns(word >> (7 * i))
			c.threes(8*s+2*i, GridIQ3XXS[indices[8*s+2*i]], signs)
			c.threes(8*s+2*i+1, GridIQ3XXS[indices[8*s+2*i+1]], signs>>4)
		}
		scale := uint8(word>>28)*2 + 1
		c.Scales[2*s], c.Scales[2*s+1] = scale, scale
	}
}

// readIQ3S reads the low eight bits of 64 indices, a ninth bit for each, all signs, and a scale of
// four bits for each 32 weights.
func (c *Codes) readIQ3S(b []byte) {
	c.D = binary.LittleEndian.Uint16(b)
	low, high, signs, scales := b[2:66], b[66:74], b[74:106], b[106:110]
	for i := range 64 {
		c.threes(i, GridIQ3S[int(low[i])|int(high[i/8]>>(i%8)&1)<<8], signs[i/2]>>(i%2*4))
	}
	for i := range c.Scales {
		c.Scales[i] = scales[i/4]>>(i/2%2*4)&15*2 + 1
	}
}

// readIQ1S reads the low eight bits of 32 indices and, for each 32 weights, a word of 16 bits:
// three high bits for each of four indices, a scale of three bits, and the sign of the shift.
func (c *Codes) readIQ1S(b []byte) {
	c.D = binary.LittleEndian.Uint16(b)
	low := b[2:34]
	for s := range 8 {
		word := binary.LittleEndian.Uint16(b[34+2*s:])
		for i := range 4 {
			c.twos(4*s+i, GridIQ1[int(low[4*s+i])|int(word>>(3*i)&7)<<8], -uint8(word>>15))
		}
		scale := uint8(word>>12)&7*2 + 1
		c.Scales[2*s], c.Scales[2*s+1] = scale, scale
	}
}

// readIQ1M reads the low eight bits of 32 indices, then four bits for each: three high bits and the
// sign of the shift. Four words of 16 bits follow. Each has four scales of three bits, and above
// them four bits of the block's float16.
func (c *Codes) readIQ1M(b []byte) {
	low, high := b[:32], b[32:48]
	for i := range 32 {
		four := high[i/2] >> (i % 2 * 4)
		c.twos(i, GridIQ1[int(low[i])|int(four&7)<<8], -(four >> 3 & 1))
	}
	c.D = 0
	for i := range 4 {
		word := binary.LittleEndian.Uint16(b[48+2*i:])
		c.D |= word >> 12 << (4 * i)
		for j := range 4 {
			c.Scales[4*i+j] = uint8(word>>(3*j))&7*2 + 1
		}
	}
}

// readTQ20 reads weights of two bits, in the order of Q2_K.
func (c *Codes) readTQ20(b []byte) {
	c.ternary(b[64:])
	for i := range c.Codes {
		c.Codes[i] = b[i/128*32+i%32] >> (i % 128 / 32 * 2) & 3
	}
}

// readTQ10 reads bytes that have five ternary digits each, except for the last four, which have
// four. A byte is the fraction of 256 that the digits are of 243. So a multiplication by 3 moves
// the highest digit above the byte.
func (c *Codes) readTQ10(b []byte) {
	c.ternary(b[52:])
	at := 0
	for _, part := range []struct{ from, to, digits int }{{0, 32, 5}, {32, 48, 5}, {48, 52, 4}} {
		power := uint8(1)
		for range part.digits {
			for _, v := range b[part.from:part.to] {
				c.Codes[at] = uint8(uint16(v*power) * 3 >> 8)
				at++
			}
			power *= 3
		}
	}
}

func (c *Codes) ternary(d []byte) {
	c.D = binary.LittleEndian.Uint16(d)
	for i := range c.Scales {
		c.Scales[i] = 1
	}
}

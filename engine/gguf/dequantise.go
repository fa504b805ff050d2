package gguf

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Dequantise writes the weights of src, which has blocks of type t, to dst. It panics if t is not
// readable. len(dst) must be a multiple of t.BlockSize(), and len(src) must be
// t.RowBytes(len(dst)). Each weight is computed with the format's formula in float32. The result is
// the same on every machine.
func Dequantise(dst []float32, t Type, src []byte) {
	info := t.info()
	switch info.blockSize {
	case 0:
		panic(fmt.Sprintf("gguf: dequantise: type %v is not readable", t))
	case 1:
		info.dequantise(dst, src)
		return
	}
	for size, bytes := info.blockSize, info.blockBytes; len(dst) > 0; dst, src = dst[size:], src[bytes:] {
		info.dequantise(dst[:size], src[:bytes])
	}
}

func dequantF32(y []float32, b []byte) {
	for i := range y {
		y[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
}

func dequantF16(y []float32, b []byte) {
	for i := range y {
		y[i] = half(b[2*i:])
	}
}

func dequantBF16(y []float32, b []byte) {
	for i := range y {
		y[i] = BF16ToF32(binary.LittleEndian.Uint16(b[2*i:]))
	}
}

func half(b []byte) float32 { return F16ToF32(binary.LittleEndian.Uint16(b)) }

// The functions below convert products to float32 before adding them. Without the conversion, Go
// may fuse product and sum into one operation on arm64, and results would differ between machines.

func dequantQ4_0(y []float32, b []byte) {
	d, qs := half(b), b[2:18]
	for j, q := range qs {
		y[j] = d * float32(int(q&15)-8)
		y[j+16] = d * float32(int(q>>4)-8)
	}
}

func dequantQ4_1(y []float32, b []byte) {
	d, m, qs := half(b), half(b[2:]), b[4:20]
	for j, q := range qs {
		y[j] = float32(d*float32(q&15)) + m
		y[j+16] = float32(d*float32(q>>4)) + m
	}
}

func dequantQ5_0(y []float32, b []byte) {
	d, high, qs := half(b), binary.LittleEndian.Uint32(b[2:]), b[6:22]
	for j, q := range qs {
		lo := int(q&15) | int(high>>j&1)<<4
		hi := int(q>>4) | int(high>>(j+16)&1)<<4
		y[j] = d * float32(lo-16)
		y[j+16] = d * float32(hi-16)
	}
}

func dequantQ5_1(y []float32, b []byte) {
	d, m, high, qs := half(b), half(b[2:]), binary.LittleEndian.Uint32(b[4:]), b[8:24]
	for j, q := range qs {
		lo := uint32(q&15) | high>>j&1<<4
		hi := uint32(q>>4) | high>>(j+16)&1<<4
		y[j] = float32(d*float32(lo)) + m
		y[j+16] = float32(d*float32(hi)) + m
	}
}

func dequantQ8_0(y []float32, b []byte) {
	d, qs := half(b), b[2:34]
	for j, q := range qs {
		y[j] = d * float32(int8(q))
	}
}

// KScale unpacks the 6-bit scale and minimum of sub-block j (0 to 7) from the 12 packed bytes of a
// Q4_K or Q5_K block.
func KScale(j int, q []byte) (scale, minimum uint8) {
	if j < 4 {
		return q[j] & 63, q[j+4] & 63
	}
	return q[j+4]&15 | q[j-4]>>6<<4, q[j+4]>>4 | q[j]>>6<<4
}

func dequantQ4K(y []float32, b []byte) {
	d, dmin, scales, qs := half(b), half(b[2:]), b[4:16], b[16:144]
	for j := 0; j < 8; j += 2 {
		s1, m1 := KScale(j, scales)
		s2, m2 := KScale(j+1, scales)
		d1, o1 := d*float32(s1), dmin*float32(m1)
		d2, o2 := d*float32(s2), dmin*float32(m2)
		lo, hi := y[32*j:32*j+32], y[32*j+32:32*j+64]
		for l, q := range qs[16*j : 16*j+32] {
			lo[l] = float32(d1*float32(q&15)) - o1
			hi[l] = float32(d2*float32(q>>4)) - o2
		}
	}
}

func dequantQ5K(y []float32, b []byte) {
	d, dmin, scales, high, qs := half(b), half(b[2:]), b[4:16], b[16:48], b[48:176]
	for j := 0; j < 8; j += 2 {
		s1, m1 := KScale(j, scales)
		s2, m2 := KScale(j+1, scales)
		d1, o1 := d*float32(s1), dmin*float32(m1)
		d2, o2 := d*float32(s2), dmin*float32(m2)
		lo, hi := y[32*j:32*j+32], y[32*j+32:32*j+64]
		for l, q := range qs[16*j : 16*j+32] {
			lo[l] = float32(d1*float32(q&15|high[l]>>j&1<<4)) - o1
			hi[l] = float32(d2*float32(q>>4|high[l]>>(j+1)&1<<4)) - o2
		}
	}
}

// dequantQ6K reads two halves of 128 weights. Each half has 64 bytes of low bits, 32 bytes of high
// bits, and 8 scales, each for 16 weights. A byte of high bits has two bits of each of four
// weights, whose indices are 32 apart.
func dequantQ6K(y []float32, b []byte) {
	low, high, scales, d := b[:128], b[128:192], b[192:208], half(b[208:])
	for range 2 {
		for l := range 32 {
			h, s := high[l], l/16
			q0 := low[l]&15 | h&3<<4
			q1 := low[l+32]&15 | h>>2&3<<4
			q2 := low[l]>>4 | h>>4&3<<4
			q3 := low[l+32]>>4 | h>>6<<4
			y[l] = float32(d*float32(int8(scales[s]))) * float32(int(q0)-32)
			y[l+32] = float32(d*float32(int8(scales[s+2]))) * float32(int(q1)-32)
			y[l+64] = float32(d*float32(int8(scales[s+4]))) * float32(int(q2)-32)
			y[l+96] = float32(d*float32(int8(scales[s+6]))) * float32(int(q3)-32)
		}
		y, low, high, scales = y[128:], low[64:], high[32:], scales[8:]
	}
}

// dequantQ2K reads two halves of 128 weights. Each half has 32 bytes. A byte has two bits of each
// of four weights, whose indices are 32 apart. Every 16 weights share a scale and a minimum of four
// bits each.
func dequantQ2K(y []float32, b []byte) {
	scales, quants, d, dmin := b[:16], b[16:80], half(b[80:]), half(b[82:])
	for s, v := range scales {
		scale, minimum := d*float32(v&15), dmin*float32(v>>4)
		shift, from := s%8/2*2, s/8*32+s%2*16
		for l, q := range quants[from : from+16] {
			y[16*s+l] = float32(scale*float32(q>>shift&3)) - minimum
		}
	}
}

// Q3KScale unpacks scale s (0 to 15) from the 12 packed bytes of a Q3_K block. It is the scale of
// the weights 16*s to 16*s+15.
func Q3KScale(s int, packed []byte) int8 {
	low := packed[s%8] >> (s / 8 * 4) & 15
	return int8(low|packed[8+s%4]>>(s/4*2)&3<<4) - 32
}

// dequantQ3K reads the low two bits of each weight as dequantQ2K does. The third bit of weight i is
// bit i/32 of byte i%32 of the block.
func dequantQ3K(y []float32, b []byte) {
	high, quants, scales, d := b[:32], b[32:96], b[96:108], half(b[108:])
	for s := range 16 {
		scale := d * float32(Q3KScale(s, scales))
		shift, from := s%8/2*2, s/8*32+s%2*16
		for l, q := range quants[from : from+16] {
			third := high[s%2*16+l] >> (s / 2) & 1
			y[16*s+l] = scale * float32(int(q>>shift&3|third<<2)-4)
		}
	}
}

// Codes4 has the values of the four-bit codes of IQ4_NL and IQ4_XS.
var Codes4 = [16]int8{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}

func dequantIQ4NL(y []float32, b []byte) { dequantCodes(y, &Codes4, half(b), b[2:18]) }

// IQ4XSScale unpacks scale s (0 to 7) from the bytes of an IQ4_XS block. It is the scale of the
// weights 32*s to 32*s+31.
func IQ4XSScale(s int, b []byte) int8 {
	low := b[4+s/2] >> (s % 2 * 4) & 15
	return int8(low|b[2+s/4]>>(s%4*2)&3<<4) - 32
}

func dequantIQ4XS(y []float32, b []byte) {
	d := half(b)
	for s := range 8 {
		dequantCodes(y[32*s:32*s+32], &Codes4, d*float32(IQ4XSScale(s, b)), b[8+16*s:24+16*s])
	}
}

// CodesMX has the doubled values of the four-bit codes of MXFP4, which are floats of one sign bit,
// two bits of exponent and one bit of mantissa.
var CodesMX = [16]int8{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}

func dequantMXFP4(y []float32, b []byte) { dequantCodes(y, &CodesMX, PowerMX(b[0]), b[1:17]) }

// PowerMX returns the scale of an MXFP4 block with exponent byte e: 2 to the power e-128, half of
// the format's scale because the values in CodesMX are doubled. The scale is subnormal if e is
// below 2.
func PowerMX(e byte) float32 {
	if e < 2 {
		return math.Float32frombits(0x00200000 << e)
	}
	return math.Float32frombits(uint32(e-1) << 23)
}

// dequantCodes writes the values of 32 four-bit codes, multiplied by d. The low halves of the 16
// bytes are the first 16 codes, and the high halves are the last 16.
func dequantCodes(y []float32, values *[16]int8, d float32, codes []byte) {
	for j, q := range codes {
		y[j] = d * float32(values[q&15])
		y[j+16] = d * float32(values[q>>4])
	}
}

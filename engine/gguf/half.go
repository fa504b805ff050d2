package gguf

import "math"

// F16ToF32 widens an IEEE 754 binary16 value. It is exact for every bit pattern, including
// subnormals, infinities and NaN payloads.
func F16ToF32(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	mant := uint32(h & 0x3ff)
	switch exp := uint32(h>>10) & 0x1f; exp {
	case 0:
		// Subnormal or zero: mant * 2^-24, exact in float32.
		return math.Float32frombits(sign | math.Float32bits(float32(mant)*0x1p-24))
	case 31:
		return math.Float32frombits(sign | 0x7f800000 | mant<<13)
	default:
		return math.Float32frombits(sign | (exp+112)<<23 | mant<<13)
	}
}

// F32ToF16 narrows to IEEE 754 binary16, rounding to nearest, ties to even. Values whose magnitude
// is still above 65504 after rounding become infinite. NaN stays NaN.
func F32ToF16(f float32) uint16 {
	b := math.Float32bits(f)
	sign := uint16(b>>16) & 0x8000
	b &= 0x7fffffff
	switch {
	case b > 0x7f800000:
		return sign | 0x7e00 | uint16(b>>13)&0x1ff // quiet NaN with the upper bits of the payload
	case b >= 0x477ff000: // 65520, halfway between 65504 and 2^16
		return sign | 0x7c00
	case b < 0x38800000: // below 2^-14: subnormal
		// The last mantissa bit of 0.5 + value is 2^-24, the unit of binary16's subnormals. The
		// float32 addition therefore rounds to nearest, ties to even.
		r := math.Float32frombits(b) + 0.5
		return sign | uint16(math.Float32bits(r)-0x3f000000)
	}
	b += 0xfff + b>>13&1
	return sign | uint16(b>>13-112<<10)
}

// BF16ToF32 widens a bfloat16 value, which is the upper half of a float32.
func BF16ToF32(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }

// F32ToBF16 narrows to bfloat16, rounding to nearest, ties to even. NaN stays NaN.
func F32ToBF16(f float32) uint16 {
	b := math.Float32bits(f)
	if b&0x7fffffff > 0x7f800000 {
		return uint16(b>>16) | 0x40
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

package gguf

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
)

// Randomize fills data, which must be whole blocks of type t, with random weights. They have a mean
// of about zero and about the given standard deviation. Measurements and tests use them instead of
// a trained model. Blocks are random bytes, so that every code of a type occurs. Scales are
// positive or negative at random, except in types whose scales have no sign.
func Randomize(r *rand.Rand, t Type, data []byte, deviation float64) {
	info := t.info()
	if info.blockSize == 1 {
		values := make([]float32, min(1<<16, len(data)/info.blockBytes)) // the values repeat if there are more weights
		for i := range values {
			values[i] = float32(deviation * r.NormFloat64())
		}
		for len(data) > 0 {
			n := min(len(values), len(data)/info.blockBytes)
			info.quantise(data[:n*info.blockBytes], values[:n])
			data = data[n*info.blockBytes:]
		}
		return
	}
	whole := len(data) &^ 7
	for i := 0; i < whole; i += 8 {
		binary.LittleEndian.PutUint64(data[i:], r.Uint64())
	}
	for i := whole; i < len(data); i++ {
		data[i] = byte(r.Uint32())
	}
	for at := 0; at < len(data); at += info.blockBytes {
		by := deviation * math.Exp2(r.Float64()-0.5)
		if info.form.signed() && r.IntN(2) == 0 {
			by = -by
		}
		if t == TypeNVFP4F32 {
			by = math.Sqrt(by)
			factor := math.Float32bits(float32(by)) &^ 0xffff // few bits, so that products with weights are exact
			binary.LittleEndian.PutUint32(data[at:], factor^r.Uint32()&(1<<31))
		}
		for _, s := range info.scales {
			info.form.put(data[at+s.at:], by*s.size)
		}
	}
}

// put writes a scale that is near v, which must be positive if the form has no signs.
func (f scaleForm) put(b []byte, v float64) {
	switch f {
	case halfScales:
		binary.LittleEndian.PutUint16(b, F32ToF16(float32(v)))
	case dividedScales:
		half := F32ToF16(float32(v))
		for i := range 4 {
			b[2*i+1] = b[2*i+1]&15 | byte(half>>(4*i)&15<<4)
		}
	case exponentScales:
		b[0] = byte(128 + int(math.Round(math.Log2(v))))
	case floatByteScales:
		const bias = 119 << 3 // FloatByte(i) has the exponent and mantissa bias+i
		b[0] = byte(min(max(int(math.Float32bits(float32(v))>>20)-bias, 1), 126))
	}
}

func (f scaleForm) signed() bool { return f == halfScales || f == dividedScales }

package gguf

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
)

// Randomize fills data, which must be whole blocks of type t, with random weights. They have a mean
// of about zero and about the given standard deviation. Measurements and tests use them instead of
// a trained model. Blocks are random bytes, so that every code of a type occurs. Scales are
// positive or negative at random, except in types whose scale is a power of two.
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
		if info.exponent {
			data[at+info.scales[0].at] = byte(128 + int(math.Round(math.Log2(by*info.scales[0].size))))
			continue
		}
		if r.IntN(2) == 0 {
			by = -by
		}
		for _, s := range info.scales {
			binary.LittleEndian.PutUint16(data[at+s.at:], F32ToF16(float32(by*s.size)))
		}
	}
}

package gguf

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

// Quantise writes src to dst as whole blocks of type t: F32, F16, BF16, Q8_0 or Q4_0. The bytes are
// the same as those of GGML's Python package (gguf). It returns an error if t is another type, if
// src is not a whole number of blocks, if len(dst) is not t.RowBytes(len(src)), or if t is Q8_0 or
// Q4_0 and a weight is not finite.
func Quantise(dst []byte, t Type, src []float32) error {
	n, err := t.RowBytes(len(src))
	if err != nil {
		return fmt.Errorf("quantise %d weights: %w", len(src), err)
	}
	if len(dst) != n {
		return fmt.Errorf("quantise %d weights to %v: the destination has %d bytes, but needs %d", len(src), t, len(dst), n)
	}
	info := t.info()
	if info.quantise == nil {
		return fmt.Errorf("quantise to %v: not supported (supported: %s)", t, Names(quantisable()))
	}
	if info.blockSize == 1 {
		info.quantise(dst, src)
		return nil
	}
	for i := 0; i < len(src); i += info.blockSize {
		x := src[i : i+info.blockSize]
		for j, v := range x {
			if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
				return fmt.Errorf("quantise to %v: weight %d is %v, but must be finite", t, i+j, v)
			}
		}
		info.quantise(dst[:info.blockBytes], x)
		dst = dst[info.blockBytes:]
	}
	return nil
}

func quantisable() []Type {
	return slices.DeleteFunc(Types(), func(t Type) bool { return t.info().quantise == nil })
}

func quantF32(b []byte, x []float32) {
	for i, v := range x {
		binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(v))
	}
}

func quantF16(b []byte, x []float32) {
	for i, v := range x {
		binary.LittleEndian.PutUint16(b[2*i:], F32ToF16(v))
	}
}

func quantBF16(b []byte, x []float32) {
	for i, v := range x {
		binary.LittleEndian.PutUint16(b[2*i:], F32ToBF16(v))
	}
}

func quantQ8_0(b []byte, x []float32) {
	var largest float32
	for _, v := range x {
		largest = max(largest, float32(math.Abs(float64(v))))
	}
	d := largest / 127
	inverse := reciprocal(d)
	binary.LittleEndian.PutUint16(b, F32ToF16(d))
	for j, v := range x {
		b[2+j] = byte(int8(math.Round(float64(v * inverse))))
	}
}

// quantQ4_0 chooses the scale so that the weight with the largest magnitude becomes -8: the
// format's codes are from -8 to 7. The scale is negative if that weight is positive.
func quantQ4_0(b []byte, x []float32) {
	var extreme float32
	for _, v := range x {
		if math.Abs(float64(v)) > math.Abs(float64(extreme)) {
			extreme = v
		}
	}
	d := extreme / -8
	inverse := reciprocal(d)
	binary.LittleEndian.PutUint16(b, F32ToF16(d))
	step := func(v float32) byte {
		// The product and the sum are rounded to float32 together, once, because the reference uses
		// a fused multiply-add.
		return byte(min(15, int(float32(float64(v)*float64(inverse)+8.5))))
	}
	for j := range 16 {
		b[2+j] = step(x[j]) | step(x[j+16])<<4
	}
}

// reciprocal returns 1/d, or 0 if 1/d is infinite.
func reciprocal(d float32) float32 {
	r := 1 / d
	if math.IsInf(float64(r), 0) {
		return 0
	}
	return r
}

package gguf

import (
	"encoding/binary"
	"math"
)

// TypeNVFP4F32 is NVFP4 whose blocks begin with a float32, by which their weights are multiplied.
// It is a type of weights in memory only: files have one float32 for a whole matrix, in a tensor of
// its own, and ScaleNVFP4 copies it to the blocks. So a weight is complete without a second tensor.
const TypeNVFP4F32 Type = 128

const nvfp4Bytes = 36 // bytes of a block in a file

// InFiles reports whether files may have tensors of the type.
func (t Type) InFiles() bool { return t.readable() && t != TypeNVFP4F32 }

// FileTypes returns the types of Types that files may have.
func FileTypes() []Type {
	var list []Type
	for _, t := range Types() {
		if t.InFiles() {
			list = append(list, t)
		}
	}
	return list
}

// ScaleNVFP4 returns a copy of a tensor of type NVFP4 in type NVFP4F32, whose matrices are
// multiplied by scales: one for each matrix, or one for all. The matrices must have the same size.
func ScaleNVFP4(t Tensor, scales []float32) Tensor {
	blocks := len(t.Data) / nvfp4Bytes
	each := blocks / len(scales)
	data := make([]byte, 0, blocks*(nvfp4Bytes+4))
	for i := range blocks {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(scales[i/each]))
		data = append(data, t.Data[i*nvfp4Bytes:(i+1)*nvfp4Bytes]...)
	}
	t.Type, t.Data = TypeNVFP4F32, data
	return t
}

func dequantNVFP4F32(y []float32, b []byte) {
	dequantScaledNVFP4(y, b[4:], math.Float32frombits(binary.LittleEndian.Uint32(b)))
}

func dequantNVFP4(y []float32, b []byte) { dequantScaledNVFP4(y, b, 1) }

// dequantScaledNVFP4 reads four runs of 16 weights. Each run has a scale in the first four bytes.
func dequantScaledNVFP4(y []float32, b []byte, scale float32) {
	for s := range 4 {
		d, codes, run := FloatByte(b[s])*scale, b[4+8*s:12+8*s], y[16*s:16*s+16]
		for j, q := range codes {
			run[j] = d * float32(CodesMX[q&15])
			run[j+8] = d * float32(CodesMX[q>>4])
		}
	}
}

// FloatByte returns half of a scale of NVFP4, because the values in CodesMX are doubled. The byte
// has four bits of exponent and three of mantissa; its highest bit is ignored. 127 stands for 0.
func FloatByte(v byte) float32 {
	exponent, mantissa := uint32(v>>3&15), uint32(v&7)
	switch {
	case v == 127:
		return 0
	case exponent == 0:
		return float32(mantissa) * (1. / 1024)
	}
	return math.Float32frombits((exponent+119)<<23 | mantissa<<20)
}

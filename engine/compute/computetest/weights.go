package computetest

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
)

// types is every type that a weight can have.
var types = []gguf.Type{
	gguf.TypeF32, gguf.TypeF16, gguf.TypeBF16, gguf.TypeQ40, gguf.TypeQ41, gguf.TypeQ50, gguf.TypeQ51, gguf.TypeQ80,
	gguf.TypeQ4K, gguf.TypeQ5K, gguf.TypeQ6K,
}

// blockScales says where the float16 scales of a type's blocks stand, and how large they are where the weights' standard
// deviation is about 1.
var blockScales = map[gguf.Type][]struct {
	at   int
	size float64
}{
	gguf.TypeQ40: {{0, 0.2}},
	gguf.TypeQ41: {{0, 0.2}, {2, -1.5}},
	gguf.TypeQ50: {{0, 0.1}},
	gguf.TypeQ51: {{0, 0.1}, {2, -1.5}},
	gguf.TypeQ80: {{0, 0.0135}},
	gguf.TypeQ4K: {{0, 0.005}, {2, 0.035}},
	gguf.TypeQ5K: {{0, 0.0025}, {2, 0.035}},
	gguf.TypeQ6K: {{208, 0.0007}},
}

// RandomTensor makes a tensor of any type whose values have about the given standard deviation. Blocks are random bytes,
// scales and minimums of sub-blocks included, so that every code of a type is met, under float16 scales of either sign.
func RandomTensor(r *rand.Rand, name string, t gguf.Type, deviation float64, shape ...int) gguf.Tensor {
	tensor := gguf.Tensor{Name: name, Type: t, Shape: shape}
	n := tensor.Elements()
	if t.BlockSize() == 1 {
		values := make([]float32, n)
		for i := range values {
			values[i] = float32(deviation * r.NormFloat64())
		}
		tensor.Data = encode(t, values)
		return tensor
	}
	if shape[0]%t.BlockSize() != 0 {
		panic(fmt.Sprintf("computetest: rows of %d values are no blocks of %v", shape[0], t))
	}
	tensor.Data = make([]byte, n/t.BlockSize()*t.BlockBytes())
	for i := range tensor.Data {
		tensor.Data[i] = byte(r.Uint32())
	}
	for at := 0; at < len(tensor.Data); at += t.BlockBytes() {
		by := deviation * math.Exp2(r.Float64()-0.5)
		if r.IntN(2) == 0 {
			by = -by
		}
		for _, s := range blockScales[t] {
			binary.LittleEndian.PutUint16(tensor.Data[at+s.at:], gguf.F32ToF16(float32(by*s.size)))
		}
	}
	return tensor
}

func encode(t gguf.Type, values []float32) []byte {
	size, err := t.RowBytes(len(values))
	if err != nil {
		panic(fmt.Sprintf("computetest: %v", err)) // a float type takes any number
	}
	data := make([]byte, size)
	if err := gguf.Quantize(data, t, values); err != nil {
		panic(fmt.Sprintf("computetest: %v", err))
	}
	return data
}

// floats is a tensor of the rows of values.
func floats(values [][]float32) gguf.Tensor {
	var flat []float32
	for _, row := range values {
		flat = append(flat, row...)
	}
	return gguf.Tensor{Name: "values", Type: gguf.TypeF32, Shape: []int{len(values[0]), len(values)}, Data: encode(gguf.TypeF32, flat)}
}

// matrix is a weight on the backend and its values here.
type matrix struct {
	weight  compute.Weight
	kind    gguf.Type
	in, out int
	values  []float32 // [matrices][out][in]
}

// matrix makes a random weight of which products with normed rows have a standard deviation of about 1. shape is {in},
// {in, out} or {in, out, matrices}.
func (r *rig) matrix(t gguf.Type, shape ...int) *matrix {
	deviation := 1.0
	if len(shape) > 1 {
		deviation = 1 / math.Sqrt(float64(shape[0]))
	}
	tensor := RandomTensor(r.rand, "weight", t, deviation, shape...)
	m := &matrix{weight: r.weight(tensor), kind: t, in: shape[0], out: 1, values: make([]float32, tensor.Elements())}
	if len(shape) > 1 {
		m.out = shape[1]
	}
	gguf.Dequantize(m.values, t, tensor.Data)
	return m
}

func (m *matrix) row(i, o int) []float32 {
	at := (i*m.out + o) * m.in
	return m.values[at : at+m.in]
}

// product is matrix i times x.
func (m *matrix) product(i int, x []float32) []approx {
	out := make([]approx, m.out)
	for o := range out {
		out[o] = dot(m.kind, m.row(i, o), x)
	}
	return out
}

// length draws the length of a weight's rows: any for floats, whole blocks for the others.
func (r *rig) length(t gguf.Type, longest int) int {
	n := t.BlockSize()
	return n * r.among(1, max(longest/n, 1))
}

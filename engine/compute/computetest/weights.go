package computetest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
)

// RandomTensor makes a tensor of any type with random values of about the given standard deviation;
// see gguf.Randomize.
func RandomTensor(r *rand.Rand, name string, t gguf.Type, deviation float64, shape ...int) gguf.Tensor {
	tensor := gguf.Tensor{Name: name, Type: t, Shape: shape}
	if shape[0]%t.BlockSize() != 0 {
		panic(fmt.Sprintf("computetest: rows of %d values are not whole blocks of type %v", shape[0], t))
	}
	tensor.Data = make([]byte, tensor.Elements()/t.BlockSize()*t.BlockBytes())
	gguf.Randomize(r, t, tensor.Data, deviation)
	return tensor
}

func encode(t gguf.Type, values []float32) []byte {
	size, err := t.RowBytes(len(values))
	if err != nil {
		panic(fmt.Sprintf("computetest: size of %d values of type %v: %v", len(values), t, err)) // a float type accepts any number of values
	}
	data := make([]byte, size)
	if err := gguf.Quantise(data, t, values); err != nil {
		panic(fmt.Sprintf("computetest: %v", err))
	}
	return data
}

func floats(values [][]float32) gguf.Tensor {
	flat := slices.Concat(values...)
	return gguf.Tensor{Name: "values", Type: gguf.TypeF32, Shape: []int{len(values[0]), len(values)}, Data: encode(gguf.TypeF32, flat)}
}

type matrix struct {
	weight    compute.Weight
	kind      gguf.Type
	precision compute.Precision
	in, out   int
	values    []float32 // [matrices][out][in]
}

// matrix makes a random weight whose products with normed rows have a standard deviation of
// about 1. shape is {in}, {in, out} or {in, out, matrices}.
func (r *rig) matrix(t gguf.Type, shape ...int) *matrix {
	deviation := 1.0
	if len(shape) > 1 {
		deviation = 1 / math.Sqrt(float64(shape[0]))
	}
	tensor := RandomTensor(r.rand, "weight", t, deviation, shape...)
	m := &matrix{weight: r.weight(tensor), kind: t, precision: r.precision, in: shape[0], out: 1, values: tensor.Values()}
	if len(shape) > 1 {
		m.out = shape[1]
	}
	return m
}

// optional returns the weight of a matrix. If there is no matrix, the interface itself is nil.
func (m *matrix) optional() compute.Weight {
	if m == nil {
		return nil
	}
	return m.weight
}

func (m *matrix) row(i, o int) []float32 {
	at := (i*m.out + o) * m.in
	return m.values[at : at+m.in]
}

func (m *matrix) product(i int, x []float32) []approx {
	out := make([]approx, m.out)
	for o := range out {
		out[o] = dot(m.kind, m.precision, m.row(i, o), x)
	}
	return out
}

// length draws the number of values of a weight's row: any number for float types, whole blocks for
// other types. The number is at most longest, unless one block is longer.
func (r *rig) length(t gguf.Type, longest int) int {
	n := t.BlockSize()
	return n * r.among(1, max(longest/n, 1))
}

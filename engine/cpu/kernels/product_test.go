package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/gguf"
)

func randomWeights(t testing.TB, r *rand.Rand, kind gguf.Type, rows, n int) []byte {
	rowBytes, err := kind.RowBytes(n)
	require.NoError(t, err)
	data := make([]byte, rows*rowBytes)
	gguf.Randomize(r, kind, data, 1)
	return data
}

func pack(t testing.TB, kind gguf.Type, data []byte, rows, n int) []byte {
	rowBytes, err := kind.RowBytes(n)
	require.NoError(t, err)
	size, groups := GroupBytes(kind, n), (rows+GroupRows-1)/GroupRows
	packed := make([]byte, groups*size)
	for g := range groups {
		PackGroup(packed[g*size:(g+1)*size], kind, data[g*GroupRows*rowBytes:min(rows, (g+1)*GroupRows)*rowBytes], n)
	}
	return packed
}

// activations are rows of n values, as float32 and as quantised blocks.
type activations struct {
	n      int
	floats []float32
	blocks []Block
}

func randomActivations(r *rand.Rand, s *Set, rows, n int) *activations {
	x := &activations{n: n, floats: make([]float32, rows*n), blocks: make([]Block, rows*n/32+1)}
	for i := range x.floats {
		x.floats[i] = float32(r.NormFloat64())
	}
	s.Quantise(&QuantiseArgs{X: &x.floats[0], Out: &x.blocks[0], Blocks: int64(rows * n / 32)})
	return x
}

// blockOf returns a block with the sums of its activations.
func blockOf(q [32]int8, d float32) Block {
	var sum, first int32
	for i, v := range q {
		if sum += int32(v); i < 16 {
			first += int32(v)
		}
	}
	return Block{
		Q: q, D: d, Sum: d * float32(sum), FirstSum: d * float32(first),
		Minus8: -8 * sum, Minus16: -16 * sum, Minus128: -128 * sum, First32: -32 * first, Second32: -32 * (sum - first),
	}
}

// multiply runs a product over the given rows of x. Before the call, out has the values to which
// the results are added.
func (x *activations) multiply(s *Set, kind gguf.Type, packed []byte, rows []int, factors []float32, out []float32) {
	groups := len(packed) / GroupBytes(kind, x.n)
	unit := 32
	a := &ProductArgs{W: unsafe.Pointer(&packed[0]), X: unsafe.Pointer(&x.blocks[0]), Out: &out[0], Rows: int64(len(rows)), Groups: int64(groups)}
	if FloatWeights(kind) {
		unit, a.X = 1, unsafe.Pointer(&x.floats[0])
	}
	a.Blocks = int64(x.n / unit)
	in, at := make([]int64, len(rows)), make([]int64, len(rows))
	for i, r := range rows {
		in[i], at[i] = int64(r*x.n/unit), int64(i*groups*GroupRows)
	}
	a.In, a.At = &in[0], &at[0]
	if factors != nil {
		a.Factors = &factors[0]
	}
	s.Product(kind)(a)
}

func eachSet(t *testing.T, test func(t *testing.T, s *Set)) {
	for _, s := range Sets() {
		t.Run(s.Name, func(t *testing.T) { test(t, s) })
	}
}

// TestProduct compares products with sums in float64 over the dequantised weights and activations.
func TestProduct(t *testing.T) {
	t.Parallel()
	for _, kind := range gguf.Types() {
		for _, shape := range [][3]int{{16, 256, 1}, {33, 512, 2}, {48, 768, 3}, {16, 256, 7}, {17, 2560, 16}, {32, 512, 37}} {
			weights, n, rows := shape[0], shape[1], shape[2]
			t.Run(fmt.Sprint(kind, shape), func(t *testing.T) {
				t.Parallel()
				eachSet(t, func(t *testing.T, s *Set) { checkProduct(t, s, kind, weights, n, rows) })
			})
		}
	}
	for rows := 1; rows <= 33; rows++ { // all numbers of rows, for all combinations of tile sizes
		for _, kind := range gguf.Types() {
			eachSet(t, func(t *testing.T, s *Set) { checkProduct(t, s, kind, 16, 256, rows) })
		}
	}
	// Row lengths that are not multiples of 256.
	for _, kind := range gguf.Types() {
		if n := 39 * kind.BlockSize(); n%256 != 0 {
			eachSet(t, func(t *testing.T, s *Set) { checkProduct(t, s, kind, 20, n, 5) })
		}
	}
}

func checkProduct(t *testing.T, s *Set, kind gguf.Type, weights, n, rows int) {
	r := rand.New(rand.NewPCG(uint64(kind), uint64(n)))
	data := randomWeights(t, r, kind, weights, n)
	packed := pack(t, kind, data, weights, n)
	x := randomActivations(r, s, rows, n)
	groups := (weights + GroupRows - 1) / GroupRows
	got := make([]float32, rows*groups*GroupRows)
	order := r.Perm(rows)
	x.multiply(s, kind, packed, order, nil, got)

	line := make([]float32, n)
	rowBytes := len(data) / weights
	for w := range weights {
		gguf.Dequantise(line, kind, data[w*rowBytes:(w+1)*rowBytes])
		for i, row := range order {
			want, size := 0.0, 0.0
			for k, v := range line {
				a := float64(x.floats[row*n+k])
				if !FloatWeights(kind) {
					block := &x.blocks[(row*n+k)/32]
					a = float64(block.D) * float64(block.Q[k%32])
				}
				want += float64(v) * a
				size += math.Abs(float64(v) * a)
			}
			require.InDelta(t, want, got[i*groups*GroupRows+w], 1e-5*size, "row %d of the weights, row %d of the activations", w, row)
		}
	}

	// The results of each row alone have the same bits, also if they are added to out.
	for i, row := range order {
		alone := make([]float32, groups*GroupRows)
		x.multiply(s, kind, packed, []int{row}, nil, alone)
		require.Equal(t, alone, got[i*groups*GroupRows:][:len(alone)])
	}
	factors := make([]float32, rows)
	sums := make([]float32, len(got))
	for i := range factors {
		factors[i] = float32(i) - 1.5
	}
	for i := range sums {
		sums[i] = float32(i)
	}
	x.multiply(s, kind, packed, order, factors, sums)
	for i, v := range got {
		want := float64(i) + float64(factors[i/(groups*GroupRows)])*float64(v)
		require.InDelta(t, want, sums[i], 1e-5*(math.Abs(want)+float64(i)))
	}
}

// TestProductExact uses scales of 1, so that products are sums of whole numbers. The results of all
// levels must be equal.
func TestProductExact(t *testing.T) {
	t.Parallel()
	const weights, n, rows = 32, 512, 5
	for _, kind := range gguf.Types() {
		if FloatWeights(kind) {
			continue
		}
		r := rand.New(rand.NewPCG(1, uint64(kind)))
		data := randomWeights(t, r, kind, weights, n)
		for at := 0; at < len(data); at += kind.BlockBytes() {
			for _, scale := range kind.Scales() {
				data[at+scale], data[at+scale+1] = 0, 0x3c
			}
		}
		packed := pack(t, kind, data, weights, n)
		var want []float32
		for _, s := range Sets() {
			x := randomActivations(r, s, rows, n)
			r := rand.New(rand.NewPCG(3, 3))
			for k := range x.blocks {
				b := &x.blocks[k]
				for i := range b.Q {
					b.Q[i] = int8(r.IntN(255) - 127)
				}
				*b = blockOf(b.Q, 1)
			}
			got := make([]float32, rows*weights)
			x.multiply(s, kind, packed, []int{0, 1, 2, 3, 4}, nil, got)
			if want == nil {
				want = got
			}
			require.Equal(t, want, got, "%v, %s", kind, s.Name)
		}
	}
}

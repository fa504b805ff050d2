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

// integers returns the integers of a block of s, in order.
func (s *Set) integers(b *Block) (q [32]int32) {
	for i := range q {
		q[i] = s.integer(b, i)
	}
	return q
}

func (s *Set) integer(b *Block, i int) int32 {
	switch s.Name {
	case "portable":
		return int32(b.Q[i])
	case "neon":
		halves := (*[64]int8)(unsafe.Pointer(&b.Q))
		return 256*int32(halves[i]) + int32(halves[32+i])
	}
	return int32(b.Q[i&^3+[]int{0, 2, 1, 3}[i%4]])
}

// blockOf returns a block of s with the sums of its integers.
func (s *Set) blockOf(q [32]int32, d float32) Block {
	b := Block{D: d}
	var sums [2]int32
	for i, v := range q {
		sums[i/16] += v
		switch s.Name {
		case "portable":
			b.Q[i] = int16(v)
		case "neon":
			halves := (*[64]int8)(unsafe.Pointer(&b.Q))
			halves[i] = int8((v + 128) >> 8)
			halves[32+i] = int8(v)
		default:
			b.Q[i&^3+[]int{0, 2, 1, 3}[i%4]] = int16(v)
		}
	}
	sum := sums[0] + sums[1]
	b.Sum, b.Minus8, b.Minus16 = d*float32(sum), -8*sum, -16*sum
	for i, v := range sums {
		b.Sums[i], b.Minus32[i] = d*float32(v), -32*v
	}
	return b
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
					a = float64(block.D) * float64(s.integer(block, k%32))
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

// TestProductExact uses scales of 1 and integers as activations. The results of all levels must be
// the sums of integers, up to the rounding of float32.
func TestProductExact(t *testing.T) {
	t.Parallel()
	for name, draw := range map[string]func(r *rand.Rand, i int) int32{
		"small":         func(r *rand.Rand, _ int) int32 { return int32(r.IntN(255) - 127) },
		"multiples":     func(r *rand.Rand, _ int) int32 { return 256 * int32(r.IntN(255)-127) },
		"one per block": func(r *rand.Rand, i int) int32 { return max(0, int32(1-i%32)) * int32(r.IntN(2*MaxQ+1)-MaxQ) },
	} {
		for _, kind := range gguf.Types() {
			if !FloatWeights(kind) {
				t.Run(fmt.Sprint(name, kind), func(t *testing.T) { checkExact(t, kind, draw) })
			}
		}
	}
}

func checkExact(t *testing.T, kind gguf.Type, draw func(r *rand.Rand, i int) int32) {
	const weights, n, rows = 32, 512, 5
	r := rand.New(rand.NewPCG(1, uint64(kind)))
	data := randomWeights(t, r, kind, weights, n)
	for at := 0; at < len(data); at += kind.BlockBytes() {
		for _, scale := range kind.Scales() {
			data[at+scale], data[at+scale+1] = 0, 0x3c
		}
	}
	packed := pack(t, kind, data, weights, n)
	q := make([]int32, rows*n)
	for i := range q {
		q[i] = draw(r, i)
	}
	var first []float32
	for _, s := range Sets() {
		x := randomActivations(r, s, rows, n)
		for k := range rows * n / 32 {
			x.blocks[k] = s.blockOf([32]int32(q[32*k:]), 1)
		}
		got := make([]float32, rows*weights)
		x.multiply(s, kind, packed, []int{0, 1, 2, 3, 4}, nil, got)
		if s.Name != "portable" { // all levels of machine code give the same bits
			if first == nil {
				first = got
			}
			require.Equal(t, first, got, s.Name)
		}
		line := make([]float32, n)
		for w := range weights {
			gguf.Dequantise(line, kind, data[w*len(data)/weights:(w+1)*len(data)/weights])
			for row := range rows {
				want, size := 0.0, 0.0
				for k, v := range line {
					want += float64(v) * float64(q[row*n+k])
					size += math.Abs(float64(v) * float64(q[row*n+k]))
				}
				require.InDelta(t, want, got[row*weights+w], 1e-6*size, "%s, row %d of the weights, row %d of the activations", s.Name, w, row)
			}
		}
	}
}

package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/compute"
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

// operation is the products of a level in one precision.
type operation struct {
	*Products
	level     string
	precision compute.Precision
}

// eachProducts tests every level in both precisions.
func eachProducts(t *testing.T, test func(t *testing.T, p operation)) {
	for _, p := range allProducts() {
		t.Run(fmt.Sprint(p.level, "/", p.precision), func(t *testing.T) { test(t, p) })
	}
}

func allProducts() []operation {
	var all []operation
	for _, s := range Sets() {
		for _, precision := range []compute.Precision{compute.High, compute.Fast} {
			all = append(all, operation{s.Products(precision), s.Name, precision})
		}
	}
	return all
}

func (p operation) largest() int32 {
	if p.precision == compute.Fast {
		return MaxQ8
	}
	return MaxQ
}

// activations are rows of n values, as float32 and as quantised blocks.
type activations struct {
	operation
	n      int
	floats []float32
	blocks []Block // memory of the blocks of either precision
	words  []WordBlock
}

func (p operation) activations(n, rows int) *activations {
	return &activations{p, n, make([]float32, rows*n), make([]Block, rows*n/32+1), make([]WordBlock, rows*n/32+1)}
}

func randomActivations(r *rand.Rand, p operation, rows, n int) *activations {
	x := p.activations(n, rows)
	for i := range x.floats {
		x.floats[i] = float32(r.NormFloat64())
	}
	p.Quantise(&QuantiseArgs{X: &x.floats[0], Out: unsafe.Pointer(&x.blocks[0]), Blocks: int64(rows * n / 32)})
	p.QuantiseWords(&QuantiseArgs{X: &x.floats[0], Out: unsafe.Pointer(&x.words[0]), Blocks: int64(rows * n / 32)})
	return x
}

func (x *activations) block(k int) unsafe.Pointer {
	return unsafe.Add(unsafe.Pointer(&x.blocks[0]), k*x.BlockBytes)
}

// exchanged has the places of each four integers in a Block for AVX2.
var exchanged = []int{0, 2, 1, 3}

// get returns the integers of block k, in order.
func (x *activations) get(k int) (q [32]int32, sums Sums) {
	if x.precision == compute.Fast {
		b := (*Block8)(x.block(k))
		for i, v := range b.Q {
			q[i] = int32(v)
		}
		return q, b.Sums
	}
	b := (*Block)(x.block(k))
	for i := range q {
		switch x.level {
		case "portable":
			q[i] = int32(b.Q[i])
		case "avx2":
			q[i] = int32(b.Q[i&^3+exchanged[i%4]])
		default:
			halves := (*[64]int8)(unsafe.Pointer(&b.Q))
			q[i] = 256*int32(halves[i]) + int32(halves[32+i])
		}
	}
	return q, b.Sums
}

// values returns the values by which weights of a type are multiplied.
func (x *activations) values(kind gguf.Type) []float64 {
	values := make([]float64, len(x.floats))
	for i, v := range x.floats {
		values[i] = float64(v)
	}
	switch FormOf(kind, x.n) {
	case Blocks:
		for i := 0; i < len(values); i += 32 {
			q, sums := x.get(i / 32)
			for k, v := range q {
				values[i+k] = float64(sums.D) * float64(v)
			}
		}
	case Words:
		for i := range values {
			b := &x.words[i/32]
			values[i] = float64(b.D) * float64(b.Q[i%32])
		}
	}
	return values
}

// set writes integers to block k.
func (x *activations) set(k int, q [32]int32, d float32) {
	var halves [2]int32
	for i, v := range q {
		halves[i/16] += v
	}
	sums := sumsOf(halves, d)
	if x.precision == compute.Fast {
		b := (*Block8)(x.block(k))
		for i, v := range q {
			b.Q[i] = int8(v)
		}
		b.Sums = sums
		return
	}
	b := (*Block)(x.block(k))
	for i, v := range q {
		switch x.level {
		case "portable":
			b.Q[i] = int16(v)
		case "avx2":
			b.Q[i&^3+exchanged[i%4]] = int16(v)
		default:
			halves := (*[64]int8)(unsafe.Pointer(&b.Q))
			halves[i], halves[32+i] = int8((v+128)>>8), int8(v)
		}
	}
	b.Sums = sums
}

// multiply runs a product over the given rows of x. Before the call, out has the values to which
// the results are added.
func (x *activations) multiply(kind gguf.Type, packed []byte, rows []int, factors []float32, out []float32) {
	groups := len(packed) / GroupBytes(kind, x.n)
	unit := 32
	a := &ProductArgs{W: unsafe.Pointer(&packed[0]), X: x.block(0), Out: &out[0], Rows: int64(len(rows)), Groups: int64(groups)}
	switch FormOf(kind, x.n) {
	case Floats:
		unit, a.X = 1, unsafe.Pointer(&x.floats[0])
	case Words:
		a.X = unsafe.Pointer(&x.words[0])
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
	x.Product(kind, x.n)(a)
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
				eachProducts(t, func(t *testing.T, p operation) { checkProduct(t, p, kind, weights, n, rows) })
			})
		}
	}
	for rows := 1; rows <= 33; rows++ { // all numbers of rows, for all combinations of tile sizes
		for _, kind := range gguf.Types() {
			eachProducts(t, func(t *testing.T, p operation) { checkProduct(t, p, kind, 16, 256, rows) })
		}
	}
	// Row lengths that are not multiples of 256.
	for _, kind := range gguf.Types() {
		if n := 39 * kind.BlockSize(); n%256 != 0 {
			eachProducts(t, func(t *testing.T, p operation) { checkProduct(t, p, kind, 20, n, 5) })
		}
	}
}

func checkProduct(t *testing.T, p operation, kind gguf.Type, weights, n, rows int) {
	r := rand.New(rand.NewPCG(uint64(kind), uint64(n)))
	data := randomWeights(t, r, kind, weights, n)
	packed := pack(t, kind, data, weights, n)
	x := randomActivations(r, p, rows, n)
	groups := (weights + GroupRows - 1) / GroupRows
	got := make([]float32, rows*groups*GroupRows)
	order := r.Perm(rows)
	x.multiply(kind, packed, order, nil, got)

	line, values := make([]float32, n), x.values(kind)
	rowBytes := len(data) / weights
	for w := range weights {
		gguf.Dequantise(line, kind, data[w*rowBytes:(w+1)*rowBytes])
		if FormOf(kind, n) == Words { // TestPackWords checks how far they are from the weights
			unpackWords(line, packed[w/GroupRows*GroupBytes(kind, n):], w%GroupRows)
		}
		for i, row := range order {
			want, size := 0.0, 0.0
			for k, v := range values[row*n:][:n] {
				v *= float64(line[k])
				want += v
				size += math.Abs(v)
			}
			require.InDelta(t, want, got[i*groups*GroupRows+w], 1e-5*size, "row %d of the weights, row %d of the activations", w, row)
		}
	}

	// The results of each row alone have the same bits, also if they are added to out.
	for i, row := range order {
		alone := make([]float32, groups*GroupRows)
		x.multiply(kind, packed, []int{row}, nil, alone)
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
	x.multiply(kind, packed, order, factors, sums)
	for i, v := range got {
		want := float64(i) + float64(factors[i/(groups*GroupRows)])*float64(v)
		require.InDelta(t, want, sums[i], 1e-5*(math.Abs(want)+float64(i)))
	}
}

// TestProductExact uses scales of 1 and integers as activations. The results of all levels must be
// the sums of integers, up to the rounding of float32.
func TestProductExact(t *testing.T) {
	t.Parallel()
	for name, draw := range map[string]func(r *rand.Rand, i int, largest int32) int32{
		"small":     func(r *rand.Rand, _ int, _ int32) int32 { return int32(r.IntN(255) - 127) },
		"multiples": func(r *rand.Rand, _ int, largest int32) int32 { return largest / 127 * int32(r.IntN(255)-127) },
		"largest":   func(r *rand.Rand, i int, largest int32) int32 { return largest * int32(1-i/64%2*2) },
		"one per block": func(r *rand.Rand, i int, largest int32) int32 {
			return max(0, int32(1-i%32)) * (r.Int32N(2*largest+1) - largest)
		},
	} {
		for _, kind := range gguf.Types() {
			if kind.BlockSize() > 1 {
				t.Run(fmt.Sprint(name, kind), func(t *testing.T) { checkExact(t, kind, draw) })
			}
		}
	}
}

func checkExact(t *testing.T, kind gguf.Type, draw func(r *rand.Rand, i int, largest int32) int32) {
	const weights, n, rows = 32, 512, 5
	r := rand.New(rand.NewPCG(1, uint64(kind)))
	data := randomWeights(t, r, kind, weights, n)
	for at := 0; at < len(data); at += kind.BlockBytes() {
		for _, scale := range kind.Scales() {
			data[at+scale], data[at+scale+1] = 0, 0x3c
		}
	}
	packed := pack(t, kind, data, weights, n)
	q := map[compute.Precision][]int32{}
	first := map[compute.Precision][]float32{}
	for _, p := range allProducts() {
		if q[p.precision] == nil {
			for i := range rows * n {
				q[p.precision] = append(q[p.precision], draw(r, i, p.largest()))
			}
		}
		q := q[p.precision]
		x := p.activations(n, rows)
		for k := range rows * n / 32 {
			x.set(k, [32]int32(q[32*k:]), 1)
		}
		got := make([]float32, rows*weights)
		x.multiply(kind, packed, []int{0, 1, 2, 3, 4}, nil, got)
		if p.level != "portable" { // all levels of machine code give the same bits
			if first[p.precision] == nil {
				first[p.precision] = got
			}
			require.Equal(t, first[p.precision], got, "%s %v", p.level, p.precision)
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
				require.InDelta(t, want, got[row*weights+w], 1e-6*size, "%s %v, row %d of the weights, row %d of the activations", p.level, p.precision, w, row)
			}
		}
	}
}

package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/gguf"
)

// tiledProducts are the operations of the levels with products of tiles.
func tiledProducts(t testing.TB) []operation {
	all := slices.DeleteFunc(allProducts(), func(p operation) bool { return p.TileBytes == 0 })
	if len(all) == 0 {
		t.Skip("this processor or system has no AMX")
	}
	return all
}

// tiled are rows of activations in tiles.
type tiled struct {
	*activations
	rows   int
	memory []byte
	tiles  []byte
}

func aligned(n int) []byte {
	b := make([]byte, n+63)
	return b[-uintptr(unsafe.Pointer(&b[0]))%64:][:n]
}

func (x *activations) tiled(rows []int) *tiled {
	each, blocks := RowsPerTile(len(rows)), x.n/32
	z := &tiled{x, len(rows), aligned(TileMemory), aligned((len(rows) + each - 1) / each * blocks * x.TileBytes)}
	for i := range z.tiles {
		z.tiles[i] = 0xff // NaN: rows without values must not reach results
	}
	for i, r := range rows {
		x.QuantiseTiles(&QuantiseArgs{X: &x.floats[r*x.n], Out: z.tile(i/each, 0), Blocks: int64(blocks), Row: int64(i % each)})
	}
	return z
}

func (z *tiled) tile(t, block int) unsafe.Pointer {
	return unsafe.Pointer(&z.tiles[(t*(z.n/32)+block)*z.TileBytes])
}

// integer returns the sum of the bfloat16 of integer i of a row.
func (z *tiled) integer(row, i int) int32 {
	each := RowsPerTile(z.rows)
	tile, sum := z.tile(row/each, i/32), float32(0)
	for at := TileRows * 16; at < z.TileBytes; at += TileRows * 64 {
		q := *(*uint16)(unsafe.Add(tile, at+row%each*64+2*(i%32&^3+exchanged[i%4])))
		sum += math.Float32frombits(uint32(q) << 16)
	}
	return int32(sum)
}

func (z *tiled) set(row, i int, v int32) {
	each := RowsPerTile(z.rows)
	tile, parts := z.tile(row/each, i/32), []int32{v}
	if z.TileBytes == TileRows*(16+128) {
		parts = []int32{(v + 128) &^ 255, v - (v+128)&^255}
	}
	for p, v := range parts {
		q := (*uint16)(unsafe.Add(tile, TileRows*16+p*TileRows*64+row%each*64+2*(i%32&^3+exchanged[i%4])))
		*q = uint16(math.Float32bits(float32(v)) >> 16)
	}
}

// multiply is activations.multiply by tiles, for all rows in order.
func (z *tiled) multiply(kind gguf.Type, packed []byte, factors []float32, out []float32) {
	groups := len(packed) / GroupBytes(kind, z.n)
	a := &ProductArgs{
		W: unsafe.Pointer(&packed[0]), X: z.tile(0, 0), Out: &out[0], Rows: int64(z.rows), Groups: int64(groups), Blocks: int64(z.n / 32),
		TileRows: int64(RowsPerTile(z.rows)), TileBytes: int64(z.TileBytes), Memory: unsafe.Pointer(&z.memory[0]),
	}
	at := make([]int64, z.rows)
	for i := range at {
		at[i] = int64(i * groups * GroupRows)
	}
	a.At = &at[0]
	if factors != nil {
		a.Factors = &factors[0]
	}
	z.TileProduct(kind)(a)
}

// TestTileProduct: products of tiles have the same bits as other products.
func TestTileProduct(t *testing.T) {
	t.Parallel()
	for _, p := range tiledProducts(t) {
		for _, kind := range gguf.Types() {
			if p.TileProduct(kind) == nil {
				require.NotEqual(t, Blocks, FormOf(kind, 256), kind)
				continue
			}
			t.Run(fmt.Sprint(p.precision, "/", kind), func(t *testing.T) {
				t.Parallel()
				for rows := 1; rows <= 50; rows++ {
					checkTiles(t, p, kind, 16, 256, rows)
				}
				for _, shape := range [][3]int{{16, 8 * 256, 16}, {33, 512, 17}, {48, 768, 129}, {96, 256, 300}, {17, 2560, 33}, {16, 65536, 40}} {
					checkTiles(t, p, kind, shape[0], shape[1], shape[2])
				}
				if n := 39 * kind.BlockSize(); n%256 != 0 && n%32 == 0 {
					checkTiles(t, p, kind, 20, n, 21)
				}
			})
		}
	}
}

func checkTiles(t *testing.T, p operation, kind gguf.Type, weights, n, rows int) {
	t.Helper()
	r := rand.New(rand.NewPCG(uint64(kind), uint64(n+rows)))
	packed := pack(t, kind, randomWeights(t, r, kind, weights, n), weights, n)
	x, order := randomActivations(r, p, rows, n), r.Perm(rows)
	z := x.tiled(order)
	want := make([]float32, rows*(weights+GroupRows-1)/GroupRows*GroupRows+rows*GroupRows)
	got := make([]float32, len(want))
	x.multiply(kind, packed, order, nil, want)
	z.multiply(kind, packed, nil, got)
	require.Equal(t, want, got, "%d rows of %d values", rows, n)

	factors := make([]float32, rows)
	for i := range factors {
		factors[i] = float32(r.NormFloat64())
	}
	x.multiply(kind, packed, order, factors, want)
	z.multiply(kind, packed, factors, got)
	require.Equal(t, want, got, "%d rows of %d values", rows, n)
}

// TestTilesExact compares sums of the largest integers, whose products do not fit into float32 if
// they are added in another order.
func TestTilesExact(t *testing.T) {
	t.Parallel()
	for _, p := range tiledProducts(t) {
		for _, kind := range gguf.Types() {
			if FormOf(kind, 256) != Blocks {
				continue
			}
			const weights, n, rows = 64, 1024, 20
			r := rand.New(rand.NewPCG(3, uint64(kind)))
			packed := pack(t, kind, randomWeights(t, r, kind, weights, n), weights, n)
			x := randomActivations(r, p, rows, n)
			order := make([]int, rows)
			for i := range order {
				order[i] = i
			}
			z := x.tiled(order)
			for k := range rows * n / 32 {
				q, sums := x.get(k)
				for i := range q {
					require.Equal(t, q[i], z.integer(k/(n/32), k%(n/32)*32+i))
					q[i] = p.largest() - r.Int32N(100)
					if r.IntN(8) == 0 {
						q[i] = -q[i]
					}
					if k%2 == 0 {
						q[i] = r.Int32N(2*p.largest()+1) - p.largest()
					}
				}
				x.set(k, q, sums.D)
				for i, v := range q {
					z.set(k/(n/32), k%(n/32)*32+i, v)
				}
				_, sums = x.get(k)
				z.setSums(k/(n/32), k%(n/32), sums)
			}
			want, got := make([]float32, rows*weights), make([]float32, rows*weights)
			x.multiply(kind, packed, order, nil, want)
			z.multiply(kind, packed, nil, got)
			require.Equal(t, want, got, "%v %v", p.precision, kind)
		}
	}
}

func (z *tiled) setSums(row, block int, sums Sums) {
	each := RowsPerTile(z.rows)
	tile := z.tile(row/each, block)
	for i, v := range []float32{sums.D, sums.Sum, sums.Halves[0], sums.Halves[1]} {
		*(*float32)(unsafe.Add(tile, 4*TileRows*i+4*(row%each))) = v
	}
}

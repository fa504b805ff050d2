package cpu

import (
	"unsafe"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/cpu/kernels"
)

// blockValues is the number of activations that share a scale.
const blockValues = 32

// rowBlocks returns the distance between the starts of two rows of n activations, in blocks. The
// distance is an odd number of blocks, which take a cache line or one and a half. With 64 lines,
// for example, a column of all rows would be in the same set of the first-level cache. A set holds
// fewer than 16 lines, so the rows would evict each other.
func rowBlocks(n int) int { return (n+blockValues-1)/blockValues | 1 }

// quantise converts slices of the rows of x to the step's blocks of activations of each of the
// forms. Each row has count slices of n values, and the starts of two slices are stride values
// apart. Slice i of row r starts at block r*rowBlocks(count*n)+i*n/blockValues. If tileRows is not
// 0, Blocks are written as tiles of so many rows: all tiles of slice 0, then those of slice 1, and
// so on. The tiles of the same rows are side by side.
func (s *step) quantise(forms kernels.Form, tileRows int, x compute.Tensor, rows, count, n, stride int) {
	blocks := rows * rowBlocks(count*n)
	switch {
	case tileRows > 0:
		s.blocks = grow(s.blocks, count*tiles(rows, tileRows)*n/blockValues*s.products.TileBytes)
	case forms&kernels.Blocks != 0:
		s.blocks = grow(s.blocks, blocks*s.products.BlockBytes)
	}
	if forms&kernels.Words != 0 {
		s.words = grow(s.words, blocks)
	}
	if forms&^kernels.Floats == 0 {
		return
	}
	t := &s.quantiser
	t.forms, t.tileRows = forms, tileRows
	t.x, t.rows, t.count, t.n, t.stride = x, rows, count, n, stride
	t.each = s.rowsEach(rows, count*n)
	if tileRows > 0 { // so that no two threads write to the same tile
		t.each = tiles(t.each, tileRows) * tileRows
	}
	s.pool.do(t, (rows+t.each-1)/t.each)
}

// quantiser is the task of quantise. A part converts a few rows.
type quantiser struct {
	step             *step
	forms            kernels.Form
	tileRows         int
	x                compute.Tensor
	rows, each       int
	count, n, stride int
}

func (t *quantiser) part(thread, i int) {
	a := &t.step.scratch[thread].quant
	x, products := values(t.x), t.step.products
	for r := i * t.each; r < min((i+1)*t.each, t.rows); r++ {
		slices, n := t.count, t.n
		if t.n == t.stride && t.tileRows == 0 { // the slices of a row are contiguous
			slices, n = 1, t.n*t.count
		}
		for k := range slices {
			a.X, a.Blocks = &x[start(t.x, r)+k*t.stride], int64(n/blockValues)
			if t.tileRows > 0 {
				tile := (k*tiles(t.rows, t.tileRows) + r/t.tileRows) * n / blockValues
				a.Out, a.Row = unsafe.Pointer(&t.step.blocks[tile*products.TileBytes]), int64(r%t.tileRows)
				products.QuantiseTiles(a)
				continue
			}
			to := r*rowBlocks(t.count*t.n) + k*n/blockValues
			if t.forms&kernels.Blocks != 0 {
				a.Out = unsafe.Pointer(&t.step.blocks[to*products.BlockBytes])
				products.Quantise(a)
			}
			if t.forms&kernels.Words != 0 {
				a.Out = unsafe.Pointer(&t.step.words[to])
				products.QuantiseWords(a)
			}
		}
	}
}

// tiles returns the number of tiles for so many rows.
func tiles(rows, tileRows int) int { return (rows + tileRows - 1) / tileRows }

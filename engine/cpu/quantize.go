package cpu

import (
	"unsafe"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/cpu/kernels"
)

// blockValues is the number of activations that share a scale.
const blockValues = 32

// scaleBytes is the size of a block's scale in bytes.
const scaleBytes = int64(unsafe.Sizeof(kernels.Scale{}))

// activations are rows of 8-bit activations, in blocks of blockValues.
type activations struct {
	q      []int8
	scales []kernels.Scale
}

// rowBlocks returns the distance between the starts of two rows of n activations, in blocks. The distance is an odd number of cache lines.
// With a distance of 4096 bytes, for example, a column of all rows would be in the same set of the first-level cache. A set holds fewer
// than 16 lines, so the rows would evict each other.
func rowBlocks(n int) int {
	const lineBlocks = 64 / blockValues
	return lineBlocks * ((n+63)/64 | 1)
}

// quantize converts slices of the rows of x to blocks of the step's activations. Each row has count slices of n values, which are stride
// values apart. Slice i of row r starts at block r*rowBlocks(count*n)+i*n/blockValues.
func (s *step) quantize(x compute.Tensor, rows, count, n, stride int) {
	blocks := rows * rowBlocks(count*n)
	s.bytes.q = grow(s.bytes.q, blocks*blockValues)
	s.bytes.scales = grow(s.bytes.scales, blocks)
	t := &s.quantizer
	t.x, t.rows, t.count, t.n, t.stride = x, rows, count, n, stride
	t.each = s.rowsEach(rows, count*n)
	s.pool.do(t, (rows+t.each-1)/t.each)
}

// quantizer is the task of quantize. A part converts a few rows.
type quantizer struct {
	step             *step
	x                compute.Tensor
	rows, each       int
	count, n, stride int
}

func (t *quantizer) part(thread, i int) {
	a := &t.step.scratch[thread].quant
	x, out := values(t.x), &t.step.bytes
	for r := i * t.each; r < min((i+1)*t.each, t.rows); r++ {
		slices, n := t.count, t.n
		if t.n == t.stride { // the slices of a row are contiguous
			slices, n = 1, t.n*t.count
		}
		for k := range slices {
			to := r*rowBlocks(t.count*t.n) + k*n/blockValues
			a.X, a.Q, a.Scales, a.Blocks = &x[start(t.x, r)+k*t.stride], &out.q[to*blockValues], &out.scales[to], int64(n/blockValues)
			t.step.kernels.Quantize(a)
		}
	}
}

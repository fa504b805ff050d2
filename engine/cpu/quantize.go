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

// quantize converts slices of the rows of x to blocks of the step's activations. Each row has count slices of n values, which are stride
// values apart. Slice i of row r starts at block (r*count+i)*n/blockValues.
func (s *step) quantize(x compute.Tensor, rows, count, n, stride int) {
	s.bytes.q = grow(s.bytes.q, rows*count*n)
	s.bytes.scales = grow(s.bytes.scales, rows*count*n/blockValues)
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
			to := r*t.count*t.n + k*n
			a.X, a.Q, a.Scales, a.Blocks = &x[start(t.x, r)+k*t.stride], &out.q[to], &out.scales[to/blockValues], int64(n/blockValues)
			t.step.kernels.Quantize(a)
		}
	}
}

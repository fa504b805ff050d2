package metal

import (
	"fmt"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
)

// plan implements compute.Plan.
type plan struct {
	*Backend
	weights, steps       int64
	staging              int // bytes of the largest tensor that will be packed
	scratch, activations int // planned bytes of the backend's buffers with the same names
	taken                int // bytes that the backend had already allocated when the plan was made
	positions            int
}

// Plan implements compute.Backend. The plan does not include memory that the backend has already allocated.
func (b *Backend) Plan() compute.Plan {
	scratch, activations := b.scratch.bytes, b.integer.activationsBytes
	return &plan{Backend: b, scratch: scratch, activations: activations, taken: scratch + activations}
}

// Weight implements compute.Plan.
func (p *plan) Weight(t gguf.Tensor) error {
	shape, err := compute.ShapeOf(t)
	if err != nil {
		return fmt.Errorf("tensor %s: %w", t.Name, err)
	}
	w := &weight{kind: t.Type, in: shape.In, out: shape.Out, matrices: shape.Matrices, rowBytes: shape.RowBytes}
	inFile := w.matrices * w.out * w.rowBytes
	switch packed := p.packs(t.Type); {
	case shape.Vector:
		p.weights += 4 * int64(w.in)
	case packed:
		p.weights += int64(packedBytes(w))
		p.staging = max(p.staging, inFile)
		p.scratch = max(p.scratch, scratchFor(w, true))
	default:
		p.weights += int64(inFile)
		p.scratch = max(p.scratch, scratchFor(w, false))
	}
	return nil
}

// Buffer implements compute.Plan.
func (p *plan) Buffer(rows, cols int, _ bool) {
	p.steps += 4 * int64(rows) * int64(cols)
	if p.device.Info().NativeKernels {
		p.activations = max(p.activations, activationsFor(rows, cols))
	}
}

// Rope implements compute.Plan.
func (p *plan) Rope(dims, positions int) {
	p.steps += 4 * int64(dims) * int64(positions)
	p.positions = max(p.positions, positions)
}

// Cache implements compute.Plan. The number of pages is not known yet, so the plan assumes enough pages for one sequence.
func (p *plan) Cache(shape compute.CacheShape) {
	shape.Pages = max(shape.Pages, (p.positions+shape.PageSize-1)/shape.PageSize)
	p.scratch = max(p.scratch, splitsFor(shape, p.positions))
}

// Bytes implements compute.Plan. While a tensor is packed, it is on the device twice, so the result includes the largest such tensor a second
// time.
func (p *plan) Bytes() (weights, steps int64) {
	return p.weights, p.steps + int64(p.scratch+p.activations-p.taken+p.staging)
}

// Host implements compute.Plan.
func (p *plan) Host() bool { return p.unified }

package metal

import (
	"fmt"
	"slices"

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
	weightTypes          []gguf.Type // types of the planned matrices
	pageTypes            []gguf.Type // types of the planned caches
	states               bool        // recurrent states are planned
}

// Plan implements compute.Backend. The plan does not include memory that the backend has already
// allocated.
func (b *Backend) Plan() compute.Plan {
	scratch, activations := b.scratch.bytes, b.recorder.activationBytes(0, 0)
	return &plan{Backend: b, scratch: scratch, activations: activations, taken: scratch + activations}
}

func (p *plan) Weight(t gguf.Tensor) error {
	shape, err := compute.ShapeOf(t)
	if err != nil {
		return fmt.Errorf("tensor %s: %w", t.Name, err)
	}
	w := newWeight(t, shape)
	if shape.Vector {
		p.weights += 4 * int64(w.in)
		return nil
	}
	addType(&p.weightTypes, w.kind)
	sizes := p.recorder.sizes(w)
	p.weights += int64(sizes.stored)
	p.staging, p.scratch = max(p.staging, sizes.staging), max(p.scratch, sizes.scratch)
	return nil
}

func (p *plan) Table(t gguf.Tensor) error { return p.Weight(t) }

func (p *plan) Buffer(rows, cols int, _ bool) {
	p.steps += 4 * int64(rows) * int64(cols)
	p.activations = max(p.activations, p.recorder.activationBytes(rows, cols))
}

func (p *plan) Rope(dims, positions int) {
	p.steps += 4 * int64(dims) * int64(positions)
	p.positions = max(p.positions, positions)
}

// Cache implements compute.Plan. The number of pages is not known yet, so the plan assumes enough
// pages for one sequence.
func (p *plan) Cache(shape compute.CacheShape) {
	addType(&p.pageTypes, shape.Type)
	shape.Pages = max(shape.Pages, (p.positions+shape.PageSize-1)/shape.PageSize)
	p.scratch = max(p.scratch, p.recorder.splitBytes(shape, p.positions))
}

// States implements compute.Plan.
func (p *plan) States(shape compute.StateShape) {
	p.states, p.scratch = true, max(p.scratch, chunkScratch(shape))
}

func addType(list *[]gguf.Type, t gguf.Type) {
	if !slices.Contains(*list, t) {
		*list = append(*list, t)
	}
}

// Prepare implements compute.Preparer.
func (b *Backend) Prepare(p compute.Plan) error {
	made := p.(*plan)
	for _, t := range made.weightTypes {
		if err := b.prepare(b.recorder.sources(t)); err != nil {
			return err
		}
	}
	for _, t := range made.pageTypes {
		if err := b.prepare(b.recorder.pageSources(t)); err != nil {
			return err
		}
		if err := b.prepare(b.kernels.sources(pageFiles, t.String())); err != nil {
			return err
		}
	}
	if made.states {
		return b.prepare(b.recorder.stateSources())
	}
	return nil
}

func (b *Backend) prepare(sources []Source, err error) error {
	if err == nil {
		b.device.start(sources...)
	}
	return err
}

// Bytes implements compute.Plan. While a tensor is packed, it is on the device twice, so the result
// includes the largest such tensor a second time.
func (p *plan) Bytes() (weights, steps int64) {
	return p.weights, p.steps + int64(p.scratch+p.activations-p.taken+p.staging)
}

func (p *plan) Host() bool { return p.unified }

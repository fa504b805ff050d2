package metal

import (
	"fmt"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
)

// A recorder makes the dispatches of a step's operations. There are two: portable uses the kernels
// in Metal's language. nvidia decides which operations share a kernel, and leaves to portable what
// NVIDIA's kernels do not compute.
type recorder interface {
	// record adds the dispatches of operations to the backend's step.
	record(operations []call)
	// load copies a matrix of a model to the device, in the layout of the recorder's kernels, and
	// makes the kernels' pipelines. Errors begin with action.
	load(w *weight, data []byte, action string) (compute.Weight, error)
	// sources returns the sources of the kernels for weights of a type that are not compiled yet
	// when a backend has started.
	sources(t gguf.Type) ([]Source, error)
	// splitBytes returns the bytes of scratch memory for the splits of attention. positions is the
	// maximum length of a sequence; 0 if it is not known.
	splitBytes(shape compute.CacheShape, positions int) int
	// makePages makes the pipelines of the recorder's kernels for KV pages of a type.
	makePages(t gguf.Type) error
	// pageSources returns the sources of these kernels.
	pageSources(t gguf.Type) ([]Source, error)
	// makeStates makes the pipelines of all kernels for recurrent states.
	makeStates() error
	// stateSources returns the sources of these kernels.
	stateSources() ([]Source, error)
	// sizes returns the memory that load needs.
	sizes(w *weight) weightSizes
	// reserveActivations makes room for the quantised rows of a step's buffer. No step may be in
	// flight.
	reserveActivations(rows, cols int) error
	// activationBytes returns the bytes of that room after it has been made.
	activationBytes(rows, cols int) int
}

// weightSizes are numbers of bytes: of a weight on the device, of the memory that it needs while it
// is loaded, and the minimum size of scratch memory for its products.
type weightSizes struct{ stored, staging, scratch int }

func newRecorder(b *Backend, o Options) (recorder, error) {
	general := &portable{step: &b.step}
	if !b.device.Info().NvidiaKernels {
		return general, nil
	}
	return newNvidia(b, general, o.Mode, o.Geometry)
}

// portable records operations with the kernels in Metal's language.
type portable struct {
	*step
	grouped groupedChoices
}

func (p *portable) record(operations []call) {
	p.grouped = groupedChoices{} // the CPU may have written to the routing
	p.fuse(operations)
	for i := range operations {
		p.splitNext = p.splitNext || operations[i].splitBefore
		operations[i].portable(p)
	}
}

func (p *portable) load(w *weight, data []byte, action string) (compute.Weight, error) {
	var err error
	if w.kernels, err = p.kernels.forWeight(weightShape{w.kind, w.in, w.out}); err != nil {
		return nil, fmt.Errorf("%s: %w", action, err)
	}
	p.weights = append(p.weights, w)
	if err := p.copyWeight(w, data, action); err != nil {
		return nil, err
	}
	if err := p.reserve(p.sizes(w).scratch); err != nil {
		return nil, fmt.Errorf("%s: %w", action, err)
	}
	return w, nil
}

func (p *portable) sources(t gguf.Type) ([]Source, error) {
	return p.kernels.sources(weightFiles, t.String())
}

func (p *portable) makePages(gguf.Type) error { return nil }

func (p *portable) pageSources(gguf.Type) ([]Source, error) { return nil, nil }

func (p *portable) makeStates() error { return p.kernels.forStates() }

func (p *portable) stateSources() ([]Source, error) { return p.kernels.sources(stateFiles, "") }

func (p *portable) sizes(w *weight) weightSizes {
	rows, limit := scratchRows, maxScratch
	if w.matrices > 1 { // more choices per expert fill tiles better
		rows, limit = 4*scratchRows, 3*maxScratch
	}
	return weightSizes{stored: w.fileBytes(), scratch: scratchFor(w, rows, limit)}
}

func (p *portable) reserveActivations(int, int) error { return nil }

func (p *portable) activationBytes(int, int) int { return 0 }

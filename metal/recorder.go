package metal

import (
	"fmt"

	"github.com/ingot-run/ingot/engine/compute"
)

// A recorder makes dispatches of the operations of compute.Step. There are two: portable uses the
// kernels in Metal's language and records an operation when it is called. nvidia collects the
// operations of a step, decides which of them share a kernel, and records them when the step is
// submitted; what its kernels do not compute, it passes on to portable. Both add their dispatches
// to the backend's step.
type recorder interface {
	rowOperations
	productOperations
	attentionOperations
	expertOperations
	weightStore

	// begin forgets the operations of the last step.
	begin()
	Checkpoint(layer int, stage string, t compute.Tensor)
	Submit() error
	Run() error
}

// rowOperations are operations on rows that read no matrix, and Embed.
type rowOperations interface {
	Embed(dst compute.Tensor, table compute.Weight)
	Gather(dst, src compute.Tensor, rows []int32)
	RMSNorm(dst, src compute.Tensor, gain compute.Weight, eps float32)
	RMSNormAdd(dst, src compute.Tensor, gain compute.Weight, eps float32)
	Affine(t compute.Tensor, scale float32, bias compute.Weight)
	Top(dst, logits compute.Tensor, k int)
}

type productOperations interface {
	MatMul(dst, x compute.Tensor, ws ...compute.Weight)
	MatMulAdd(dst, x compute.Tensor, w compute.Weight)
	GatedMatMul(dst, x compute.Tensor, gate, up compute.Weight, act compute.Activation)
	Absorb(dst, q compute.Tensor, kb compute.Weight, table compute.Rope)
	Expand(dst, ctx compute.Tensor, vb compute.Weight)
}

type attentionOperations interface {
	RopeStore(qkv compute.Tensor, proj compute.Projection, shape compute.AttentionShape, table compute.Rope, kv compute.Cache, layer int)
	Latents(dst, t compute.Tensor, qGain, kvGain compute.Weight, eps float32, table compute.Rope, kv compute.Cache, layer int)
	Attention(dst, q compute.Tensor, shape compute.AttentionShape, kv compute.Cache, layer int)
}

type expertOperations interface {
	Route(dst, x compute.Tensor, router, bias compute.Weight, shape compute.RouteShape)
	GatedExperts(dst, x, routing compute.Tensor, e compute.Experts)
	ExpertsAdd(dst, h, routing compute.Tensor, e compute.Experts)
}

// weightStore is how a recorder stores the matrices of a model, and what memory its operations need
// for them.
type weightStore interface {
	// load copies a matrix to the device, in the layout of the recorder's kernels, and makes the
	// kernels' pipelines. Errors begin with action.
	load(w *weight, data []byte, action string) (compute.Weight, error)
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

func newRecorder(b *Backend, mode Mode) (recorder, error) {
	general := &portable{&b.step}
	if !b.device.Info().NvidiaKernels {
		return general, nil
	}
	return newNvidia(b, general, mode)
}

// portable records operations with the kernels in Metal's language.
type portable struct{ *step }

func (p *portable) begin() {}

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

func (p *portable) sizes(w *weight) weightSizes {
	return weightSizes{stored: w.fileBytes(), scratch: scratchFor(w, scratchRows, maxScratch)}
}

func (p *portable) reserveActivations(int, int) error { return nil }

func (p *portable) activationBytes(int, int) int { return 0 }

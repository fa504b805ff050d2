package model

import (
	"fmt"

	"github.com/ingot-run/ingot/engine/compute"
)

// decoder is a model of layers with attention and a gated feed-forward network or a mixture of
// experts. All families are decoders. Their files describe how their layers differ: see design.
type decoder struct {
	trunk
	embedNorm  compute.Weight // {hidden} ones if the embeddings are normed; nil if not
	embedScale float32        // factor of the embeddings
	layers     []decoderLayer
	route      compute.RouteShape
	mtp        *mtpLayer // nil if the file has none

	ffn     compute.Tensor // [rows, the larger of ffn and used*expertFFN+shared]
	routing compute.Tensor // [rows, 2*used]
	latent  compute.Tensor // [rows, 2*latent] input and output of routed experts with a latent
	// sharedGate is [rows, 1] if the shared expert has a gate
	sharedGate compute.Tensor
}

// decoderLayer is an attention and a network. Weights that a family does not have are nil. A slice
// of weights is the argument list of one MatMul, stored so that steps need not allocate it.
type decoderLayer struct {
	attention attention
	network   network
}

type attention interface {
	// attend adds the attention to the residual stream x. It stores the keys and values of x first.
	attend(s compute.Step, t *trunk, layer int, x compute.Tensor)
	// store only stores the keys and values of x.
	store(s compute.Step, t *trunk, layer int, x compute.Tensor)
}

type network struct {
	norm       compute.Weight   // {hidden}
	gate, up   compute.Weight   // {hidden, ffn}; nil in a layer of experts; the same weight if there is no gate
	down       []compute.Weight // one weight {ffn, hidden}
	postNorm   compute.Weight   // {hidden} norm of the network's output
	activation compute.Activation
	mixture    mixture
}

// present reports whether the layer has a network.
func (n *network) present() bool { return n.down != nil || n.mixture.router != nil }

type mtpLayer struct {
	mtp
	layer decoderLayer
}

func (m *decoder) forward(s compute.Step, b *compute.Batch) (logits compute.Tensor) {
	x := m.x.Head(len(b.Tokens))
	s.Embed(x, m.embd)
	if m.embedNorm != nil {
		s.RMSNorm(x, x, m.embedNorm, m.eps)
	}
	if m.embedScale != 1 {
		s.Affine(x, m.embedScale, nil)
	}
	s.Checkpoint(-1, "embd", x)
	for i := range m.layers {
		if b.Interrupted() {
			break
		}
		if a := m.layers[i].attention; a != nil {
			a.attend(s, &m.trunk, i, x)
			s.Checkpoint(i, "attn_out", x)
		}
		if n := &m.layers[i].network; n.present() {
			m.feedForward(s, n, i, x)
		}
		s.Checkpoint(i, "layer_out", x)
	}
	s.RMSNorm(x, x, m.norm, m.eps)
	s.Checkpoint(m.config.Layers, "norm", x)
	return m.head(s, b, x)
}

func (m *decoder) feedForward(s compute.Step, n *network, layer int, x compute.Tensor) {
	h, ffn := m.normed(s, x, n.norm), m.ffn.Head(x.Rows)
	if n.mixture.router != nil {
		n.mixture.add(s, m.route, layer, x, h, m.routing.Head(x.Rows), ffn)
		return
	}
	ffn = ffn.Slice(0, n.gate.Shape()[1])
	s.GatedMatMul(ffn, h, n.gate, n.up, n.activation)
	m.add(s, x, ffn, n.down, n.postNorm)
}

func (m *decoder) Draft(b *compute.Batch, source States, states []int32) error {
	if m.mtp == nil {
		return fmt.Errorf("run the MTP layer: the model has none: %w", ErrUnsupported)
	}
	return m.runDraft(b, func(s compute.Step) compute.Tensor { return m.draft(s, b, source, states) })
}

func (m *decoder) draft(s compute.Step, b *compute.Batch, source States, states []int32) (logits compute.Tensor) {
	mtp, index := m.mtp, m.config.Layers
	x := mtp.begin(s, &m.trunk, b, m.x, source, states)
	if len(b.Outputs) == 0 { // these rows only fill the cache
		mtp.layer.attention.store(s, &m.trunk, index, x)
	} else {
		mtp.layer.attention.attend(s, &m.trunk, index, x)
		m.feedForward(s, &mtp.layer.network, index, mtp.outputs(s, b, x))
	}
	return mtp.end(s, &m.trunk, b)
}

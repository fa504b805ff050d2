package model

import "github.com/ingot-run/ingot/engine/compute"

// gemma4 is the text model of Gemma 4. Layers with a sliding window have other heads than the
// layers without one. In some sizes, experts work beside the dense network (26B-A4B); in others,
// the last layers attend to the keys and values of earlier ones, and each layer has an embedding of
// its own (E2B, E4B).
type gemma4 struct {
	trunk
	layers     []gemma4Layer
	embedScale float32        // √hidden
	softCap    float32        // limit of the logits; 0 for none
	suppressed compute.Weight // {vocab} very low values for tokens that must not be chosen; nil if there are none
	inputs     *layerInputs   // nil if the layers have no embeddings

	qkv     compute.Tensor // [rows, the most columns of queries, keys and values of a layer]
	attn    compute.Tensor // [rows, the most columns of queries of a layer]
	ffn     compute.Tensor // [rows, the larger of ffn and used*expertFFN]
	mixture *gemma4Mixture // nil if there are no experts

	shape     *gemma4Shape
	places    []int      // [layers with keys and values] numbers under which the cache stores them
	assistant *assistant // nil unless LoadAssistant has loaded one
}

type gemma4Layer struct {
	attention gemma4Attention
	network   network
	experts   gemma4Experts // without a router if there are no experts
	input     layerInput
	scale     float32 // factor of the residual stream after the layer
}

// gemma4Attention is the attention of a layer. A layer that attends to the keys and values of an
// earlier layer projects and stores only queries, none of them.
type gemma4Attention struct {
	norm       compute.Weight   // {hidden}
	weights    []compute.Weight // {hidden, heads*dim} queries, then keys and values {hidden, kvHeads*dim}, if any
	products   int              // columns of the products with weights
	cols       int              // columns of a row of queries, keys and values
	projection compute.Projection
	storing    compute.AttentionShape // shape for RopeStore
	shape      compute.AttentionShape
	rope       compute.Rope
	stored     int              // number under which the cache stores the keys and values to which the layer attends
	output     []compute.Weight // one weight {heads*dim, hidden}
	postNorm   compute.Weight   // {hidden}
}

// gemma4Experts are the experts beside a layer's dense network. All three norms are {hidden}.
type gemma4Experts struct {
	mixture
	routerNorm compute.Weight // gain of the norm before the router: its scale divided by √hidden
	norm       compute.Weight // before the experts
	postDense  compute.Weight // after the dense network
	post       compute.Weight // after the experts
}

type gemma4Mixture struct {
	route   compute.RouteShape
	zeros   compute.Weight // {hidden}
	routing compute.Tensor // [rows, 2*used]
	router  compute.Tensor // [rows, hidden] the router's input
	dense   compute.Tensor // [rows, hidden] output of the dense network, then of both
	routed  compute.Tensor // [rows, hidden] output of the experts
}

func (m *gemma4) forward(s compute.Step, b *compute.Batch) (logits compute.Tensor) {
	x := m.x.Head(len(b.Tokens))
	s.Embed(x, m.embd)
	s.Affine(x, m.embedScale, nil)
	s.Checkpoint(-1, "embd", x)
	if m.inputs != nil {
		m.inputs.begin(s, x, m.eps)
	}
	for i := range m.layers {
		if b.Interrupted() {
			break
		}
		l := &m.layers[i]
		m.attend(s, &l.attention, i, x)
		s.Checkpoint(i, "attn_out", x)
		m.feedForward(s, l, i, x)
		if m.inputs != nil {
			m.inputs.add(s, &m.trunk, &l.input, i, x)
		}
		if l.scale != 1 {
			s.Affine(x, l.scale, nil)
		}
		s.Checkpoint(i, "layer_out", x)
	}
	s.RMSNorm(x, x, m.norm, m.eps)
	s.Checkpoint(m.config.Layers, "norm", x)
	return m.capped(s, m.head(s, b, x))
}

// capped limits logits, and lowers those of the tokens that must not be chosen.
func (m *gemma4) capped(s compute.Step, logits compute.Tensor) compute.Tensor {
	if logits.Rows > 0 && m.softCap > 0 {
		s.SoftCap(logits, m.softCap)
	}
	if logits.Rows > 0 && m.suppressed != nil {
		s.Affine(logits, 1, m.suppressed)
	}
	return logits
}

func (m *gemma4) attend(s compute.Step, a *gemma4Attention, layer int, x compute.Tensor) {
	qkv, attn := m.qkv.Head(x.Rows).Slice(0, a.cols), m.attn.Head(x.Rows).Slice(0, a.shape.Heads*a.shape.ValueDim)
	s.MatMul(qkv.Slice(0, a.products), m.normed(s, x, a.norm), a.weights...)
	s.RopeStore(qkv, a.projection, a.storing, a.rope, m.cache, a.stored)
	s.Attention(attn, qkv, a.shape, m.cache, a.stored)
	s.Checkpoint(layer, "attn", attn)
	m.add(s, x, attn, a.output, a.postNorm)
}

func (m *gemma4) feedForward(s compute.Step, l *gemma4Layer, layer int, x compute.Tensor) {
	n := &l.network
	ffn := m.ffn.Head(x.Rows).Slice(0, n.gate.Shape()[1])
	s.GatedMatMul(ffn, m.normed(s, x, n.norm), n.gate, n.up, n.activation)
	if l.experts.router == nil {
		m.add(s, x, ffn, n.down, n.postNorm)
		return
	}
	dense := m.mixture.dense.Head(x.Rows)
	s.MatMul(dense, ffn, n.down...)
	m.addExperts(s, &l.experts, layer, dense, x)
	s.RMSNormAdd(x, dense, n.postNorm, m.eps)
}

// addExperts norms the output of the dense network and adds that of the experts to it. Both the
// router and the experts read the residual stream x, each after a norm of its own.
func (m *gemma4) addExperts(s compute.Step, e *gemma4Experts, layer int, dense, x compute.Tensor) {
	b := m.mixture
	routing, router, routed := b.routing.Head(x.Rows), b.router.Head(x.Rows), b.routed.Head(x.Rows)
	s.RMSNorm(dense, dense, e.postDense, m.eps)
	s.RMSNorm(routed, x, b.zeros, m.eps) // the experts are added to 0
	h := m.normed(s, x, e.norm)
	s.RMSNorm(router, x, e.routerNorm, m.eps)
	s.Route(routing, router, e.router, e.routerBias, b.route)
	ffn := m.ffn.Head(x.Rows).Slice(0, e.width(b.route))
	s.GatedExperts(ffn, h, routing, e.experts)
	s.ExpertsAdd(routed, ffn, routing, e.experts)
	s.RMSNormAdd(dense, routed, e.post, m.eps)
	s.Checkpoint(layer, "routing", routing)
}

// layerInputs are the embeddings of the E models: each token has a vector for each layer, to which
// a projection of the token's embedding is added.
type layerInputs struct {
	size, layers int              // values of a vector, and number of layers
	embd         compute.Weight   // {layers*size, vocab}
	projection   []compute.Weight // one weight {hidden, layers*size}
	norm         compute.Weight   // {size} its gain, divided by √2
	embedScale   float32          // √size/√2
	hidden       float32

	vectors   compute.Tensor // [rows, layers*size]
	projected compute.Tensor // [rows, layers*size]
	gate      compute.Tensor // [rows, size]
}

// layerInput is what a layer does with its vector.
type layerInput struct {
	gate     []compute.Weight // one weight {hidden, size}
	output   []compute.Weight // one weight {size, hidden}
	postNorm compute.Weight   // {hidden}
}

// begin computes the vectors of all layers from the tokens and their scaled embeddings x. The norm
// of the projection divided by √hidden equals that of the projection with eps·hidden.
func (p *layerInputs) begin(s compute.Step, x compute.Tensor, eps float32) {
	vectors, projected := p.vectors.Head(x.Rows), p.projected.Head(x.Rows)
	s.Embed(vectors, p.embd)
	s.Affine(vectors, p.embedScale, nil)
	s.MatMul(projected, x, p.projection...)
	s.RMSNormAdd(p.each(vectors), p.each(projected), p.norm, eps*p.hidden)
}

// each returns a view of a tensor with a row for each vector.
func (p *layerInputs) each(t compute.Tensor) compute.Tensor {
	t.Rows, t.Cols, t.Stride = t.Rows*p.layers, p.size, p.size
	return t
}

// add adds to x what a layer makes of its vectors: output·(gelu(gate·x)·vector), normed.
func (p *layerInputs) add(s compute.Step, t *trunk, l *layerInput, layer int, x compute.Tensor) {
	gate := p.gate.Head(x.Rows)
	s.MatMul(gate, x, l.gate...)
	s.Activate(gate, gate, p.vectors.Head(x.Rows).Slice(layer*p.size, p.size), compute.GELU)
	t.add(s, x, gate, l.output, l.postNorm)
}

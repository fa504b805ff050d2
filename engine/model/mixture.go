package model

import (
	"cmp"
	"fmt"

	"github.com/ingot-run/ingot/engine/compute"
)

// mixture is the weights of a layer's experts. router is nil in a dense layer.
type mixture struct {
	router     compute.Weight // {hidden, experts}
	routerBias compute.Weight // {experts}; nil if the file has none
	experts    compute.Experts
	sharedGate []compute.Weight // one weight {hidden, 1}; nil if the shared expert has no gate
	gate       compute.Tensor   // [rows, 1] the product with sharedGate
	latent     *latentExperts   // nil if the routed experts read the residual stream
	latents    compute.Tensor   // [rows, 2*latent]
}

// latentExperts has the weights around routed experts that read and write a smaller vector, and the
// shared expert beside them.
type latentExperts struct {
	in         []compute.Weight // one weight {hidden, latent}
	out        compute.Weight   // {latent, hidden}
	activation compute.Activation
	up, down   compute.Weight // {hidden, width}, {width, hidden} of the shared expert; nil for none
}

// add routes the normed rows h to experts and adds the experts' outputs to x. routing and ffn are
// buffers for intermediate results.
func (e *mixture) add(s compute.Step, route compute.RouteShape, layer int, x, h, routing, ffn compute.Tensor) {
	s.Route(routing, h, e.router, e.routerBias, route)
	s.Checkpoint(layer, "routing", routing)
	if e.latent != nil {
		e.addLatent(s, route, x, h, routing, ffn)
		return
	}
	ffn = ffn.Slice(0, e.width(route))
	s.GatedExperts(ffn, h, routing, e.experts)
	if e.sharedGate != nil {
		gate, n := e.gate.Head(x.Rows), e.experts.SharedGate.Shape()[1]
		s.MatMul(gate, h, e.sharedGate...)
		s.Gate(ffn.Slice(ffn.Cols-n, n), gate)
	}
	s.ExpertsAdd(x, ffn, routing, e.experts)
}

// addLatent is add for routed experts that read and write a smaller vector.
func (e *mixture) addLatent(s compute.Step, route compute.RouteShape, x, h, routing, ffn compute.Tensor) {
	n := e.latents.Cols / 2
	in, out := e.latents.Head(x.Rows).Slice(0, n), e.latents.Head(x.Rows).Slice(n, n)
	routed := ffn.Slice(0, route.Used*e.experts.Gate.Shape()[1])
	s.MatMul(in, h, e.latent.in...)
	s.GatedExperts(routed, in, routing, e.experts)
	s.Affine(out, 0, nil)
	s.ExpertsAdd(out, routed, routing, e.experts)
	s.MatMulAdd(x, out, e.latent.out)
	if e.latent.up != nil {
		shared := ffn.Slice(0, e.latent.up.Shape()[1])
		s.GatedMatMul(shared, h, e.latent.up, e.latent.up, e.latent.activation)
		s.MatMulAdd(x, shared, e.latent.down)
	}
}

func (e *mixture) width(route compute.RouteShape) int {
	if e.router == nil {
		return 0
	}
	if e.latent != nil && e.latent.up != nil {
		return max(route.Used*e.experts.Gate.Shape()[1], e.latent.up.Shape()[1])
	}
	width := route.Used * e.experts.Gate.Shape()[1]
	if e.experts.SharedGate != nil {
		width += e.experts.SharedGate.Shape()[1]
	}
	return width
}

// maxExperts and maxUsed are larger than in any known model. They limit the time of routing, which
// examines all experts once per used expert.
const (
	maxExperts = 1024
	maxUsed    = 64
)

// softmaxOfChosen is the expert_gating_func of a softmax over the logits of the chosen experts.
const softmaxOfChosen compute.Gating = 3

// routeShape reads how routers choose and weight experts. gating is the default for files without
// expert_gating_func. It is softmaxOfChosen in families that choose experts by their logits alone.
func (l *loader) routeShape(gating compute.Gating) compute.RouteShape {
	r := compute.RouteShape{
		Experts:   l.sizeOr("expert_count", 0),
		Used:      l.sizeOr("expert_used_count", 0),
		Normalise: l.boolOr("expert_weights_norm", false),
		Scale:     float32(l.floatOr("expert_weights_scale", 1)),
	}
	r.Gating = compute.Gating(cmp.Or(l.sizeOr("expert_gating_func", 0), int(gating)))
	if r.Gating == softmaxOfChosen && gating == softmaxOfChosen {
		// A softmax over the chosen experts equals a softmax over all experts, divided by the sum
		// of the chosen experts' probabilities.
		r.Gating, r.Normalise = compute.GatingSoftmax, true
	}
	if r.Gating != compute.GatingSoftmax && r.Gating != compute.GatingSigmoid {
		l.fail(fmt.Errorf("%s is %d: %w", l.key("expert_gating_func"), r.Gating, ErrUnsupported))
	}
	if r.Used > r.Experts {
		l.fail(fmt.Errorf("%s is %d, but must be at most %[4]s, which is %[3]d", l.key("expert_used_count"), r.Used, r.Experts, l.key("expert_count")))
	}
	if r.Experts > maxExperts || r.Used > maxUsed {
		l.fail(fmt.Errorf("%s is %d and %s is %d; the maximum is %d experts, of which at most %d are used for a token: %w",
			l.key("expert_count"), r.Experts, l.key("expert_used_count"), r.Used, maxExperts, maxUsed, ErrUnsupported))
	}
	if groups := l.sizeOr("expert_group_count", 1); groups > 1 {
		l.fail(fmt.Errorf("%s is %d (routing by groups of experts): %w", l.key("expert_group_count"), groups, ErrUnsupported))
	}
	if r.Scale == 0 { // 0 means no scale
		r.Scale = 1
	}
	return r
}

func (l *loader) mixture(layer, hidden int, route compute.RouteShape, d *design) (e mixture) {
	name := func(s string) string { return blockTensor(layer, s) }
	if route.Used == 0 {
		l.fail(fmt.Errorf("%s is missing or 0, but the model has a mixture of experts in layer %d", l.key("expert_used_count"), layer))
		return e
	}
	n, ffn := route.Experts, l.expertFFN()
	e.router = l.weight(name("ffn_gate_inp.weight"), hidden, n)
	if route.BiasLogits {
		e.routerBias = l.weight(name("ffn_gate_inp.bias"), n)
	} else {
		e.routerBias = l.optional(name("exp_probs_b.bias"), n)
	}
	in := cmp.Or(d.latent, hidden)
	e.experts = compute.Experts{
		Up:   l.weight(name("ffn_up_exps.weight"), in, ffn, n),
		Down: l.weight(name("ffn_down_exps.weight"), ffn, in, n),
	}
	e.experts.Gate = e.experts.Up
	if !d.noGate {
		e.experts.Gate = l.weight(name("ffn_gate_exps.weight"), in, ffn, n)
	}
	if x := e.experts; l.err == nil && x.Gate.Type() != x.Up.Type() {
		l.fail(fmt.Errorf("%s has type %v and %s has type %v, but they must have the same type: %w",
			name("ffn_gate_exps.weight"), x.Gate.Type(), name("ffn_up_exps.weight"), x.Up.Type(), ErrUnsupported))
		return e
	}
	if d.latent > 0 {
		e.latent = &latentExperts{
			in: []compute.Weight{l.weight(name("ffn_latent_down.weight"), hidden, d.latent)}, out: l.weight(name("ffn_latent_up.weight"), d.latent, hidden),
			activation: d.activation,
		}
	}
	shared := l.sharedFFN(ffn)
	if shared == 0 {
		return e
	}
	up, down := l.weight(name("ffn_up_shexp.weight"), hidden, shared), l.weight(name("ffn_down_shexp.weight"), shared, hidden)
	if d.latent > 0 {
		e.latent.up, e.latent.down = up, down
		return e
	}
	e.experts.SharedGate, e.experts.SharedUp, e.experts.SharedDown = up, up, down
	if !d.noGate {
		e.experts.SharedGate = l.weight(name("ffn_gate_shexp.weight"), hidden, shared)
	}
	return e
}

// sharedFFN returns the number of activations of all shared experts together; 0 if there are none.
func (l *loader) sharedFFN(expertFFN int) int {
	if n := l.sizeOr("expert_shared_feed_forward_length", 0); n > 0 {
		return n
	}
	return l.sizeOr("expert_shared_count", 0) * expertFFN
}

// expertFFN returns the number of activations of an expert. Mixtral's files have it in the setting
// for dense layers.
func (l *loader) expertFFN() int {
	if l.arch == "llama" && !l.has("expert_feed_forward_length") {
		return l.size("feed_forward_length")
	}
	return l.size("expert_feed_forward_length")
}

func (l *loader) expertBiases(layer, hidden int, route compute.RouteShape, e *compute.Experts) {
	n, ffn := route.Experts, l.expertFFN()
	e.GateBias = l.vector(blockTensor(layer, "ffn_gate_exps.bias"), ffn, n)
	e.UpBias = l.vector(blockTensor(layer, "ffn_up_exps.bias"), ffn, n)
	e.DownBias = l.vector(blockTensor(layer, "ffn_down_exps.bias"), hidden, n)
}

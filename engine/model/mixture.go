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
}

// add routes the normed rows h to experts and adds the experts' outputs to x. routing and ffn are
// buffers for intermediate results.
func (e *mixture) add(s compute.Step, route compute.RouteShape, layer int, x, h, routing, ffn compute.Tensor) {
	s.Route(routing, h, e.router, e.routerBias, route)
	s.Checkpoint(layer, "routing", routing)
	ffn = ffn.Slice(0, e.width(route))
	s.GatedExperts(ffn, h, routing, e.experts)
	if e.sharedGate != nil {
		gate, n := e.gate.Head(x.Rows), e.experts.SharedGate.Shape()[1]
		s.MatMul(gate, h, e.sharedGate...)
		s.Gate(ffn.Slice(ffn.Cols-n, n), gate)
	}
	s.ExpertsAdd(x, ffn, routing, e.experts)
}

func (e *mixture) width(route compute.RouteShape) int {
	if e.router == nil {
		return 0
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

func (l *loader) mixture(layer, hidden int, route compute.RouteShape) (e mixture) {
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
	e.experts = compute.Experts{
		Gate: l.weight(name("ffn_gate_exps.weight"), hidden, ffn, n),
		Up:   l.weight(name("ffn_up_exps.weight"), hidden, ffn, n),
		Down: l.weight(name("ffn_down_exps.weight"), ffn, hidden, n),
	}
	if x := e.experts; l.err == nil && x.Gate.Type() != x.Up.Type() {
		l.fail(fmt.Errorf("%s has type %v and %s has type %v, but they must have the same type: %w",
			name("ffn_gate_exps.weight"), x.Gate.Type(), name("ffn_up_exps.weight"), x.Up.Type(), ErrUnsupported))
		return e
	}
	if shared := l.sharedFFN(ffn); shared > 0 {
		e.experts.SharedGate = l.weight(name("ffn_gate_shexp.weight"), hidden, shared)
		e.experts.SharedUp = l.weight(name("ffn_up_shexp.weight"), hidden, shared)
		e.experts.SharedDown = l.weight(name("ffn_down_shexp.weight"), shared, hidden)
	}
	return e
}

// sharedFFN returns the number of activations of all shared experts together; 0 if there are none.
func (l *loader) sharedFFN(expertFFN int) int {
	return cmp.Or(l.sizeOr("expert_shared_count", 0)*expertFFN, l.sizeOr("expert_shared_feed_forward_length", 0))
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

package metal

import (
	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
)

// The argument structs of choose.h and choose.cu.
type (
	nvidiaRouteArgs struct {
		n, experts, rows, used, xStride, dstStride, logitsStride, gated, gateStride uint32
		sigmoid, normalise, biased, scaled                                          uint32
		scale                                                                       float32
	}
	rowRouteArgs struct {
		n, experts, normThreads uint32
		eps                     float32
		gated                   uint32
	}
	normRouteArgs struct {
		n, experts, rows, normThreads, xStride, normedStride uint32
		eps                                                  float32
		quantised, gated, gateStride                         uint32
	}
)

const (
	// fewRouted is the maximum number of rows that kernel norm_route takes, and fewLogits that of
	// their logits: each of its threadgroups makes 16, and normalises two rows for them.
	fewRouted, fewLogits = 64, 4096
	// manyRouted is the minimum number of rows for kernel route_many.
	manyRouted = 256
	// maxNvidiaExperts is the maximum number of experts that fits into the threadgroup memory of
	// kernel choose_rows.
	maxNvidiaExperts = 1024
)

func computesRoute(w *weight, shape compute.RouteShape) bool {
	return w.kind == gguf.TypeF32 && shape.Experts <= maxNvidiaExperts && shape.Used <= maxUsedExperts
}

func (o *route) nvidia(n *nvidia) {
	if prior, ok := o.prior.(*norm); ok {
		if o.dst.Rows == 1 {
			n.routeRow(o, prior)
		} else {
			n.routeNormed(o, prior)
		}
		return
	}
	plain := *o
	plain.router = n.inFloats(o.router)
	if w := plain.router.(*weight); computesRoute(w, o.shape) {
		n.routeRows(o, w)
	} else {
		plain.portable(n.general)
	}
}

func (n *nvidia) routeRows(o *route, w *weight) {
	n.inParts(o.dst.Rows, o.shape.Experts, func(from, to int) {
		a, logits := o.args(to-from), n.scratch.write()
		router := Binding{Buffer: w.buffer}
		gate, gates := o.gated(router, logits, from, to)
		n.routeLogits("route", router, gate, at(o.x.Span(from, to)), logits, gates, &a)
		n.chooseExperts(o, o.dst.Span(from, to), logits, &a)
	})
}

// gated returns the weights of the gate that the kernel of the logits computes for the rows
// [from, to), and where it writes the results. Without a gate, they are bound, but not used.
func (o *route) gated(router, logits Binding, from, to int) (gate, gates Binding) {
	if o.gate == nil {
		return router, logits
	}
	return bind(o.gate.weights[0], router), into(o.gate.dst.Span(from, to))
}

// chooseExperts records the choice of the experts of rows by their logits.
func (n *nvidia) chooseExperts(o *route, dst compute.Tensor, logits Binding, a *nvidiaRouteArgs) {
	const each = 4 // rows of a threadgroup
	g := grid{x: (dst.Rows + each - 1) / each, y: 1, simdgroups: each, shared: 8 * each * o.shape.Experts}
	record(n.step, "route", n.chooseRows, g, a, logits, bind(o.bias, logits), into(dst))
}

// routeNormed records the routing of some rows. The kernel of the logits also computes the RMSNorm
// that makes the rows.
func (n *nvidia) routeNormed(o *route, prior *norm) {
	const simdgroups, each = 8, 2 // experts and rows of a threadgroup
	w, rows := weightOf(o.router), o.x.Rows
	a := normRouteArgs{
		n: uint32(w.in), experts: uint32(o.shape.Experts), rows: uint32(rows), normThreads: uint32(prior.threads()),
		xStride: uint32(prior.src.Stride), normedStride: uint32(o.x.Stride), eps: prior.eps, quantised: flag(o.quantises),
	}
	choose := o.args(rows)
	a.gated, a.gateStride = choose.gated, choose.gateStride
	logits, dst, router := Binding{Buffer: n.logits}, into(o.x), Binding{Buffer: w.buffer}
	gate, gates := o.gated(router, logits, 0, rows)
	if o.quantises {
		n.hold(quantisedRows(o.x, w.in, 1), 0)
	}
	g := grid{x: (o.shape.Experts + int(a.gated) + simdgroups - 1) / simdgroups, y: (rows + each - 1) / each, simdgroups: simdgroups, shared: 4 * each * w.in}
	record(n.step, "route", n.normRoute, g, &a, router, gate, at(prior.src), bind(prior.gain, logits), dst, n.activations.read(), logits, gates)
	n.chooseExperts(o, o.dst, logits, &choose)
}

// routeLogits records the products of rows x with a router: a.rows rows of a.experts logits, and
// the gates of the shared experts if a.gated is 1.
func (n *nvidia) routeLogits(name string, router, gate, x, logits, gates Binding, a *nvidiaRouteArgs) {
	rows, experts := int(a.rows), int(a.experts+a.gated)
	groups := func(count, each int) int { return (count + each - 1) / each }
	p, g := n.routeFew, grid{x: groups(experts, 8), y: groups(rows, 4), simdgroups: 2}
	switch {
	case experts == 1: // a gate of the shared experts
		p, g = n.routeOne, grid{x: 1, y: rows, simdgroups: 1}
	case rows >= manyRouted:
		p, g = n.routeMany, grid{x: groups(int(a.experts), 32), y: groups(rows, 16), simdgroups: 8}
	}
	record(n.step, name, p, g, a, router, gate, x, logits, gates)
}

// routeRow records the logits of a row's routing, together with the RMSNorm that makes the row. It
// also quantises the row. It records the choice of the experts too, unless the next operation's
// kernel makes it.
func (n *nvidia) routeRow(o *route, prior *norm) {
	const simdgroups = 8 // each computes the logit of an expert
	w := weightOf(o.router)
	a := rowRouteArgs{n: uint32(w.in), experts: uint32(o.shape.Experts), normThreads: uint32(prior.threads()), eps: prior.eps, gated: flag(o.gate != nil)}
	g := grid{x: (o.shape.Experts + int(a.gated) + simdgroups - 1) / simdgroups, y: 1, simdgroups: simdgroups, shared: 4 * w.in}
	logits, router := Binding{Buffer: n.logits}, Binding{Buffer: w.buffer}
	gate, gates := o.gated(router, logits, 0, 1)
	record(n.step, "route", n.rowRoute, g, &a, router, gate, at(prior.src), bind(prior.gain, logits), into(o.x), n.activations.read(), logits, gates)
	n.hold(quantisedRows(o.x.Head(1), w.in, 1), 0)
	if !o.continued {
		choose := o.args(1)
		record(n.step, "route", n.rowChoose, grid{x: 1, y: 1, simdgroups: 1, shared: choiceBytes(o.shape)}, &choose, logits, bind(o.bias, logits), into(o.dst))
	}
}

// choiceBytes returns the threadgroup memory for the choice of a row's experts: two floats per
// expert.
func choiceBytes(shape compute.RouteShape) int { return 8 * shape.Experts }

func (o *route) args(rows int) nvidiaRouteArgs {
	a := nvidiaRouteArgs{
		n: uint32(weightOf(o.router).in), experts: uint32(o.shape.Experts), rows: uint32(rows), used: uint32(o.shape.Used),
		xStride: uint32(o.x.Stride), dstStride: uint32(o.dst.Stride), logitsStride: uint32(o.shape.Experts),
		sigmoid: flag(o.shape.Gating == compute.GatingSigmoid), normalise: flag(o.shape.Normalise), biased: flag(o.bias != nil), scaled: flag(o.shape.Scaled), scale: o.shape.Scale,
	}
	if o.shape.BiasLogits {
		a.biased *= 2
	}
	if o.gate != nil {
		a.gated, a.gateStride = 1, uint32(o.gate.dst.Stride)
	}
	return a
}

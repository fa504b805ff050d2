package metal

import "github.com/ingot-run/ingot/engine/compute"

// Route implements compute.Step.
func (s *step) Route(dst, x compute.Tensor, router, bias compute.Weight, shape compute.RouteShape) {
	w := router.(*weight)
	a := routeArgs{
		n: uint32(w.in), rowBytes: uint32(w.rowBytes), experts: uint32(shape.Experts), used: uint32(shape.Used),
		xStride: uint32(x.Stride), dstStride: uint32(dst.Stride), sigmoid: flag(shape.Gating == compute.GatingSigmoid),
		normalise: flag(shape.Normalise), biased: flag(bias != nil), scale: shape.Scale,
	}
	b := Binding{Buffer: w.buffer}
	record(s, "route", w.kernels.route, grid{x: dst.Rows, y: 1, simdgroups: min(routeGroups, shape.Experts), shared: 8 * shape.Experts}, &a,
		b, bind(bias, b), at(x), at(dst))
}

// GatedExperts implements compute.Step. Shared experts of another type than the chosen ones are a dispatch of their own.
func (s *step) GatedExperts(dst, x, routing compute.Tensor, e compute.Experts) {
	w, used := e.Gate.(*weight), routing.Cols/2
	k := w.kernels.gatedExperts
	a := gatedExpertsArgs{
		n: uint32(w.in), rowBytes: uint32(w.rowBytes), out: uint32(w.out), used: uint32(used), xStride: uint32(x.Stride),
		routingStride: uint32(routing.Stride), dstStride: uint32(dst.Stride), groups: uint32(k.groups(w.out)),
	}
	groups := used * k.groups(w.out)
	gate, up := Binding{Buffer: w.buffer}, bind(e.Up, Binding{})
	sharedGate, sharedUp := gate, up
	apart := e.SharedGate != nil && (e.SharedGate.Type() != w.kind || e.SharedUp.Type() != w.kind)
	if e.SharedGate != nil && !apart {
		shared := e.SharedGate.(*weight)
		a.sharedOut = uint32(shared.out)
		groups += k.groups(shared.out)
		sharedGate, sharedUp = bind(e.SharedGate, gate), bind(e.SharedUp, up)
	}
	record(s, "gated_experts", k.pipeline, grid{x: groups, y: dst.Rows, simdgroups: k.simdgroups}, &a,
		gate, up, sharedGate, sharedUp, at(x), at(routing), at(dst))
	if apart {
		s.GatedMatMul(dst.Slice(used*w.out, e.SharedGate.(*weight).out), x, e.SharedGate, e.SharedUp)
	}
}

// ExpertsAdd implements compute.Step.
func (s *step) ExpertsAdd(dst, h, routing compute.Tensor, e compute.Experts) {
	w, used := e.Down.(*weight), routing.Cols/2
	k := w.kernels.expertsAdd
	a := expertsAddArgs{
		n: uint32(w.in), rowBytes: uint32(w.rowBytes), out: uint32(w.out), used: uint32(used),
		hStride: uint32(h.Stride), routingStride: uint32(routing.Stride), dstStride: uint32(dst.Stride),
	}
	down := Binding{Buffer: w.buffer}
	shared := down
	apart := e.SharedDown != nil && e.SharedDown.Type() != w.kind
	if e.SharedDown != nil && !apart {
		d := e.SharedDown.(*weight)
		a.sharedN, a.sharedRowBytes, shared.Buffer = uint32(d.in), uint32(d.rowBytes), d.buffer
	}
	record(s, "experts_add", k.pipeline, grid{x: k.groups(w.out), y: dst.Rows, simdgroups: k.simdgroups}, &a,
		down, shared, at(h), at(routing), at(dst))
	if apart {
		d := e.SharedDown.(*weight)
		s.MatMulAdd(dst, h.Slice(used*w.in, d.in), e.SharedDown)
	}
}

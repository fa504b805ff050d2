package metal

import "github.com/ingot-run/ingot/engine/compute"

type routeArgs struct {
	n, rowBytes, experts, used, xStride, dstStride uint32
	sigmoid, normalise, biased                     uint32 // biased: 1 for a bias of probabilities, 2 for one of logits
	scale                                          float32
}

func (o *route) portable(p *portable) {
	w, shape := o.router.(*weight), &o.shape
	a := routeArgs{
		n: uint32(w.in), rowBytes: uint32(w.rowBytes), experts: uint32(shape.Experts), used: uint32(shape.Used),
		xStride: uint32(o.x.Stride), dstStride: uint32(o.dst.Stride), sigmoid: flag(shape.Gating == compute.GatingSigmoid),
		normalise: flag(shape.Normalise), biased: flag(o.bias != nil), scale: shape.Scale,
	}
	if shape.BiasLogits {
		a.biased *= 2
	}
	b := Binding{Buffer: w.buffer}
	k := w.kernels.route
	groups := min(k.simdgroups, (shape.Experts+k.rows-1)/k.rows)
	record(p.step, "route", k.pipeline, grid{x: o.dst.Rows, y: 1, simdgroups: groups, shared: 8 * shape.Experts}, &a,
		b, bind(o.bias, b), at(o.x), into(o.dst))
}

// sharedOf returns the weight of the shared experts if one dispatch can process it together with w,
// else nil. separate reports whether there are shared experts that need a separate dispatch.
func sharedOf(w *weight, shared ...compute.Weight) (together *weight, separate bool) {
	for _, s := range shared {
		if s == nil || s.Type() != w.kind {
			return nil, s != nil
		}
	}
	return weightOf(shared[0]), false
}

type gatedExpertsArgs struct {
	n, rowBytes, out, used, sharedOut, xStride, routingStride, dstStride, groups uint32
	activation, biased                                                           uint32
}

// used returns the number of experts of a row.
func (o *gatedExperts) used() int { return o.routing.Cols / 2 }

// shared returns the gated product of the shared experts.
func (o *gatedExperts) shared() gatedProduct {
	e := &o.experts
	dst := o.dst.Slice(o.used()*weightOf(e.Gate).out, weightOf(e.SharedGate).out)
	return gatedProduct{dst, o.x, e.SharedGate, e.SharedUp, e.Activation}
}

// portable records the shared experts in a separate dispatch if their type differs from the type of
// the routed experts.
func (o *gatedExperts) portable(p *portable) {
	e, w := &o.experts, o.experts.Gate.(*weight)
	if o.dst.Rows >= w.kernels.expertGatedTile.from {
		p.gatedExpertTiles(o, w)
		return
	}
	k := w.kernels.gatedExperts
	a := gatedExpertsArgs{
		n: uint32(w.in), rowBytes: uint32(w.rowBytes), out: uint32(w.out), used: uint32(o.used()), xStride: uint32(o.x.Stride),
		routingStride: uint32(o.routing.Stride), dstStride: uint32(o.dst.Stride), groups: uint32(k.groups(w.out)),
		activation: uint32(e.Activation), biased: flag(e.GateBias != nil),
	}
	groups := o.used() * k.groups(w.out)
	gate, up := Binding{Buffer: w.buffer}, bind(e.Up, Binding{})
	sharedGate, sharedUp := gate, up
	shared, separate := sharedOf(w, e.SharedGate, e.SharedUp)
	if shared != nil {
		a.sharedOut = uint32(shared.out)
		groups += k.groups(shared.out)
		sharedGate, sharedUp = bind(e.SharedGate, gate), bind(e.SharedUp, up)
	}
	record(p.step, "gated_experts", k.pipeline, grid{x: groups, y: o.dst.Rows, simdgroups: k.simdgroups}, &a,
		gate, up, sharedGate, sharedUp, at(o.x), at(o.routing), into(o.dst), bind(e.GateBias, at(o.x)), bind(e.UpBias, at(o.x)))
	if separate {
		shared := o.shared()
		shared.portable(p)
	}
}

type expertsAddArgs struct {
	n, rowBytes, out, used, sharedN, sharedRowBytes, hStride, routingStride, dstStride, biased uint32
}

// used returns the number of experts of a row.
func (o *expertsAdd) used() int { return o.routing.Cols / 2 }

// shared returns the product of the shared experts.
func (o *expertsAdd) shared() product {
	e := &o.experts
	x := o.h.Slice(o.used()*weightOf(e.Down).in, weightOf(e.SharedDown).in)
	return product{dst: o.dst, x: x, weights: []compute.Weight{e.SharedDown}, add: true}
}

func (o *expertsAdd) portable(p *portable) {
	e, w := &o.experts, o.experts.Down.(*weight)
	if o.dst.Rows >= w.kernels.expertDownTile.from {
		p.expertTilesAdd(o, w)
		return
	}
	k := w.kernels.expertsAdd
	a := expertsAddArgs{
		n: uint32(w.in), rowBytes: uint32(w.rowBytes), out: uint32(w.out), used: uint32(o.used()),
		hStride: uint32(o.h.Stride), routingStride: uint32(o.routing.Stride), dstStride: uint32(o.dst.Stride), biased: flag(e.DownBias != nil),
	}
	down := Binding{Buffer: w.buffer}
	sharedDown := down
	shared, separate := sharedOf(w, e.SharedDown)
	if shared != nil {
		a.sharedN, a.sharedRowBytes, sharedDown.Buffer = uint32(shared.in), uint32(shared.rowBytes), shared.buffer
	}
	record(p.step, "experts_add", k.pipeline, grid{x: k.groups(w.out), y: o.dst.Rows, simdgroups: k.simdgroups}, &a,
		down, sharedDown, at(o.h), at(o.routing), into(o.dst), bind(e.DownBias, at(o.h)))
	if separate {
		shared := o.shared()
		shared.portable(p)
	}
}

// groupedInts is the maximum number of integers in scratch memory per choice (a row and one of its
// experts): one for the choice and three for a tile.
const groupedInts = 4

// grouped is a routing whose choices are grouped by expert, in scratch memory.
type grouped struct {
	choices, tiles, rest Binding // rest is the scratch memory after choices and tiles
	count                int     // number of tiles; some can be empty
}

type groupArgs struct {
	rows, used, experts, routingStride, tiles uint32
}

// layOut sets the places of choices and tiles that are written to scratch memory.
func (g *grouped) layOut(s *room, choices int) {
	g.choices, g.tiles, g.rest = s.write(), s.read(), s.read()
	g.tiles.Offset, g.rest.Offset = 4*choices, 4*groupedInts*choices
}

// group records the dispatch that sorts a routing's choices by expert and divides them into tiles.
func (p *portable) group(routing compute.Tensor, experts int) (g grouped) {
	used := routing.Cols / 2
	choices := (routing.Rows*used + 3) &^ 3
	g.count = min(choices/choicesTile+experts, routing.Rows*used)
	g.layOut(&p.scratch, choices)
	a := groupArgs{rows: uint32(routing.Rows), used: uint32(used), experts: uint32(experts), routingStride: uint32(routing.Stride), tiles: uint32(g.count)}
	record(p.step, "group_experts", p.kernels.groupExperts, grid{x: 1, y: 1, simdgroups: groupThreads / 32, shared: 4 * experts}, &a,
		at(routing), g.choices, g.tiles)
	return g
}

type expertTileArgs struct {
	n, rowBytes, out, used, xStride, dstStride, activation, biased uint32
}

func (p *portable) gatedExpertTiles(o *gatedExperts, w *weight) {
	e, k := &o.experts, w.kernels.expertGatedTile
	a := expertTileArgs{
		n: uint32(w.in), rowBytes: uint32(w.rowBytes), out: uint32(w.out), used: uint32(o.used()), xStride: uint32(o.x.Stride),
		dstStride: uint32(o.dst.Stride), activation: uint32(e.Activation), biased: flag(e.GateBias != nil),
	}
	p.inParts(o.dst.Rows, o.used()*groupedInts, func(from, to int) {
		g := p.group(o.routing.Span(from, to), w.matrices)
		record(p.step, "gated_experts", k.pipeline, k.grid(w.out, k.rows/2, g.count*choicesTile), &a,
			Binding{Buffer: w.buffer}, bind(e.Up, Binding{}), at(o.x.Span(from, to)), g.choices, g.tiles, into(o.dst.Span(from, to)),
			bind(e.GateBias, at(o.x)), bind(e.UpBias, at(o.x)))
	})
	if e.SharedGate == nil {
		return
	}
	if shared := o.shared(); e.SharedGate.Type() == e.SharedUp.Type() {
		p.gatedTile(&shared, true)
	} else {
		shared.portable(p)
	}
}

type weighArgs struct {
	cols, used, routingStride, dstStride uint32
}

func (p *portable) expertTilesAdd(o *expertsAdd, w *weight) {
	e, k := &o.experts, w.kernels.expertDownTile
	a := expertTileArgs{
		n: uint32(w.in), rowBytes: uint32(w.rowBytes), out: uint32(w.out), used: uint32(o.used()), xStride: uint32(o.h.Stride),
		dstStride: uint32(w.out), biased: flag(e.DownBias != nil),
	}
	by := weighArgs{cols: uint32(w.out), used: uint32(o.used()), routingStride: uint32(o.routing.Stride), dstStride: uint32(o.dst.Stride)}
	p.inParts(o.dst.Rows, o.used()*(groupedInts+w.out), func(from, to int) {
		routing := o.routing.Span(from, to)
		g := p.group(routing, w.matrices)
		record(p.step, "experts_down", k.pipeline, k.grid(w.out, k.rows, g.count*choicesTile), &a,
			Binding{Buffer: w.buffer}, at(o.h.Span(from, to)), g.choices, g.tiles, g.rest, bind(e.DownBias, at(o.h)))
		record(p.step, "experts_add", p.kernels.weighExperts, byColumn(w.out, to-from), &by, g.rest, at(routing), into(o.dst.Span(from, to)))
	})
	if e.SharedDown != nil {
		d := e.SharedDown.(*weight)
		p.productTile("experts_add", o.dst, o.h.Slice(o.used()*w.in, d.in), d, tileArgs{add: 1}, false)
	}
}

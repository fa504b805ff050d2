package metal

import "github.com/ingot-run/ingot/engine/compute"

type routeArgs struct {
	n, rowBytes, experts, used, xStride, dstStride uint32
	sigmoid, normalise, biased                     uint32 // biased: 1 for a bias of probabilities, 2 for one of logits
	scale                                          float32
}

func (p *portable) Route(dst, x compute.Tensor, router, bias compute.Weight, shape compute.RouteShape) {
	w := router.(*weight)
	a := routeArgs{
		n: uint32(w.in), rowBytes: uint32(w.rowBytes), experts: uint32(shape.Experts), used: uint32(shape.Used),
		xStride: uint32(x.Stride), dstStride: uint32(dst.Stride), sigmoid: flag(shape.Gating == compute.GatingSigmoid),
		normalise: flag(shape.Normalise), biased: flag(bias != nil), scale: shape.Scale,
	}
	if shape.BiasLogits {
		a.biased *= 2
	}
	b := Binding{Buffer: w.buffer}
	k := w.kernels.route
	groups := min(k.simdgroups, (shape.Experts+k.rows-1)/k.rows)
	record(p.step, "route", k.pipeline, grid{x: dst.Rows, y: 1, simdgroups: groups, shared: 8 * shape.Experts}, &a,
		b, bind(bias, b), at(x), at(dst))
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

// GatedExperts implements compute.Step. Shared experts have a separate dispatch if their type
// differs from the type of the routed experts.
func (p *portable) GatedExperts(dst, x, routing compute.Tensor, e compute.Experts) {
	w, used := e.Gate.(*weight), routing.Cols/2
	if dst.Rows >= w.kernels.expertGatedTile.from {
		p.gatedExpertTiles(dst, x, routing, e)
		return
	}
	k := w.kernels.gatedExperts
	a := gatedExpertsArgs{
		n: uint32(w.in), rowBytes: uint32(w.rowBytes), out: uint32(w.out), used: uint32(used), xStride: uint32(x.Stride),
		routingStride: uint32(routing.Stride), dstStride: uint32(dst.Stride), groups: uint32(k.groups(w.out)),
		activation: uint32(e.Activation), biased: flag(e.GateBias != nil),
	}
	groups := used * k.groups(w.out)
	gate, up := Binding{Buffer: w.buffer}, bind(e.Up, Binding{})
	sharedGate, sharedUp := gate, up
	shared, separate := sharedOf(w, e.SharedGate, e.SharedUp)
	if shared != nil {
		a.sharedOut = uint32(shared.out)
		groups += k.groups(shared.out)
		sharedGate, sharedUp = bind(e.SharedGate, gate), bind(e.SharedUp, up)
	}
	record(p.step, "gated_experts", k.pipeline, grid{x: groups, y: dst.Rows, simdgroups: k.simdgroups}, &a,
		gate, up, sharedGate, sharedUp, at(x), at(routing), at(dst), bind(e.GateBias, at(x)), bind(e.UpBias, at(x)))
	if separate {
		p.GatedMatMul(dst.Slice(used*w.out, e.SharedGate.(*weight).out), x, e.SharedGate, e.SharedUp, e.Activation)
	}
}

type expertsAddArgs struct {
	n, rowBytes, out, used, sharedN, sharedRowBytes, hStride, routingStride, dstStride, biased uint32
}

func (p *portable) ExpertsAdd(dst, h, routing compute.Tensor, e compute.Experts) {
	w, used := e.Down.(*weight), routing.Cols/2
	if dst.Rows >= w.kernels.expertDownTile.from {
		p.expertTilesAdd(dst, h, routing, e)
		return
	}
	k := w.kernels.expertsAdd
	a := expertsAddArgs{
		n: uint32(w.in), rowBytes: uint32(w.rowBytes), out: uint32(w.out), used: uint32(used),
		hStride: uint32(h.Stride), routingStride: uint32(routing.Stride), dstStride: uint32(dst.Stride), biased: flag(e.DownBias != nil),
	}
	down := Binding{Buffer: w.buffer}
	sharedDown := down
	shared, separate := sharedOf(w, e.SharedDown)
	if shared != nil {
		a.sharedN, a.sharedRowBytes, sharedDown.Buffer = uint32(shared.in), uint32(shared.rowBytes), shared.buffer
	}
	record(p.step, "experts_add", k.pipeline, grid{x: k.groups(w.out), y: dst.Rows, simdgroups: k.simdgroups}, &a,
		down, sharedDown, at(h), at(routing), at(dst), bind(e.DownBias, at(h)))
	if separate {
		d := e.SharedDown.(*weight)
		p.MatMulAdd(dst, h.Slice(used*w.in, d.in), e.SharedDown)
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

// group records the dispatch that sorts a routing's choices by expert and divides them into tiles.
func (p *portable) group(routing compute.Tensor, experts int) (g grouped) {
	used := routing.Cols / 2
	choices := (routing.Rows*used + 3) &^ 3
	g.count = min(choices/choicesTile+experts, routing.Rows*used)
	g.choices.Buffer, g.tiles.Buffer, g.rest.Buffer = p.scratch.buffer, p.scratch.buffer, p.scratch.buffer
	g.tiles.Offset, g.rest.Offset = 4*choices, 4*groupedInts*choices
	a := groupArgs{uint32(routing.Rows), uint32(used), uint32(experts), uint32(routing.Stride), uint32(g.count)}
	record(p.step, "group_experts", p.kernels.groupExperts, grid{x: 1, y: 1, simdgroups: groupThreads / 32, shared: 4 * experts}, &a,
		at(routing), g.choices, g.tiles)
	return g
}

type expertTileArgs struct {
	n, rowBytes, out, used, xStride, dstStride, activation, biased uint32
}

func (p *portable) gatedExpertTiles(dst, x, routing compute.Tensor, e compute.Experts) {
	w, used := e.Gate.(*weight), routing.Cols/2
	k := w.kernels.expertGatedTile
	p.inParts(dst.Rows, used*groupedInts, func(first, n int) {
		g := p.group(rowsFrom(routing, first, n), w.matrices)
		a := expertTileArgs{
			uint32(w.in), uint32(w.rowBytes), uint32(w.out), uint32(used), uint32(x.Stride), uint32(dst.Stride),
			uint32(e.Activation), flag(e.GateBias != nil),
		}
		record(p.step, "gated_experts", k.pipeline, k.grid(w.out, k.rows/2, g.count*choicesTile), &a,
			Binding{Buffer: w.buffer}, bind(e.Up, Binding{}), at(rowsFrom(x, first, n)), g.choices, g.tiles, at(rowsFrom(dst, first, n)), bind(e.GateBias, at(x)), bind(e.UpBias, at(x)))
	})
	if e.SharedGate == nil {
		return
	}
	shared := dst.Slice(used*w.out, e.SharedGate.(*weight).out)
	if e.SharedGate.Type() == e.SharedUp.Type() {
		p.gatedTile(shared, x, e.SharedGate, e.SharedUp, e.Activation, true)
	} else {
		p.gateSeparately(shared, x, e.SharedGate, e.SharedUp, e.Activation, p.MatMul)
	}
}

type weighArgs struct {
	cols, used, routingStride, dstStride uint32
}

func (p *portable) expertTilesAdd(dst, h, routing compute.Tensor, e compute.Experts) {
	w, used := e.Down.(*weight), routing.Cols/2
	k := w.kernels.expertDownTile
	p.inParts(dst.Rows, used*(groupedInts+w.out), func(first, n int) {
		routing := rowsFrom(routing, first, n)
		g := p.group(routing, w.matrices)
		a := expertTileArgs{
			uint32(w.in), uint32(w.rowBytes), uint32(w.out), uint32(used), uint32(h.Stride), uint32(w.out), 0, flag(e.DownBias != nil),
		}
		record(p.step, "experts_down", k.pipeline, k.grid(w.out, k.rows, g.count*choicesTile), &a,
			Binding{Buffer: w.buffer}, at(rowsFrom(h, first, n)), g.choices, g.tiles, g.rest, bind(e.DownBias, at(h)))
		by := weighArgs{uint32(w.out), uint32(used), uint32(routing.Stride), uint32(dst.Stride)}
		record(p.step, "experts_add", p.kernels.weighExperts, grid{x: (w.out + copyThreads - 1) / copyThreads, y: n, simdgroups: copyThreads / 32}, &by,
			g.rest, at(routing), at(rowsFrom(dst, first, n)))
	})
	if e.SharedDown != nil {
		d := e.SharedDown.(*weight)
		p.productTile("experts_add", dst, h.Slice(used*w.in, d.in), d, tileArgs{add: 1}, false)
	}
}

package metal

import "github.com/ingot-run/ingot/engine/compute"

type routeArgs struct {
	experts, used, dstStride   uint32
	sigmoid, normalise, biased uint32 // biased: 1 for a bias of probabilities, 2 for one of logits
	scaled                     uint32
	scale                      float32
}

func (o *route) routeArgs() routeArgs {
	a := routeArgs{
		experts: uint32(o.shape.Experts), used: uint32(o.shape.Used), dstStride: uint32(o.dst.Stride), sigmoid: flag(o.shape.Gating == compute.GatingSigmoid),
		normalise: flag(o.shape.Normalise), biased: flag(o.bias != nil), scaled: flag(o.shape.Scaled), scale: o.shape.Scale,
	}
	if o.shape.BiasLogits {
		a.biased *= 2
	}
	return a
}

// choiceBytes returns the threadgroup memory in which a simdgroup chooses the experts of a row: a
// multiple of 16.
func (o *route) choiceBytes() int { return (8*(o.shape.Used+o.shape.Experts) + 15) &^ 15 }

// logits returns the logits of some rows, which are in scratch memory until the choice of the
// experts.
func (o *route) logits(p *portable, rows int) compute.Tensor {
	return compute.Tensor{Buffer: &p.scratch.memory, Rows: rows, Cols: o.shape.Experts, Stride: o.shape.Experts}
}

// portable records the product of the rows with the router, and the choice of the experts by its
// logits, unless the next operation makes it.
func (o *route) portable(p *portable) {
	w, a := o.router.(*weight), o.routeArgs()
	p.inParts(o.dst.Rows, o.shape.Experts, func(from, to int) {
		logits := o.logits(p, to-from)
		if x := o.x.Span(from, to); w.tiles(to - from) {
			p.productTile("route", logits, x, w, tileArgs{}, false)
		} else {
			p.productFew("route", logits, x, hold(&p.operands, o.router), productArgs{}, false)
		}
		if !o.continued {
			record(p.step, "route", p.kernels.chooseExperts, grid{x: to - from, y: 1, simdgroups: 1, shared: o.choiceBytes()}, &a,
				at(logits), bind(o.bias, at(logits)), into(o.dst.Span(from, to)))
		}
	})
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

type expertArgs struct {
	n, rowBytes, out, used, slots, experts uint32
	sharedN, sharedRowBytes, sharedOut     uint32
	xStride, dstStride, activation, biased uint32
	chooses                                uint32
	route                                  routeArgs
}

// newExpertArgs sets the sizes of a routed expert's weights and, if they are not nil, of those of
// the shared experts. used is the number of experts of a row.
func newExpertArgs(w, shared *weight, used int) expertArgs {
	a := expertArgs{n: uint32(w.in), rowBytes: uint32(w.rowBytes), out: uint32(w.out), used: uint32(used), slots: uint32(used), experts: uint32(w.matrices)}
	if shared != nil {
		a.slots++
		a.sharedN, a.sharedRowBytes, a.sharedOut = uint32(shared.in), uint32(shared.rowBytes), uint32(shared.out)
	}
	return a
}

// used returns the number of experts of a row.
func (o *gatedExperts) used() int { return o.routing.Cols / 2 }

// shared returns the gated product of the shared experts.
func (o *gatedExperts) shared() gatedProduct {
	e := &o.experts
	dst := o.dst.Slice(o.used()*weightOf(e.Gate).out, weightOf(e.SharedGate).out)
	return gatedProduct{dst: dst, x: o.x, gate: e.SharedGate, up: e.SharedUp, activation: e.Activation}
}

// portable records the shared experts as one more expert, or in a separate dispatch if their type
// differs from the type of the routed experts. More than one row is grouped by expert.
func (o *gatedExperts) portable(p *portable) {
	e, w := &o.experts, o.experts.Gate.(*weight)
	shared, separate := sharedOf(w, e.SharedGate, e.SharedUp)
	a := newExpertArgs(w, shared, o.used())
	a.xStride, a.dstStride, a.activation, a.biased = uint32(o.x.Stride), uint32(o.dst.Stride), uint32(e.Activation), flag(e.GateBias != nil)
	weights := [4]Binding{{Buffer: w.buffer}, bind(e.Up, Binding{}), {Buffer: w.buffer}, bind(e.Up, Binding{})}
	widest := w.out
	if shared != nil {
		weights[2].Buffer, weights[3] = shared.buffer, bind(e.SharedUp, weights[1])
		widest = max(widest, shared.out)
	}
	biases := [2]Binding{bind(e.GateBias, at(o.x)), bind(e.UpBias, at(o.x))}
	if o.dst.Rows == 1 {
		k, routing := forRows(w.kernels.gatedExperts, 1), at(o.routing)
		g, logits, logitBias := grid{x: k.groups(widest), y: int(a.slots), simdgroups: k.simdgroups, shared: k.room(w.in)}, routing, routing
		if r, ok := o.prior.(*route); ok {
			a.chooses, a.route = 1, r.routeArgs()
			g.shared, routing, logits = g.shared+r.choiceBytes(), into(o.routing), at(r.logits(p, 1))
			logitBias = bind(r.bias, logits)
		}
		record(p.step, "gated_experts", k.pipeline(p, o.x, 0), g, &a, weights[0], weights[1], weights[2], weights[3], at(o.x), routing, routing, routing, into(o.dst),
			biases[0], biases[1], logits, logitBias)
	} else {
		tile := &w.kernels.expertGatedTile
		p.inChoices(o.routing, w, weightOf(e.Down), int(a.slots), tile, func(from, to int, c groupedChoices) {
			x, routing := at(o.x.Span(from, to)), at(o.routing.Span(from, to))
			if k := tile.forChoices(c.key.tile); k != nil {
				record(p.step, "gated_experts", k.pipeline(p, o.x, 0), k.grid(widest, c.count*k.inputs), &a,
					weights[0], weights[1], weights[2], weights[3], x, c.choices, c.tiles, into(o.dst.Span(from, to)), biases[0], biases[1])
				return
			}
			k := forRows(w.kernels.gatedExperts, c.key.tile)
			record(p.step, "gated_experts", k.pipeline(p, o.x, 0), grid{x: k.groups(widest), y: c.count, simdgroups: k.simdgroups, shared: k.room(w.in)}, &a,
				weights[0], weights[1], weights[2], weights[3], x, routing, c.choices, c.tiles, into(o.dst.Span(from, to)), biases[0], biases[1], routing, routing)
		})
	}
	if separate {
		shared := o.shared()
		shared.portable(p)
	}
}

// used returns the number of experts of a row.
func (o *expertsAdd) used() int { return o.routing.Cols / 2 }

// shared returns the product of the shared experts.
func (o *expertsAdd) shared() product {
	e := &o.experts
	x := o.h.Slice(o.used()*weightOf(e.Down).in, weightOf(e.SharedDown).in)
	return product{dst: o.dst, x: x, weights: []compute.Weight{e.SharedDown}, add: true}
}

type weighArgs struct {
	cols, used, slots, routingStride, dstStride uint32
}

func (o *expertsAdd) portable(p *portable) {
	e, w := &o.experts, o.experts.Down.(*weight)
	shared, separate := sharedOf(w, e.SharedDown)
	a := newExpertArgs(w, shared, o.used())
	a.xStride, a.dstStride, a.biased = uint32(o.h.Stride), uint32(w.out), flag(e.DownBias != nil)
	down, bias := Binding{Buffer: w.buffer}, bind(e.DownBias, at(o.h))
	sharedDown := down
	if shared != nil {
		sharedDown.Buffer = shared.buffer
	}
	if o.dst.Rows == 1 {
		k, each := w.kernels.expertsAdd, teams*w.kernels.expertsAdd.rows
		g := grid{x: (w.out + each - 1) / each, y: 1, simdgroups: min(k.simdgroups, int(a.slots)), shared: 4 * each * int(a.slots)}
		record(p.step, "experts_add", k.pipeline(p, o.h, 0), g, &a, down, sharedDown, at(o.h), at(o.routing), into(o.dst), bias)
	} else {
		by := weighArgs{cols: uint32(w.out), used: uint32(o.used()), slots: a.slots, routingStride: uint32(o.routing.Stride), dstStride: uint32(o.dst.Stride)}
		tile := &w.kernels.expertDownTile
		p.inChoices(o.routing, w, w, int(a.slots), tile, func(from, to int, c groupedChoices) {
			h := at(o.h.Span(from, to))
			if k := tile.forChoices(c.key.tile); k != nil {
				record(p.step, "experts_down", k.pipeline(p, o.h, 0), k.grid(w.out, c.count*k.inputs), &a, down, sharedDown, h, c.choices, c.tiles, c.rest, bias)
			} else {
				k := forRows(w.kernels.expertsDown, c.key.tile)
				record(p.step, "experts_down", k.pipeline(p, o.h, 0), grid{x: k.groups(w.out), y: c.count, simdgroups: k.simdgroups, shared: k.room(max(w.in, int(a.sharedN)))}, &a, down, sharedDown, h, c.choices, c.tiles, c.rest, bias)
			}
			record(p.step, "experts_add", p.kernels.weighExperts, byColumn(w.out, to-from), &by, c.rest, at(o.routing.Span(from, to)), into(o.dst.Span(from, to)))
		})
	}
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
	rows, used, slots, experts, routingStride, tiles, tile uint32
}

// layOut sets the places of choices and tiles that are written to scratch memory.
func (g *grouped) layOut(s *room, choices int) {
	g.choices, g.tiles, g.rest = s.write(), s.read(), s.read()
	g.tiles.Offset, g.rest.Offset = 4*choices, 4*groupedInts*choices
}

// expertsPerRow is the share of the experts for which the geometry gives the number of rows from
// which choices are multiplied in tiles: rows that each use one expert in so many. For models that
// use another share, the number is scaled.
const expertsPerRow = 16

// forChoices returns the tiled kernel for some choices per tile, or nil if they are those of a
// kernel for few choices.
func (t *tiled) forChoices(n int) *tiled {
	switch {
	case n == t.inputs:
		return t
	case t.wide != nil && n == t.wide.inputs:
		return t.wide
	default:
		return nil
	}
}

// tileOfChoices returns the maximum number of choices per tile: the number of inputs of the tiled
// kernel k or of a kernel for few choices.
func tileOfChoices(rows, used, experts int, k *tiled) int {
	switch choices := rows * used; {
	case k.wide != nil && expertsPerRow*choices >= k.wide.from*experts:
		return k.wide.inputs
	case expertsPerRow*choices >= k.from*experts:
		return k.inputs
	case choices <= experts:
		return 2
	case choices <= 2*experts:
		return 4
	default:
		return 8
	}
}

// inChoices groups a routing by expert, in parts that fit into scratch memory with the down
// products of their choices, and calls op for each part. tile is the tiled kernel of the operation.
func (p *portable) inChoices(routing compute.Tensor, w, down *weight, slots int, tile *tiled, op func(from, to int, c groupedChoices)) {
	p.inParts(routing.Rows, slots*(groupedInts+down.out), func(first, to int) {
		part := routing.Span(first, to)
		op(first, to, p.groupChoices(part, w, slots, tileOfChoices(routing.Rows, routing.Cols/2, w.matrices, tile)))
	})
}

// groupChoices records the grouping of a routing. It records nothing if scratch memory already
// holds that grouping.
func (p *portable) groupChoices(routing compute.Tensor, w *weight, slots, tile int) groupedChoices {
	key := groupingKey{routing, routing.Buffer.(*memory).version, slots, tile}
	if p.grouped.key == key && p.grouped.version == p.scratch.version {
		return p.grouped
	}
	g, all := groupedChoices{key: key}, routing.Rows*slots
	g.count = min(all/tile+w.matrices+1, all)
	g.layOut(&p.scratch, (all+3)&^3)
	g.version = p.scratch.version
	a := groupArgs{
		rows: uint32(routing.Rows), used: uint32(routing.Cols / 2), slots: uint32(slots), experts: uint32(w.matrices), routingStride: uint32(routing.Stride),
		tiles: uint32(g.count), tile: uint32(tile),
	}
	record(p.step, "group_experts", p.kernels.groupExperts, grid{x: 1, y: 1, simdgroups: groupThreads / 32, shared: 8 * (w.matrices + 1)}, &a,
		at(routing), g.choices, g.tiles)
	p.grouped = g
	return g
}

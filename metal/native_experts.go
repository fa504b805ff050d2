package metal

import "github.com/ingot-run/ingot/engine/compute"

// The argument structs of experts.h, with the same fields.
type (
	choicesArgs struct{ rows, used, slots, experts, routingStride, tiles, tile uint32 }

	expertsArgs struct {
		blocks, out, experts, used, slots, sharedBlocks, sharedOut, room, routingStride, dstStride uint32
	}
	rowGatedArgs struct {
		blocks, out, sharedOut uint32
		route                  nativeRouteArgs
	}
	rowExpertsArgs struct {
		blocks, out, slots, sharedBlocks, probabilities uint32
		route                                           nativeRouteArgs
	}
	weighChoicesArgs struct{ cols, used, slots, routingStride, dstStride uint32 }
)

const (
	// manyChoices is the minimum mean number of choices per expert for which tiles of 32 are faster than tiles of 8.
	manyChoices = 12
	// expertScratch is the maximum number of bytes of scratch memory for the products of choices.
	expertScratch = 128 << 20
)

// groupedChoices is a routing sorted by expert, at the beginning of scratch memory.
type groupedChoices struct {
	routing              compute.Tensor
	slots                int     // choices per row, including the choice of the shared experts
	tile                 int     // maximum number of choices per tile
	choices, tiles, rest Binding // rest is the scratch memory after choices and tiles
	count                int     // number of tiles; some can be empty
}

// tileOf returns the maximum number of choices per tile.
func tileOf(rows, used, experts int) int {
	if rows*used >= manyChoices*experts {
		return 32
	}
	return 8
}

// groupChoices records the grouping of a routing by expert. It records nothing if scratch memory already holds that grouping. slots
// is the number of choices per row, including the choice of the shared experts.
func (s *step) groupChoices(routing compute.Tensor, w *weight, slots int) groupedChoices {
	used := routing.Cols / 2
	g := groupedChoices{routing: routing, slots: slots, tile: tileOf(routing.Rows, used, w.matrices)}
	if have := s.integer.grouped; have.routing == routing && have.slots == slots && have.tile == g.tile {
		return have
	}
	choices := (routing.Rows*slots + 3) &^ 3
	g.count = min(choices/g.tile+w.matrices+1, choices)
	g.choices.Buffer, g.tiles.Buffer, g.rest.Buffer = s.scratch.buffer, s.scratch.buffer, s.scratch.buffer
	g.tiles.Offset, g.rest.Offset = 4*choices, 4*groupedInts*choices
	a := choicesArgs{
		uint32(routing.Rows), uint32(used), uint32(slots), uint32(w.matrices), uint32(routing.Stride), uint32(g.count), uint32(g.tile),
	}
	const simdgroups = 8
	recordInteger(s, "group_experts", w.integer.group, grid{x: w.matrices + 1, y: 1, simdgroups: simdgroups, shared: 4 * (w.matrices + 1)}, &a, compute.Tensor{},
		at(routing), g.choices, g.tiles)
	s.integer.grouped = g
	return g
}

// integerGatedExperts is GatedExperts for packed weights.
func (s *step) integerGatedExperts(dst, x, routing compute.Tensor, e compute.Experts) {
	w, used := e.Gate.(*weight), routing.Cols/2
	shared, separate := sharedOf(w, e.SharedGate, e.SharedUp)
	slots := used
	gate, up := Binding{Buffer: w.buffer}, bind(e.Up, Binding{})
	sharedGate, sharedUp := gate, up
	a := expertsArgs{
		blocks: uint32(w.in / blockValues), out: uint32(w.out), experts: uint32(w.matrices), used: uint32(used),
		routingStride: uint32(routing.Stride), dstStride: uint32(dst.Stride),
	}
	widest := w.out
	if shared != nil {
		slots++
		a.sharedOut = uint32(shared.out)
		widest = max(widest, shared.out)
		sharedGate, sharedUp = bind(e.SharedGate, gate), bind(e.SharedUp, up)
	}
	a.slots = uint32(slots)
	k, c := w.integer.rowGated, s.pending.choice
	memory := rowBytes(w.in) + 2*k.rows/groupRows*groupBytes(w) + c.bytes()
	if s.fold(dst, routing, c.args.experts > 0 && s.fitsTwice(memory)).dst.Buffer != nil {
		s.quantise(x, 1, w.in, 0)
		row := rowGatedArgs{a.blocks, a.out, a.sharedOut, c.args}
		g := grid{x: k.groups(widest), y: slots, simdgroups: k.simdgroups, shared: memory}
		recordInteger(s, "gated_experts", k.pipeline, g, &row, dst,
			gate, up, sharedGate, sharedUp, Binding{Buffer: s.integer.activations}, Binding{Buffer: s.native.logits}, c.bias, at(routing), at(dst))
	} else {
		c = choice{}
		s.gatedChoices(dst, x, routing, w, a, gate, up, sharedGate, sharedUp)
	}
	if separate {
		s.GatedMatMul(dst.Slice(used*w.out, e.SharedGate.(*weight).out), x, e.SharedGate, e.SharedUp, e.Activation)
	}
	s.integer.chosen = c
}

// gatedChoices is integerGatedExperts for any number of rows.
func (s *step) gatedChoices(dst, x, routing compute.Tensor, w *weight, a expertsArgs, gate, up, sharedGate, sharedUp Binding) {
	slots, widest := int(a.slots), max(w.out, int(a.sharedOut))
	s.inParts(dst.Rows, slots*groupedInts, func(first, n int) {
		s.inColumns(n, 1, w.in, func(more, n int) {
			first := first + more
			dst, routing := rowsFrom(dst, first, n), rowsFrom(routing, first, n)
			s.quantise(rowsFrom(x, first, n), 1, w.in, 0)
			g := s.groupChoices(routing, w, slots)
			k := forColumns(w.integer.gatedExperts, g.tile)
			recordInteger(s, "gated_experts", k.pipeline, grid{x: k.groups(widest), y: g.count, simdgroups: k.simdgroups}, &a, dst,
				gate, up, sharedGate, sharedUp, Binding{Buffer: s.integer.activations}, at(routing), g.choices, g.tiles, at(dst))
		})
	})
}

// integerExpertsAdd is ExpertsAdd for packed weights.
func (s *step) integerExpertsAdd(dst, h, routing compute.Tensor, e compute.Experts) {
	w, used := e.Down.(*weight), routing.Cols/2
	shared, separate := sharedOf(w, e.SharedDown)
	slots := used
	down := Binding{Buffer: w.buffer}
	sharedDown := down
	a := expertsArgs{
		blocks: uint32(w.in / blockValues), out: uint32(w.out), experts: uint32(w.matrices), used: uint32(used),
		routingStride: uint32(routing.Stride), dstStride: uint32(dst.Stride),
	}
	bytes := used * (rowBytes(w.in) + groupBytes(w))
	if shared != nil {
		slots++
		bytes += rowBytes(shared.in) + groupBytes(shared)
		a.sharedBlocks = uint32(shared.in / blockValues)
		sharedDown.Buffer = shared.buffer
	}
	a.slots = uint32(slots)
	bytes = max(bytes, slots*rowPartBytes)
	c := s.integer.chosen
	if dst.Rows == 1 && c.args.experts > 0 && c.routing == routing && slots <= maxRowChoices && s.fitsTwice(bytes+c.bytes()) {
		k, row := w.integer.rowExperts, rowExpertsArgs{a.blocks, a.out, a.slots, a.sharedBlocks, uint32(bytes), c.args}
		g := grid{x: k.groups(w.out), y: 1, simdgroups: k.simdgroups * slots, shared: bytes + c.bytes()}
		recordInteger(s, "experts_add", k.pipeline, g, &row, dst, down, sharedDown, at(h), Binding{Buffer: s.native.logits}, c.bias, at(dst))
	} else {
		s.expertsDown(dst, h, routing, w, shared, a, down, sharedDown)
	}
	if separate {
		s.MatMulAdd(dst, h.Slice(used*w.in, e.SharedDown.(*weight).in), e.SharedDown)
	}
}

// expertsDown is integerExpertsAdd for any number of rows. It writes the products of all choices to scratch
// memory and then adds them.
func (s *step) expertsDown(dst, h, routing compute.Tensor, w, shared *weight, a expertsArgs, down, sharedDown Binding) {
	used, slots, width := int(a.used), int(a.slots), int(a.used)*w.in
	if shared != nil {
		width += shared.in
	}
	s.inParts(dst.Rows, slots*(groupedInts+w.out), func(first, n int) {
		s.inColumns(n, 1, width, func(more, n int) {
			first := first + more
			dst, h, routing := rowsFrom(dst, first, n), rowsFrom(h, first, n), rowsFrom(routing, first, n)
			a.room = uint32(roomFor(n))
			chosen := quantised{x: h, count: used, n: w.in, stride: w.in}
			if shared != nil && shared.in == w.in {
				chosen.count = slots
			}
			s.quantiseTo(chosen, 0)
			offset := used * (chosen.bytes() / chosen.count)
			if shared != nil && shared.in != w.in {
				s.quantiseTo(quantised{x: h.Slice(used*w.in, shared.in), count: 1, n: shared.in}, offset)
			}
			g := s.groupChoices(routing, w, slots)
			k := forColumns(w.integer.expertsDown, g.tile)
			recordInteger(s, "experts_down", k.pipeline, grid{x: k.groups(w.out), y: g.count, simdgroups: k.simdgroups}, &a, dst,
				down, sharedDown, Binding{Buffer: s.integer.activations}, Binding{s.integer.activations, offset}, at(routing), g.choices, g.tiles, g.rest)
			by := weighChoicesArgs{uint32(w.out), uint32(used), uint32(slots), uint32(routing.Stride), uint32(dst.Stride)}
			record(s, "experts_add", w.integer.weigh, grid{x: (w.out + rowThreads - 1) / rowThreads, y: n, simdgroups: rowThreads / 32}, &by,
				g.rest, at(routing), at(dst))
		})
	})
}

// rowBytes returns the bytes of threadgroup memory for a row of n activations.
func rowBytes(n int) int { return (n/blockValues*rowBlockBytes + rowAlign - 1) / rowAlign * rowAlign }

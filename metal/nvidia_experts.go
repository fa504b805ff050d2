package metal

import (
	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
)

// nvidiaExperts has the kernels of Route, and the memory between Route and the operations of the
// experts.
type nvidiaExperts struct {
	routeRows, rowRoute, rowChoose Pipeline
	counters                       Buffer // counters of kernel route; all 0 between dispatches
	logits                         Buffer // logits of kernel row_route
	grouped                        groupedChoices
}

// The argument structs of choose.h, choose.cu and experts.h.
type (
	nvidiaRouteArgs struct {
		n, experts, rows, used, xStride, dstStride uint32
		sigmoid, normalise, biased                 uint32
		scale                                      float32
	}
	rowRouteArgs struct {
		n, experts, normThreads uint32
		eps                     float32
	}
	choicesArgs       struct{ rows, used, slots, experts, routingStride, tiles, tile uint32 }
	packedExpertsArgs struct {
		blocks, out, experts, used, slots, sharedBlocks, sharedOut, room, routingStride, dstStride uint32
	}
	rowGatedArgs struct {
		blocks, out, sharedOut uint32
		route                  nvidiaRouteArgs
	}
	rowExpertsArgs struct {
		blocks, out, slots, sharedBlocks, probabilities uint32
		route                                           nvidiaRouteArgs
	}
	weighChoicesArgs struct{ cols, used, slots, routingStride, dstStride uint32 }
)

const (
	logitRows   = 4     // rows per warp of kernel route
	counterRows = 16384 // maximum number of rows per dispatch of kernel route
	// maxNvidiaExperts is the maximum number of experts that fits into the threadgroup memory of
	// kernel route.
	maxNvidiaExperts = 1024
	// manyChoices is the minimum mean number of choices per expert for which tiles of 32 are faster
	// than tiles of 8.
	manyChoices = 12
	// expertScratch is the maximum number of bytes of scratch memory for the products of choices.
	expertScratch = 128 << 20
)

func (e *nvidiaExperts) compile(dev Device, mode Mode) error {
	return makePipelines(dev, mode, "choose.cu", map[string]*Pipeline{"route": &e.routeRows, "row_route": &e.rowRoute, "row_choose": &e.rowChoose})
}

func (e *nvidiaExperts) allocate(b *Backend) (err error) {
	if e.counters, err = b.newBuffer(4*counterRows/logitRows, Private, "allocate counters for the routing of experts"); err != nil {
		return err
	}
	e.logits, err = b.newBuffer(4*maxNvidiaExperts, Private, "allocate logits for the routing of experts")
	return err
}

func computesRoute(w *weight, shape compute.RouteShape) bool {
	return !shape.BiasLogits && w.kind == gguf.TypeF32 && shape.Experts <= maxNvidiaExperts && shape.Used <= maxUsedExperts
}

func (n *nvidia) route(op *operation) {
	if op.prior != nil {
		n.routeRow(op)
		return
	}
	router := n.inFloats(op.weights[0])
	if w := router.(*weight); computesRoute(w, op.route) {
		n.routeMany(op, w)
		return
	}
	have := n.quantised
	n.portable().Route(op.dst, op.x, router, op.bias, op.route)
	if op.dst.Buffer != have.x.Buffer { // the experts' first product reads the same activations as the router
		n.quantised = have
	}
}

func (n *nvidia) routeMany(op *operation, w *weight) {
	logits := Binding{Buffer: n.scratch.buffer}
	n.inParts(op.dst.Rows, op.route.Experts, func(from, rows int) {
		for first := from; first < from+rows; first += counterRows {
			count := min(counterRows, from+rows-first)
			dst := rowsFrom(op.dst, first, count)
			a := routeArgsOf(op, dst.Rows)
			g := grid{x: (op.route.Experts + 3) / 4, y: (count + logitRows - 1) / logitRows, simdgroups: 4, shared: 8 * logitRows * op.route.Experts}
			recordFor(n, "route", n.routeRows, g, &a, op.dst,
				Binding{Buffer: w.buffer}, bind(op.bias, logits), at(rowsFrom(op.x, first, count)), logits, Binding{Buffer: n.counters}, at(dst))
		}
	})
	n.grouped = groupedChoices{} // the logits have overwritten the grouped choices in scratch memory
}

// routeRow records the logits of a row's routing, together with the RMSNorm that makes the row. It
// also quantises the row. It records the choice of the experts too, unless the next operation's
// kernel makes it.
func (n *nvidia) routeRow(op *operation) {
	const simdgroups = 8 // each computes the logit of an expert
	w, norm := weightOf(op.weights[0]), op.prior
	a := rowRouteArgs{uint32(w.in), uint32(op.route.Experts), uint32(norm.normThreads()), norm.eps}
	g := grid{x: (op.route.Experts + simdgroups - 1) / simdgroups, y: 1, simdgroups: simdgroups, shared: 4 * w.in}
	logits := Binding{Buffer: n.logits}
	n.forget()
	record(n.step, "route", n.rowRoute, g, &a, Binding{Buffer: w.buffer}, at(norm.x), bind(norm.gain, logits), at(op.x), Binding{Buffer: n.activations}, logits)
	n.quantised = quantisedRows(op.x.Head(1), w.in)
	if !op.continued {
		n.forget()
		choose := routeArgsOf(op, 1)
		record(n.step, "route", n.rowChoose, grid{x: 1, y: 1, simdgroups: 1, shared: choiceBytes(op.route)}, &choose, logits, bind(op.bias, logits), at(op.dst))
	}
}

// choiceBytes returns the threadgroup memory for the choice of a row's experts: two floats per
// expert.
func choiceBytes(shape compute.RouteShape) int { return 8 * shape.Experts }

func routeArgsOf(op *operation, rows int) nvidiaRouteArgs {
	return nvidiaRouteArgs{
		uint32(weightOf(op.weights[0]).in), uint32(op.route.Experts), uint32(rows), uint32(op.route.Used), uint32(op.x.Stride), uint32(op.dst.Stride),
		flag(op.route.Gating == compute.GatingSigmoid), flag(op.route.Normalise), flag(op.bias != nil), op.route.Scale,
	}
}

// groupedChoices is a routing sorted by expert, at the beginning of scratch memory.
type groupedChoices struct {
	routing              compute.Tensor
	slots                int     // choices per row, including the choice of the shared experts
	tile                 int     // maximum number of choices per tile
	choices, tiles, rest Binding // rest is the scratch memory after choices and tiles
	count                int     // number of tiles; some can be empty
}

func tileOf(rows, used, experts int) int {
	if rows*used >= manyChoices*experts {
		return 32
	}
	return 8
}

// groupChoices records the grouping of a routing by expert. It records nothing if scratch memory
// already holds that grouping. slots is the number of choices per row, including the choice of the
// shared experts.
func (n *nvidia) groupChoices(routing compute.Tensor, w *packedWeight, slots int) groupedChoices {
	used := routing.Cols / 2
	g := groupedChoices{routing: routing, slots: slots, tile: tileOf(routing.Rows, used, w.matrices)}
	if have := n.grouped; have.routing == routing && have.slots == slots && have.tile == g.tile {
		return have
	}
	choices := (routing.Rows*slots + 3) &^ 3
	g.count = min(choices/g.tile+w.matrices+1, choices)
	g.choices.Buffer, g.tiles.Buffer, g.rest.Buffer = n.scratch.buffer, n.scratch.buffer, n.scratch.buffer
	g.tiles.Offset, g.rest.Offset = 4*choices, 4*groupedInts*choices
	a := choicesArgs{
		uint32(routing.Rows), uint32(used), uint32(slots), uint32(w.matrices), uint32(routing.Stride), uint32(g.count), uint32(g.tile),
	}
	const simdgroups = 8
	recordFor(n, "group_experts", w.packed.group, grid{x: w.matrices + 1, y: 1, simdgroups: simdgroups, shared: 4 * (w.matrices + 1)}, &a, compute.Tensor{},
		at(routing), g.choices, g.tiles)
	n.grouped = g
	return g
}

// packedExperts returns the gate weight of GatedExperts if NVIDIA's kernels compute the operation.
// They support no biases and no activation but SiLU.
func (op *operation) packedExperts() (*packedWeight, bool) {
	w, packed := op.experts.Gate.(*packedWeight)
	return w, packed && op.experts.GateBias == nil && op.experts.Activation == compute.SiLU
}

func (n *nvidia) gatedExperts(op *operation) {
	w, packed := op.packedExperts()
	if !packed {
		n.portableGatedExperts(op)
		return
	}
	e, used := &op.experts, op.routing.Cols/2
	shared, separate := sharedOf(&w.weight, e.SharedGate, e.SharedUp)
	a := packedExpertsArgs{
		blocks: uint32(w.in / blockValues), out: uint32(w.out), experts: uint32(w.matrices), used: uint32(used), slots: uint32(used),
		routingStride: uint32(op.routing.Stride), dstStride: uint32(op.dst.Stride),
	}
	gate, up := Binding{Buffer: w.buffer}, bind(e.Up, Binding{})
	weights := [4]Binding{gate, up, gate, up}
	if shared != nil {
		a.slots++
		a.sharedOut = uint32(shared.out)
		weights[2], weights[3] = bind(e.SharedGate, gate), bind(e.SharedUp, up)
	}
	if op.prior != nil {
		n.gatedRow(op, w, &a, weights)
	} else {
		n.gatedChoices(op, w, &a, weights)
	}
	if separate {
		n.gatedMatMul(op.dst.Slice(used*w.out, weightOf(e.SharedGate).out), op.x, e.SharedGate, e.SharedUp, e.Activation)
	}
}

func (n *nvidia) portableGatedExperts(op *operation) {
	e := op.experts
	e.Gate, e.Up = n.inFloats(e.Gate), n.inFloats(e.Up)
	separate := isPacked(e.SharedGate) || isPacked(e.SharedUp)
	if separate {
		e.SharedGate, e.SharedUp = nil, nil
	}
	n.portable().GatedExperts(op.dst, op.x, op.routing, e)
	if separate {
		gate := weightOf(op.experts.SharedGate)
		n.gatedMatMul(op.dst.Slice(op.routing.Cols/2*weightOf(e.Gate).out, gate.out), op.x, op.experts.SharedGate, op.experts.SharedUp, e.Activation)
	}
}

func isPacked(w compute.Weight) bool {
	_, packed := w.(*packedWeight)
	return packed
}

// gatedMemory returns the threadgroup memory of row_gated_experts, without that for the choice of
// the experts.
func (k packedKernel) gatedMemory(w *packedWeight) int {
	return rowBytes(w.in) + 2*k.rows()/groupRows*groupBytes(&w.weight)
}

// gatedRow is gatedExperts for one row, with the choice of the experts by the logits of the routing
// before it.
func (n *nvidia) gatedRow(op *operation, w *packedWeight, a *packedExpertsArgs, weights [4]Binding) {
	n.quantise(quantisedRows(op.x, w.in))
	k, route, logits := w.packed.rowGated, op.prior, Binding{Buffer: n.logits}
	row := rowGatedArgs{a.blocks, a.out, a.sharedOut, routeArgsOf(route, 1)}
	g := grid{x: k.groups(int(max(a.out, a.sharedOut))), y: int(a.slots), simdgroups: k.simdgroups(), shared: k.gatedMemory(w) + choiceBytes(route.route)}
	recordFor(n, "gated_experts", k.pipeline, g, &row, op.dst, weights[0], weights[1], weights[2], weights[3], Binding{Buffer: n.activations}, logits,
		bind(route.bias, logits), at(op.routing), at(op.dst))
}

func (n *nvidia) gatedChoices(op *operation, w *packedWeight, a *packedExpertsArgs, weights [4]Binding) {
	slots, widest := int(a.slots), int(max(a.out, a.sharedOut))
	n.inParts(op.dst.Rows, slots*groupedInts, func(first, rows int) {
		n.inColumns(rows, 1, w.in, func(more, rows int) {
			first := first + more
			dst, routing := rowsFrom(op.dst, first, rows), rowsFrom(op.routing, first, rows)
			n.quantise(quantisedRows(rowsFrom(op.x, first, rows), w.in))
			g := n.groupChoices(routing, w, slots)
			k := forColumns(w.packed.gatedExperts, g.tile)
			recordFor(n, "gated_experts", k.pipeline, grid{x: k.groups(widest), y: g.count, simdgroups: k.simdgroups()}, a, dst,
				weights[0], weights[1], weights[2], weights[3], Binding{Buffer: n.activations}, at(routing), g.choices, g.tiles, at(dst))
		})
	})
}

// downWeights are the weights of an ExpertsAdd. shared is nil if the shared experts have a separate
// dispatch, or if there are none.
type downWeights struct {
	*packedWeight
	shared *weight
	used   int // routed experts per row
}

// choices returns the number of choices per row, including the choice of the shared experts.
func (d downWeights) choices() int {
	if d.shared != nil {
		return d.used + 1
	}
	return d.used
}

// rowMemory returns the threadgroup memory of row_experts_add, without that for the choice of the
// experts.
func (d downWeights) rowMemory() int {
	bytes := d.used * (rowBytes(d.in) + groupBytes(&d.weight))
	if d.shared != nil {
		bytes += rowBytes(d.shared.in) + groupBytes(d.shared)
	}
	return max(bytes, d.choices()*rowPartBytes)
}

func (n *nvidia) expertsAdd(op *operation) {
	d, separate, packed := op.downWeights()
	if !packed {
		n.portableExpertsAdd(op)
		return
	}
	if op.prior != nil {
		n.downRow(op, d)
	} else {
		n.downChoices(op, d)
	}
	if separate {
		shared := op.experts.SharedDown
		n.matMulAdd(op.dst, op.x.Slice(d.used*d.in, weightOf(shared).in), []compute.Weight{shared}, nil)
	}
}

// downWeights returns the weights of an ExpertsAdd. separate reports whether the shared experts
// have a separate dispatch, packed whether NVIDIA's kernels compute the operation.
func (op *operation) downWeights() (d downWeights, separate, packed bool) {
	w, packed := op.experts.Down.(*packedWeight)
	if !packed || op.experts.DownBias != nil {
		return downWeights{}, false, false
	}
	shared, separate := sharedOf(&w.weight, op.experts.SharedDown)
	return downWeights{w, shared, op.routing.Cols / 2}, separate, true
}

func (n *nvidia) portableExpertsAdd(op *operation) {
	e := op.experts
	if e.DownBias != nil {
		e.Down = n.inFloats(e.Down)
	}
	shared := e.SharedDown
	if isPacked(shared) {
		e.SharedDown = nil
	}
	n.portable().ExpertsAdd(op.dst, op.x, op.routing, e)
	if isPacked(shared) {
		n.matMulAdd(op.dst, op.x.Slice(op.routing.Cols/2*weightOf(e.Down).in, weightOf(shared).in), []compute.Weight{shared}, nil)
	}
}

func (d downWeights) bindings() (down, shared Binding) {
	down.Buffer, shared.Buffer = d.buffer, d.buffer
	if d.shared != nil {
		shared.Buffer = d.shared.buffer
	}
	return down, shared
}

func (d downWeights) sharedBlocks() uint32 {
	if d.shared == nil {
		return 0
	}
	return uint32(d.shared.in / blockValues)
}

// downRow is expertsAdd for one row. Its kernel makes the choice of the experts again.
func (n *nvidia) downRow(op *operation, d downWeights) {
	k, route, logits, bytes := d.packed.rowExperts, op.prior.prior, Binding{Buffer: n.logits}, d.rowMemory()
	row := rowExpertsArgs{uint32(d.in / blockValues), uint32(d.out), uint32(d.choices()), d.sharedBlocks(), uint32(bytes), routeArgsOf(route, 1)}
	g := grid{x: k.groups(d.out), y: 1, simdgroups: k.simdgroups() * d.choices(), shared: bytes + choiceBytes(route.route)}
	down, shared := d.bindings()
	recordFor(n, "experts_add", k.pipeline, g, &row, op.dst, down, shared, at(op.x), logits, bind(route.bias, logits), at(op.dst))
}

// downChoices is expertsAdd for any number of rows. It writes the products of all choices to
// scratch memory and then adds them.
func (n *nvidia) downChoices(op *operation, d downWeights) {
	used, slots, width := d.used, d.choices(), d.used*d.in
	a := packedExpertsArgs{
		blocks: uint32(d.in / blockValues), out: uint32(d.out), experts: uint32(d.matrices), used: uint32(used), slots: uint32(slots),
		sharedBlocks: d.sharedBlocks(), routingStride: uint32(op.routing.Stride), dstStride: uint32(op.dst.Stride),
	}
	if d.shared != nil {
		width += d.shared.in
	}
	down, shared := d.bindings()
	n.inParts(op.dst.Rows, slots*(groupedInts+d.out), func(first, rows int) {
		n.inColumns(rows, 1, width, func(more, rows int) {
			first := first + more
			dst, h, routing := rowsFrom(op.dst, first, rows), rowsFrom(op.x, first, rows), rowsFrom(op.routing, first, rows)
			a.room = uint32(roomFor(rows))
			offset := n.quantiseChoices(h, d)
			g := n.groupChoices(routing, d.packedWeight, slots)
			k := forColumns(d.packed.expertsDown, g.tile)
			recordFor(n, "experts_down", k.pipeline, grid{x: k.groups(d.out), y: g.count, simdgroups: k.simdgroups()}, &a, dst,
				down, shared, Binding{Buffer: n.activations}, Binding{n.activations, offset}, at(routing), g.choices, g.tiles, g.rest)
			by := weighChoicesArgs{uint32(d.out), uint32(used), uint32(slots), uint32(routing.Stride), uint32(dst.Stride)}
			n.forget()
			record(n.step, "experts_add", d.packed.weigh, grid{x: (d.out + rowThreads - 1) / rowThreads, y: rows, simdgroups: rowThreads / 32}, &by,
				g.rest, at(routing), at(dst))
		})
	})
}

// quantiseChoices quantises the activations of all choices. It returns the offset of those of the
// shared experts.
func (n *nvidia) quantiseChoices(h compute.Tensor, d downWeights) (offset int) {
	q := quantisedSlices(h, d.used, d.in, d.in)
	separate := d.shared != nil && d.shared.in != d.in
	if d.shared != nil && !separate {
		q.count++
	}
	n.quantiseTo(q, 0)
	offset = d.used * (q.bytes() / q.count)
	if separate {
		n.quantiseTo(quantisedSlices(h.Slice(d.used*d.in, d.shared.in), 1, d.shared.in, 0), offset)
	}
	return offset
}

func rowBytes(n int) int { return (n/blockValues*rowBlockBytes + rowAlign - 1) / rowAlign * rowAlign }

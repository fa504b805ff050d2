package metal

import "github.com/ingot-run/ingot/engine/compute"

// nvidiaExperts has the kernels of Route, and the memory between Route and the operations of the
// experts.
type nvidiaExperts struct {
	routeOne, routeFew, routeMany, chooseRows, rowRoute, rowChoose, normRoute Pipeline

	logits  Buffer // [rows, experts] logits of kernels row_route and norm_route, at most fewLogits
	grouped groupedChoices
}

// The argument structs of experts.h.
type (
	choicesArgs       struct{ rows, used, slots, experts, routingStride, tiles, tile uint32 }
	packedExpertsArgs struct {
		blocks, out, experts, used, slots, sharedBlocks, sharedOut, room, routingStride, dstStride, activation, biased, quantised, gated, gateStride uint32
	}
	rowGatedArgs struct {
		blocks, out, sharedOut, activation, biased uint32
		downBytes, sharedDownBytes                 uint32
		route                                      nvidiaRouteArgs
	}
	rowExpertsArgs struct {
		blocks, out, slots, sharedBlocks, probabilities, biased uint32
		route                                                   nvidiaRouteArgs
	}
	weighChoicesArgs struct{ cols, used, slots, routingStride, dstStride uint32 }
)

const (
	// manyChoices is the minimum mean number of choices per expert for which tiles of 32 are faster
	// than tiles of 8, and mostChoices that for which tiles of 64 are. warpgroupChoices is that for
	// tiles of 128, which Hopper has.
	manyChoices, mostChoices, warpgroupChoices = 12, 40, 80
	// expertScratch is the maximum number of bytes of scratch memory for the products of choices.
	expertScratch = 128 << 20
)

func (e *nvidiaExperts) compile(dev Device, mode Mode) error {
	return makeFilePipelines(dev, mode, "choose.cu", map[string]*Pipeline{
		"route_one": &e.routeOne, "route_few": &e.routeFew, "route_many": &e.routeMany, "choose_rows": &e.chooseRows, "row_route": &e.rowRoute, "row_choose": &e.rowChoose,
		"norm_route_2": &e.normRoute,
	})
}

func (e *nvidiaExperts) allocate(b *Backend) (err error) {
	e.logits, err = b.newBuffer(4*fewLogits, Private, "allocate logits for the routing of experts")
	return err
}

// groupedChoices is a routing sorted by expert, at the beginning of scratch memory.
type groupedChoices struct {
	grouped
	key     groupingKey
	version int // version of scratch memory
}

// groupingKey identifies what is grouped and how.
type groupingKey struct {
	routing compute.Tensor
	version int // version of the routing's memory
	slots   int // choices per row, including the choice of the shared experts
	tile    int // maximum number of choices per tile
}

func (n *nvidia) tileOf(rows, used, experts int) int {
	switch from := n.tiles[ExpertGatedTile].rows; {
	case n.hopper && (from > 0 && rows >= from || rows*used >= warpgroupChoices*experts):
		return 128
	case rows*used >= mostChoices*experts:
		return 64
	case from > 0 && rows >= from || rows*used >= manyChoices*experts:
		return 32
	default:
		return 8
	}
}

// groupChoices records the grouping of a routing by expert. It records nothing if scratch memory
// already holds that grouping. slots is the number of choices per row, including the choice of the
// shared experts.
func (n *nvidia) groupChoices(routing compute.Tensor, w *packedWeight, slots int) groupedChoices {
	used := routing.Cols / 2
	key := groupingKey{routing, routing.Buffer.(*memory).version, slots, n.tileOf(routing.Rows, used, w.matrices)}
	if n.grouped.key == key && n.grouped.version == n.scratch.version {
		return n.grouped
	}
	g, choices := groupedChoices{key: key}, (routing.Rows*slots+3)&^3
	g.count = min(choices/key.tile+w.matrices+1, choices)
	g.layOut(&n.scratch, choices)
	g.version = n.scratch.version
	a := choicesArgs{
		rows: uint32(routing.Rows), used: uint32(used), slots: uint32(slots), experts: uint32(w.matrices), routingStride: uint32(routing.Stride),
		tiles: uint32(g.count), tile: uint32(key.tile),
	}
	const simdgroups = 8
	record(n.step, "group_experts", w.packed.group, grid{x: w.matrices + 1, y: 1, simdgroups: simdgroups, shared: 4 * (w.matrices + 1)}, &a,
		at(routing), g.choices, g.tiles)
	n.grouped = g
	return g
}

func (o *gatedExperts) nvidia(n *nvidia) {
	e, used := &o.experts, o.used()
	w, packed := e.Gate.(*packedWeight)
	if !packed {
		n.portableGatedExperts(o)
		return
	}
	shared, separate := packedShared(w, e.SharedGate, e.SharedUp)
	a := packedExpertsArgs{
		blocks: uint32(w.activationBlocks()), out: uint32(w.out), experts: uint32(w.matrices), used: uint32(used), slots: uint32(used),
		routingStride: uint32(o.routing.Stride), dstStride: uint32(o.dst.Stride), activation: uint32(e.Activation), biased: flag(e.GateBias != nil),
	}
	gate, up := Binding{Buffer: w.buffer}, bind(e.Up, Binding{})
	weights := [4]Binding{gate, up, gate, up}
	if shared != nil {
		a.slots++
		a.sharedOut = uint32(shared.out)
		weights[2], weights[3] = bind(e.SharedGate, gate), bind(e.SharedUp, up)
	}
	if o.gate != nil {
		a.gated, a.gateStride = 1, uint32(o.gate.gate.Stride)
	}
	if o.prior != nil {
		n.gatedRow(o, o.prior.(*route), w, &a, weights)
	} else {
		n.gatedChoices(o, w, &a, weights)
	}
	if separate {
		shared := o.shared()
		shared.nvidia(n)
	}
}

// packedShared is sharedOf for packed weights.
func packedShared(w *packedWeight, shared ...compute.Weight) (together *weight, separate bool) {
	for _, s := range shared {
		if s != nil && !isPacked(s) {
			return nil, true
		}
	}
	return sharedOf(&w.weight, shared...)
}

// portableGatedExperts records experts whose weights are not packed.
func (n *nvidia) portableGatedExperts(o *gatedExperts) {
	e, plain := &o.experts, *o
	separate := isPacked(e.SharedGate) || isPacked(e.SharedUp)
	if separate {
		plain.experts.SharedGate, plain.experts.SharedUp = nil, nil
	}
	plain.portable(n.general)
	if separate {
		shared := o.shared()
		shared.nvidia(n)
	}
}

func isPacked(w compute.Weight) bool {
	_, packed := w.(*packedWeight)
	return packed
}

// gatedMemory returns the threadgroup memory of row_gated_experts, without that for the choice of
// the experts: that of its strands, as in streamed.h.
func (k packedKernel) gatedMemory(w *packedWeight) int {
	size, parts := packedSizes[w.kind], partsOf(w.kind)
	longest := (w.activationBlocks() + strands - 1) / strands
	room := longest
	if parts > 1 {
		room = longest/parts + 1
	}
	bytes := room * size.block
	if size.header > 0 {
		bytes += ((room+size.blocks-2)/size.blocks + 1) * size.header
	}
	return strands * (longest*rowBlockBytes + k.algorithm.groups()*bytes)
}

// gatedRow records the experts of one row. Its kernel also makes the choice of the experts, by the
// logits of the routing.
func (n *nvidia) gatedRow(o *gatedExperts, choice *route, w *packedWeight, a *packedExpertsArgs, weights [4]Binding) {
	n.quantise(quantisedRows(o.x, w.in, partsOf(w.kind)))
	k, logits := w.packed.rowGated, Binding{Buffer: n.logits}
	row := rowGatedArgs{blocks: a.blocks, out: a.out, sharedOut: a.sharedOut, activation: a.activation, biased: a.biased, route: choice.args(1)}
	down, sharedDown := weights[0], weights[0]
	if d, ok := o.experts.Down.(*packedWeight); ok {
		down.Buffer, row.downBytes = d.buffer, uint32(packedBytes(&d.weight)/d.matrices)
	}
	if d, ok := o.experts.SharedDown.(*packedWeight); ok {
		sharedDown.Buffer, row.sharedDownBytes = d.buffer, uint32(packedBytes(&d.weight))
	}
	g := grid{x: k.groups(int(max(a.out, a.sharedOut))), y: int(a.slots), simdgroups: k.simdgroups(), shared: k.gatedMemory(w) + choiceBytes(choice.shape)}
	record(n.step, "gated_experts", k.pipeline, g, &row, weights[0], weights[1], weights[2], weights[3], n.held(), logits,
		bind(choice.bias, logits), bind(o.experts.GateBias, logits), bind(o.experts.UpBias, logits), down, sharedDown, o.gates(0, 1, logits), into(o.routing), into(o.dst))
}

// gates returns the gates of the shared experts of the rows [from, to), or fallback if the kernel
// reads none.
func (o *gatedExperts) gates(from, to int, fallback Binding) Binding {
	if o.gate == nil {
		return fallback
	}
	return at(o.gate.gate.Span(from, to))
}

func (n *nvidia) gatedChoices(o *gatedExperts, w *packedWeight, a *packedExpertsArgs, weights [4]Binding) {
	slots, widest := int(a.slots), int(max(a.out, a.sharedOut))
	n.inParts(o.dst.Rows, slots*groupedInts, func(from, to int) {
		n.inColumns(from, to, 1, w.in, partsOf(w.kind), func(from, to int) {
			routing := o.routing.Span(from, to)
			n.quantise(quantisedRows(o.x.Span(from, to), w.in, partsOf(w.kind)))
			g := n.groupChoices(routing, w, slots)
			k := n.fetches(w.packed.fetchedExperts, n.forColumns(w.packed.gatedExperts, g.key.tile), g.key.tile, to-from, &w.weight, nil)
			a.room = uint32(roomFor(to - from))
			x, dst := n.held(), into(o.dst.Span(from, to))
			packed := n.result(&o.fusion, &a.quantised, quantisedSlices(o.dst.Span(from, to), slots, w.out, w.out, 1))
			record(n.step, "gated_experts", k.pipeline, grid{x: k.groups(widest), y: g.count, simdgroups: k.simdgroups(), shared: k.memory(&w.weight, nil)}, a,
				weights[0], weights[1], weights[2], weights[3], x, at(routing), g.choices, g.tiles,
				bind(o.experts.GateBias, weights[0]), bind(o.experts.UpBias, weights[0]), o.gates(from, to, weights[0]), dst, packed)
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
	bytes := d.used * (rowBytes(&d.weight) + groupBytes(&d.weight))
	if d.shared != nil {
		bytes += rowBytes(d.shared) + groupBytes(d.shared)
	}
	return max(bytes, d.choices()*rowPartBytes)
}

func (o *expertsAdd) nvidia(n *nvidia) {
	d, separate, packed := o.downWeights()
	switch {
	case !packed:
		n.portableExpertsAdd(o)
	case o.prior != nil:
		n.downRow(o, d, o.prior.(*gatedExperts).prior.(*route))
	default:
		n.downChoices(o, d)
	}
	if packed && separate {
		shared := o.shared()
		shared.nvidia(n)
	}
}

// downWeights returns the weights of an ExpertsAdd. separate reports whether the shared experts
// have a separate dispatch, packed whether NVIDIA's kernels compute the operation.
func (o *expertsAdd) downWeights() (d downWeights, separate, packed bool) {
	w, packed := o.experts.Down.(*packedWeight)
	if !packed {
		return downWeights{}, false, false
	}
	shared, separate := packedShared(w, o.experts.SharedDown)
	return downWeights{w, shared, o.used()}, separate, true
}

// portableExpertsAdd records experts whose weights are not packed.
func (n *nvidia) portableExpertsAdd(o *expertsAdd) {
	plain, separate := *o, isPacked(o.experts.SharedDown)
	if separate {
		plain.experts.SharedDown = nil
	}
	plain.portable(n.general)
	if separate {
		shared := o.shared()
		shared.nvidia(n)
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
	return uint32(d.shared.activationBlocks())
}

// downRow records the experts of one row. Its kernel makes the choice of the experts again.
func (n *nvidia) downRow(o *expertsAdd, d downWeights, choice *route) {
	k, logits, bytes := d.packed.rowExperts, Binding{Buffer: n.logits}, d.rowMemory()
	if d.choices() <= fewRowChoices {
		k = d.packed.rowExpertsFew
	}
	row := rowExpertsArgs{
		blocks: uint32(d.activationBlocks()), out: uint32(d.out), slots: uint32(d.choices()), sharedBlocks: d.sharedBlocks(), probabilities: uint32(bytes),
		biased: flag(o.experts.DownBias != nil), route: choice.args(1),
	}
	g := grid{x: k.groups(d.out), y: 1, simdgroups: k.simdgroups() * d.choices(), shared: bytes + choiceBytes(choice.shape)}
	down, shared := d.bindings()
	record(n.step, "experts_add", k.pipeline, g, &row, down, shared, at(o.h), logits, bind(choice.bias, logits), bind(o.experts.DownBias, logits), into(o.dst))
}

// downChoices records the experts of any number of rows. It writes the products of all choices to
// scratch memory and then adds them.
func (n *nvidia) downChoices(o *expertsAdd, d downWeights) {
	used, slots, width := d.used, d.choices(), d.used*d.in
	a := packedExpertsArgs{
		blocks: uint32(d.activationBlocks()), out: uint32(d.out), experts: uint32(d.matrices), used: uint32(used), slots: uint32(slots),
		sharedBlocks: d.sharedBlocks(), routingStride: uint32(o.routing.Stride), dstStride: uint32(o.dst.Stride), biased: flag(o.experts.DownBias != nil),
	}
	if d.shared != nil {
		width += d.shared.in
	}
	by := weighChoicesArgs{cols: a.out, used: a.used, slots: a.slots, routingStride: a.routingStride, dstStride: a.dstStride}
	down, shared := d.bindings()
	n.inParts(o.dst.Rows, slots*(groupedInts+d.out), func(from, to int) {
		n.inColumns(from, to, 1, width, partsOf(d.kind), func(from, to int) {
			routing := o.routing.Span(from, to)
			a.room = uint32(roomFor(to - from))
			sharedRows := n.quantiseChoices(o.h.Span(from, to), d)
			g := n.groupChoices(routing, d.packedWeight, slots)
			k := n.fetches(d.packed.fetchedDown, n.forColumns(d.packed.expertsDown, g.key.tile), g.key.tile, to-from, &d.weight, d.shared)
			record(n.step, "experts_down", k.pipeline, grid{x: k.groups(d.out), y: g.count, simdgroups: k.simdgroups(), shared: k.memory(&d.weight, d.shared)}, &a,
				down, shared, n.held(), sharedRows, at(routing), g.choices, g.tiles,
				bind(o.experts.DownBias, down), g.rest)
			record(n.step, "experts_add", d.packed.weigh, perLane(d.out, to-from), &by, g.rest, at(routing), into(o.dst.Span(from, to)))
		})
	})
}

// quantiseChoices quantises the activations of all choices. It returns those of the shared experts.
func (n *nvidia) quantiseChoices(h compute.Tensor, d downWeights) (shared Binding) {
	q := quantisedSlices(h, d.used, d.in, d.in, partsOf(d.kind))
	separate := d.shared != nil && d.shared.in != d.in
	if d.shared != nil && !separate {
		q.count++
	}
	n.quantise(q)
	shared = n.held()
	shared.Offset += d.used * (q.bytes() / q.count)
	if separate {
		n.quantiseTo(quantisedSlices(h.Slice(d.used*d.in, d.shared.in), 1, d.shared.in, 0, q.parts), shared.Offset)
	}
	return shared
}

// rowBytes returns the threadgroup memory of a row of activations for a weight.
func rowBytes(w *weight) int { return w.activationBlocks() * rowBlockBytes }

package metal

import (
	"fmt"

	"github.com/ingot-run/ingot/engine/compute"
)

// quantised identifies quantised activations: count slices of values of each row of x. The starts
// of two slices are stride values apart. x has no columns, since only the slices count. version is
// that of x's memory.
type quantised struct {
	x                                     compute.Tensor
	count, values, stride, parts, version int
}

// quantisedRows are rows that are quantised in the given number of parts.
func quantisedRows(x compute.Tensor, values, parts int) quantised {
	return quantisedSlices(x, 1, values, 0, parts)
}

func quantisedSlices(x compute.Tensor, count, values, stride, parts int) quantised {
	x.Cols = 0
	return quantised{x, count, values, stride, parts, x.Buffer.(*memory).version}
}

func (q *quantised) room() int { return roomFor(q.x.Rows) }

func (q *quantised) bytes() int {
	return q.count * q.room() / columnRows * (q.values / blockValues * q.parts) * columnBytes
}

type quantiseArgs struct{ blocks, rows, room, xStride, xSlice, parts uint32 }

// quantise records a quantisation, unless the buffer of activations already holds its result.
func (n *nvidia) quantise(q quantised) {
	if q != n.quantised {
		n.quantiseTo(q, 0)
		n.hold(q, 0)
	}
}

// hold notes that the buffer of activations holds q, from an offset on.
func (n *nvidia) hold(q quantised, offset int) { n.quantised, n.quantisedAt = q, offset }

// held returns the binding of what the buffer of activations holds.
func (n *nvidia) held() Binding { return Binding{n.activations.buffer, n.quantisedAt} }

// result returns where a kernel that reads quantised rows also writes its own result, quantised as
// q, and sets the kernel's argument to 1. The argument is 0 if fuse did not ask for the result, or
// if there is no room for it.
func (n *nvidia) result(f *fusion, argument *uint32, q quantised) Binding {
	after := n.quantisedAt + n.quantised.bytes()
	*argument = flag(f.quantises)
	switch {
	case !f.quantises:
	case after+q.bytes() <= n.activations.bytes:
		n.hold(q, after)
	case q.bytes() <= n.quantisedAt:
		n.hold(q, 0)
	default:
		*argument = 0
	}
	return n.held()
}

// quantiseTo records a quantisation to an offset in the buffer of activations.
func (n *nvidia) quantiseTo(q quantised, offset int) {
	if offset+q.bytes() > n.activations.bytes {
		n.fail(fmt.Errorf("quantise %d rows of %d slices of %d values: the quantised activations need %d bytes, but their buffer has %d",
			q.x.Rows, q.count, q.values, offset+q.bytes(), n.activations.bytes))
		return
	}
	blocks := q.values / blockValues
	a := quantiseArgs{blocks: uint32(blocks), rows: uint32(q.x.Rows), room: uint32(q.room()), xStride: uint32(q.x.Stride), xSlice: uint32(q.stride), parts: uint32(q.parts)}
	g := perLane(4*blocks*q.x.Rows, 1)
	g.z = q.count
	record(n.step, "quantise", n.anyType.quantise, g, &a, at(q.x), Binding{n.activations.buffer, offset})
	n.hold(quantised{}, 0)
}

// perLane returns the grid of a kernel without a geometry that has the given number of lanes.
func perLane(lanes, y int) grid {
	return grid{x: (lanes + rowThreads - 1) / rowThreads, y: y, simdgroups: rowThreads / 32}
}

// inColumns records an operation on the rows [from, to) in parts. Each part has as many rows as fit
// into the buffer of activations, quantised in some parts. A row has count slices of the given
// number of values.
func (n *nvidia) inColumns(from, to, count, values, quantisedParts int, op func(from, to int)) {
	each := count * values / blockValues * quantisedParts * columnBytes
	limit := n.activations.bytes / each * columnRows
	if limit == 0 {
		n.fail(fmt.Errorf("quantise a row of %d slices of %d values: the quantised activations need %d bytes, but their buffer has %d", count, values, each, n.activations.bytes))
		return
	}
	parts(from, to, limit, op)
}

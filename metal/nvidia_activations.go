package metal

import (
	"fmt"

	"github.com/ingot-run/ingot/engine/compute"
)

// quantised identifies quantised activations: count slices of values of each row of x. The starts
// of two slices are stride values apart. x has no columns, since only the slices count.
type quantised struct {
	x                     compute.Tensor
	count, values, stride int
}

func quantisedRows(x compute.Tensor, values int) quantised { return quantisedSlices(x, 1, values, 0) }

func quantisedSlices(x compute.Tensor, count, values, stride int) quantised {
	x.Cols = 0
	return quantised{x, count, values, stride}
}

func (q *quantised) room() int { return roomFor(q.x.Rows) }

func (q *quantised) bytes() int {
	return q.count * q.room() / columnRows * (q.values / blockValues) * columnBytes
}

type quantiseArgs struct{ blocks, rows, room, xStride, xSlice uint32 }

// quantise records a quantisation, unless the buffer of activations already holds its result.
func (n *nvidia) quantise(q quantised) {
	if q != n.quantised {
		n.quantiseTo(q, 0)
		n.quantised = q
	}
}

// quantiseTo records a quantisation to an offset in the buffer of activations.
func (n *nvidia) quantiseTo(q quantised, offset int) {
	if offset+q.bytes() > n.activationsBytes {
		n.fail(fmt.Errorf("quantise %d rows of %d slices of %d values: the quantised activations need %d bytes, but their buffer has %d",
			q.x.Rows, q.count, q.values, offset+q.bytes(), n.activationsBytes))
		return
	}
	a := quantiseArgs{uint32(q.values / blockValues), uint32(q.x.Rows), uint32(q.room()), uint32(q.x.Stride), uint32(q.stride)}
	lanes := 4 * q.values / blockValues * q.x.Rows
	recordFor(n, "quantise", n.shared.quantise, grid{x: (lanes + rowThreads - 1) / rowThreads, y: 1, z: q.count, simdgroups: rowThreads / 32}, &a,
		compute.Tensor{}, at(q.x), Binding{n.activations, offset})
	n.quantised = quantised{}
}

// inColumns records an operation in parts. Each part has as many rows as fit into the buffer of
// activations. A row has count slices of the given number of values.
func (n *nvidia) inColumns(rows, count, values int, op func(first, rows int)) {
	each := count * values / blockValues * columnBytes
	limit := n.activationsBytes / each * columnRows
	if limit == 0 {
		n.fail(fmt.Errorf("quantise a row of %d slices of %d values: the quantised activations need %d bytes, but their buffer has %d", count, values, each, n.activationsBytes))
		return
	}
	for first := 0; first < rows; first += limit {
		op(first, min(limit, rows-first))
	}
}

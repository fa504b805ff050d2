package metal

import (
	"fmt"

	"github.com/ingot-run/ingot/engine/compute"
)

// scratch is device memory for intermediate results of an operation, such as splits of attention
// that are not joined yet. It is allocated while models are loaded, and all operations share it. If
// it has no room for all rows of an operation, the operation is done in parts.
type scratch struct {
	memory
	bytes int
}

const (
	// maxScratch is the maximum number of bytes of scratch memory for products.
	maxScratch = 32 << 20
	// maxSplitBytes is the maximum number of bytes of scratch memory for attention. Attention that
	// needs more is not split.
	maxSplitBytes = 64 << 20

	aligned     = 16  // additional floats, so that each part can begin at a multiple of 16 bytes
	scratchRows = 512 // number of rows for which there is room, if maxScratch allows it
	scratchUsed = 8   // number of experts per row for which there is room, if maxScratch allows it
)

// reserve makes sure that the scratch memory has at least the given number of bytes. No step may be
// in flight.
func (b *Backend) reserve(bytes int) error {
	if bytes <= b.scratch.bytes {
		return nil
	}
	made, err := b.newBuffer(bytes, Private, "allocate scratch memory")
	if err != nil {
		return err
	}
	if b.scratch.bytes > 0 {
		b.device.FreeBuffer(b.scratch.buffer)
	}
	b.scratch.buffer, b.scratch.bytes = made, bytes
	return nil
}

// scratchFor returns the bytes of scratch memory for products with a weight: for the given number
// of rows, or for fewer rows if they need more than limit.
func scratchFor(w *weight, rows, limit int) int {
	each := 2 * w.out
	if w.matrices > 1 {
		each = scratchUsed * (w.out + groupedInts)
	}
	return 4*aligned + min(4*rows*each, max(limit, 4*each))
}

// inParts records an operation in parts with as many rows as fit into scratch memory. floats is the
// number of floats that a row needs there.
func (s *step) inParts(rows, floats int, op func(first, rows int)) {
	limit := (s.scratch.bytes/4 - aligned) / floats
	if limit == 0 {
		s.fail(fmt.Errorf("compute a row of an operation: it needs %d bytes of scratch memory, but only %d are allocated", 4*floats, s.scratch.bytes))
		return
	}
	if limit > 64 {
		limit &^= 63 // a multiple of every tile's rows
	}
	for first := 0; first < rows; first += limit {
		op(first, min(limit, rows-first))
	}
}

// rowsFrom returns a view of n rows of t. The parameter first is the index of the first of them.
func rowsFrom(t compute.Tensor, first, n int) compute.Tensor {
	t.Offset += first * t.Stride
	t.Rows = n
	return t
}

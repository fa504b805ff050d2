package metal

import (
	"fmt"

	"github.com/ingot-run/ingot/engine/compute"
)

// scratch is device memory for intermediate results of an operation: splits of an attention before they are joined, rows grouped by
// expert, products before their gate. It is allocated while models are loaded, and all operations share it. An operation whose rows
// do not all fit into it is done in parts.
type scratch struct {
	memory
	bytes int
}

const (
	// maxScratch is the maximum number of bytes of scratch memory for products.
	maxScratch = 32 << 20
	// maxSplitBytes is the maximum number of bytes of scratch memory for attention. Attention that needs more is not split.
	maxSplitBytes = 64 << 20

	aligned     = 16  // unused floats that let each part begin at a multiple of 16 bytes
	scratchRows = 512 // rows at a time, if maxScratch allows it
	scratchUsed = 8   // experts per row, if maxScratch allows it
)

// reserve makes the scratch memory at least as large as bytes. No step may be in flight.
func (b *Backend) reserve(bytes int) error {
	if bytes <= b.scratch.bytes {
		return nil
	}
	made, err := b.newBuffer(bytes, Private, "make room for intermediate results")
	if err != nil {
		return err
	}
	if b.scratch.bytes > 0 {
		b.device.FreeBuffer(b.scratch.buffer)
	}
	b.scratch.buffer, b.scratch.bytes = made, bytes
	return nil
}

// scratchFor returns the bytes of scratch memory for products with a weight.
func scratchFor(w *weight, packed bool) int {
	each := 2 * w.out
	if w.matrices > 1 {
		each = scratchUsed * (w.out + groupedInts)
	}
	rows, limit := scratchRows, maxScratch
	if packed && w.matrices > 1 {
		rows, limit = 4*scratchRows, expertScratch
	}
	return 4*aligned + min(4*rows*each, max(limit, 4*each))
}

// inParts records an operation in parts. Each part has as many rows as fit into scratch memory. A row needs the
// given number of floats.
func (s *step) inParts(rows, floats int, op func(first, rows int)) {
	limit := (s.scratch.bytes/4 - aligned) / floats
	if limit == 0 {
		s.fail(fmt.Errorf("multiply a row: the product needs %d bytes of scratch memory, but there are %d", 4*floats, s.scratch.bytes))
		return
	}
	if limit > 64 {
		limit &^= 63 // whole tiles
	}
	for first := 0; first < rows; first += limit {
		op(first, min(limit, rows-first))
	}
}

// rowsFrom returns a view of n rows of t from row first on.
func rowsFrom(t compute.Tensor, first, n int) compute.Tensor {
	t.Offset += first * t.Stride
	t.Rows = n
	return t
}

package metal

import (
	"fmt"

	"github.com/ingot-run/ingot/engine/compute"
)

// scratch is the device's own memory for what an operation passes between its dispatches: the splits of attentions before they
// are joined, rows grouped by expert, products before their gate. It is made while models are loaded and serves one
// operation after another; rows that it does not suffice for are taken in parts.
type scratch struct {
	memory
	bytes int
}

const (
	// mostScratch bounds what is made for products.
	mostScratch = 32 << 20
	// mostParts bounds what is made for attentions. Where it does not suffice, rows are not split.
	mostParts = 64 << 20

	aligned     = 16  // floats that are left for what is behind others to begin at multiples of 16 bytes
	scratchRows = 512 // that are taken at once where mostScratch allows it
	scratchUsed = 8   // experts of a row, likewise
)

// reserve makes the scratch memory at least so large. No step may be under way.
func (b *Backend) reserve(bytes int) error {
	if bytes <= b.scratch.bytes {
		return nil
	}
	made, err := b.newBuffer(bytes, Private, "make room for what operations keep between their parts")
	if err != nil {
		return err
	}
	if b.scratch.bytes > 0 {
		b.device.FreeBuffer(b.scratch.buffer)
	}
	b.scratch.buffer, b.scratch.bytes = made, bytes
	return nil
}

// reserveFor makes room for the products of a weight.
func (b *Backend) reserveFor(w *weight) error {
	each := 2 * w.out
	if w.matrices > 1 {
		each = scratchUsed * (w.out + groupedInts)
	}
	return b.reserve(4*aligned + min(4*scratchRows*each, max(mostScratch, 4*each)))
}

// inParts records an operation on as many rows at a time as there is scratch memory for. floats is what a row takes of it.
func (s *step) inParts(rows, floats int, op func(first, rows int)) {
	most := (s.scratch.bytes/4 - aligned) / floats
	if most == 0 {
		s.fail(fmt.Errorf("a row of a product takes %d bytes of the %d that there are for it", 4*floats, s.scratch.bytes))
		return
	}
	if most > 64 {
		most &^= 63 // whole tiles
	}
	for first := 0; first < rows; first += most {
		op(first, min(most, rows-first))
	}
}

// rowsFrom is a view of n rows from the first on.
func rowsFrom(t compute.Tensor, first, n int) compute.Tensor {
	t.Offset += first * t.Stride
	t.Rows = n
	return t
}

package metal

import "fmt"

// room is a private buffer that grows while models are loaded.
type room struct {
	memory
	bytes int
}

// grow makes sure that the buffer has at least the given number of bytes. Its contents may be lost.
// No step may be in flight. Errors begin with action.
func (r *room) grow(b *Backend, bytes int, action string) error {
	if bytes <= r.bytes {
		return nil
	}
	made, err := b.newBuffer(bytes, Private, action)
	if err != nil {
		return err
	}
	r.free(b)
	r.buffer, r.bytes = made, bytes
	return nil
}

func (r *room) free(b *Backend) {
	if r.bytes > 0 {
		b.device.FreeBuffer(r.buffer)
		r.bytes = 0
	}
}

// read returns the binding of the buffer for a dispatch that reads it.
func (r *room) read() Binding { return Binding{Buffer: r.buffer} }

// write returns the binding of the buffer for a dispatch that writes it; see into.
func (r *room) write() Binding {
	r.version++
	return r.read()
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

func (b *Backend) reserve(bytes int) error {
	return b.scratch.grow(b, bytes, "allocate scratch memory")
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
func (s *step) inParts(rows, floats int, op func(from, to int)) {
	limit := (s.scratch.bytes/4 - aligned) / floats
	if limit == 0 {
		s.fail(fmt.Errorf("compute a row of an operation: it needs %d bytes of scratch memory, but only %d are allocated", 4*floats, s.scratch.bytes))
		return
	}
	if limit > 64 {
		limit &^= 63 // a multiple of every tile's rows
	}
	parts(0, rows, limit, op)
}

// parts divides the rows [from, to) into parts of at most limit rows.
func parts(from, to, limit int, op func(from, to int)) {
	for ; from < to; from += limit {
		op(from, min(from+limit, to))
	}
}

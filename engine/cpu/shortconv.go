package cpu

import (
	"unsafe"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
)

func (s *step) ShortConv(c, b, x compute.Tensor, w compute.Weight, shape compute.AttentionShape, kv compute.Cache, layer int) {
	s.storeGated(b, x, shape, kv, layer)
	s.convolveStored(c, x, w, shape, kv, layer)
}

// storeGated is the first part of ShortConv: x becomes b·x and is stored.
func (s *step) storeGated(b, x compute.Tensor, shape compute.AttentionShape, kv compute.Cache, layer int) {
	t := &s.byRow
	t.dst, t.src, t.shape, t.cache = x, b, shape, kv.(*cache)
	t.group, t.keys, t.values = t.cache.at(layer)
	t.run((*rowsTask).storeGated, x.Rows, 2*x.Cols)
}

func (t *rowsTask) storeGated(thread, r int) {
	s, line, gate := t.step, row(t.dst, r), row(t.src, r)
	for i, v := range gate {
		line[i] *= v
	}
	page, slot := s.slot(t.cache, t.group, r)
	t.stored(line, page, slot, func(part []float32, at unsafe.Pointer) { s.encode(thread, t.cache, at, part) })
}

// stored calls do for each head of a stored row, with its address in the cache.
func (t *rowsTask) stored(line []float32, page int32, slot int, do func(head []float32, at unsafe.Pointer)) {
	c, keys := t.cache, t.shape.KVHeads*t.shape.KeyDim
	for at := 0; at < min(keys, len(line)); at += t.shape.KeyDim {
		do(line[at:at+t.shape.KeyDim], c.rows(t.keys, c.shape.KeyCols, t.shape.KeyDim, page, at/t.shape.KeyDim, slot))
	}
	for at := keys; at < len(line); at += t.shape.ValueDim {
		do(line[at:at+t.shape.ValueDim], c.rows(t.values, c.shape.ValueCols, t.shape.ValueDim, page, (at-keys)/t.shape.ValueDim, slot))
	}
}

// convolveStored is the second part of ShortConv. It reads what earlier rows have stored.
func (s *step) convolveStored(c, x compute.Tensor, w compute.Weight, shape compute.AttentionShape, kv compute.Cache, layer int) {
	t := &s.byRow
	t.dst, t.src, t.shape, t.cache, t.gain = c, x, shape, kv.(*cache), w.(*weight).vector
	t.group, t.keys, t.values = t.cache.at(layer)
	t.run((*rowsTask).convolveStored, c.Rows, 4*c.Cols)
}

func (t *rowsTask) convolveStored(thread, r int) {
	s, line, own := t.step, row(t.dst, r), row(t.src, r)
	m := &s.scratch[thread]
	m.normed = grow(m.normed, 2*len(line))
	sum, earlier := m.normed[:len(line)], m.normed[len(line):2*len(line)]
	clear(sum)
	taps, position := len(t.gain)/len(line), int(s.batch.Positions[r])
	pages := s.batch.Seqs[s.seqOf[r]].Table(t.group)
	for j := max(taps-1-position, 0); j < taps-1; j++ {
		at := position - taps + 1 + j
		t.stored(earlier, pages[at/t.cache.shape.PageSize], at%t.cache.shape.PageSize, func(head []float32, from unsafe.Pointer) {
			s.decode(thread, t.cache, head, from)
		})
		for i, v := range earlier {
			sum[i] += t.gain[i*taps+j] * v
		}
	}
	for i := range line {
		line[i] *= sum[i] + t.gain[i*taps+taps-1]*own[i]
	}
}

// encode stores values in a cache.
func (b *Backend) encode(thread int, c *cache, dst unsafe.Pointer, values []float32) {
	if c.to == nil {
		copy(unsafe.Slice((*float32)(dst), len(values)), values)
		return
	}
	a := &b.scratch[thread].convert
	a.Dst, a.Src, a.N = dst, unsafe.Pointer(&values[0]), int64(len(values))
	c.to(a)
}

// decode reads values that encode has stored.
func (b *Backend) decode(thread int, c *cache, values []float32, src unsafe.Pointer) {
	from := c.from
	switch c.shape.Type {
	case gguf.TypeF32:
		copy(values, unsafe.Slice((*float32)(src), len(values)))
		return
	case gguf.TypeF16:
		from = b.kernels.FromF16
	}
	a := &b.scratch[thread].convert
	a.Dst, a.Src, a.N = unsafe.Pointer(&values[0]), src, int64(len(values))
	from(a)
}

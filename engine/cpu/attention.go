package cpu

import (
	"slices"
	"unsafe"

	"github.com/ingot-run/ingot/engine/compute"
)

func (s *step) RopeStore(qkv compute.Tensor, p compute.Projection, shape compute.AttentionShape, table compute.Rope, kv compute.Cache, layer int) {
	t := &s.byRow
	t.src, t.shape, t.rope, t.cache = qkv, shape, nil, kv.(*cache)
	t.group, t.keys, t.values = t.cache.at(layer)
	if table != nil {
		t.rope = table.(*rope)
	}
	t.bias, t.gain, t.second, t.eps = vectorOf(p.Bias), vectorOf(p.QueryNorm), vectorOf(p.KeyNorm), p.Eps
	t.valueNorm, t.valuesFromKeys = p.ValueNorm, p.ValuesFromKeys
	if p.ValueNorm && len(s.ones) != shape.ValueDim {
		s.ones = slices.Repeat([]float32{1}, shape.ValueDim)
	}
	t.run((*rowsTask).ropeStore, qkv.Rows, 2*qkv.Cols)
}

func (t *rowsTask) ropeStore(thread, r int) {
	s, c, line := t.step, t.cache, row(t.src, r)
	queries, keys := t.shape.Heads*t.shape.KeyDim, t.shape.KVHeads*t.shape.KeyDim
	values := line[queries+keys:][:t.shape.KVHeads*t.shape.ValueDim]
	addTo(line, t.bias)
	if t.valuesFromKeys {
		copy(values, line[queries:])
	}
	if t.valueNorm {
		for at := 0; at < len(values); at += t.shape.ValueDim {
			head := values[at : at+t.shape.ValueDim]
			s.norm(thread, head, head, s.ones, t.eps)
		}
	}
	if t.gain != nil {
		for at := 0; at < queries+keys; at += t.shape.KeyDim {
			head, gain := line[at:at+t.shape.KeyDim], t.gain
			if at >= queries {
				gain = t.second
			}
			s.norm(thread, head, head, gain, t.eps)
		}
	}
	if t.rope != nil {
		s.rotate(thread, line, line, t.rope, s.batch.Positions[r], t.shape.Heads+t.shape.KVHeads, t.shape.KeyDim, t.shape.KeyDim)
	}
	if keys == 0 {
		return
	}
	page, slot := s.slot(c, t.group, r)
	s.store(thread, c, t.keys, c.shape.KeyCols, line[queries:queries+keys], t.shape.KeyDim, page, slot)
	s.store(thread, c, t.values, c.shape.ValueCols, values, t.shape.ValueDim, page, slot)
}

// attention is the task of Attention. A part is a block of queries that read the same keys: some
// rows of a sequence, and for each row the query heads that share a key head. Each page is read
// once per block.
type attention struct {
	step   *step
	dst, q compute.Tensor
	shape  compute.AttentionShape
	cache  *cache
	keys   []byte    // the layer's keys; see cache.at
	values []byte    // the layer's values; nil if they are the first columns of the keys
	sinks  []float32 // a score per query head, or nil
	blocks []queryBlock
}

// queryBlock is a range of the queries that belong to one sequence and one key head. The queries
// are numbered row by row: if n query heads share a key head, query i belongs to row first+i/n and
// to query head kvHead*n+i%n.
type queryBlock struct {
	pages    []int32 // page table of the sequence in the layer's group
	kvHead   int32
	first    int32 // the sequence's first row
	from, to int32 // numbers of the queries: [from, to)
}

// Limits of a block. A block is small enough that every thread has work and that its scores stay in
// the processor's cache.
const (
	minQueries = 4
	maxQueries = 32
	maxScores  = 1 << 17 // maximum number of scores in a block with more than minQueries queries
)

func (s *step) Attention(dst, q compute.Tensor, shape compute.AttentionShape, kv compute.Cache, layer int) {
	t := &s.attention
	t.dst, t.q, t.shape, t.cache, t.sinks = dst, q, shape, kv.(*cache), vectorOf(shape.Sinks)
	group, keys, values := t.cache.at(layer)
	t.keys, t.values = keys, values
	t.blocks = t.blocks[:0]
	share := dst.Rows * shape.Heads / (4 * len(s.scratch))
	first, longest := 0, 0
	for _, seq := range s.batch.Seqs {
		if seq.Rows == 0 {
			continue
		}
		positions := int(s.batch.Positions[first+seq.Rows-1]) + 1
		longest = max(longest, positions)
		each := min(share, maxQueries, maxScores/scoreStride(positions))
		each = max(each, minQueries) &^ (minQueries - 1)
		queries, pages := seq.Rows*shape.Heads/shape.KVHeads, seq.Table(group)
		for head := range shape.KVHeads {
			for from := 0; from < queries; from += each {
				t.blocks = append(t.blocks, queryBlock{pages, int32(head), int32(first), int32(from), int32(min(from+each, queries))})
			}
		}
		first += seq.Rows
	}
	t.reserve(longest)
	s.pool.do(t, len(t.blocks))
}

func (t *attention) reserve(n int) {
	page := t.cache.shape.PageSize
	for i := range t.step.scratch {
		m := &t.step.scratch[i]
		m.attention = grow(m.attention, max(maxScores, minQueries*scoreStride(n))+maxQueries*16)
		m.queryAt, m.resultAt = grow(m.queryAt, maxQueries), grow(m.resultAt, maxQueries)
		if t.cache.from != nil {
			m.keys, m.pageValues = grow(m.keys, page*t.shape.KeyDim), grow(m.pageValues, page*t.shape.ValueDim)
		}
	}
}

func (t *attention) part(thread, i int) {
	b, m := t.blocks[i], &t.step.scratch[thread]
	group := int32(t.shape.Heads / t.shape.KVHeads)
	for q := b.from; q < b.to; q++ {
		r, head := int(b.first+q/group), int(b.kvHead*group+q%group)
		m.queryAt[q-b.from] = int64(start(t.q, r) + head*t.shape.KeyDim)
		m.resultAt[q-b.from] = int64(start(t.dst, r) + head*t.shape.ValueDim)
		clear(row(t.dst, r)[head*t.shape.ValueDim : (head+1)*t.shape.ValueDim])
	}
	// The rows of a sequence are in order of position. The first row of the block therefore attends
	// up to the lowest position, and the last row up to the highest.
	positions := t.step.batch.Positions
	shortest, longest := int(positions[b.first+b.from/group])+1, int(positions[b.first+(b.to-1)/group])+1
	begin := t.shape.First(shortest - 1)
	stride := scoreStride(longest)
	t.scores(thread, b, begin, longest, stride)
	for q := b.from; q < b.to; q++ {
		own := m.attention[int(q-b.from)*stride:][:stride]
		end := int(positions[b.first+q/group]) + 1
		first := t.shape.First(end - 1)
		clear(own[begin:first]) // positions before the row's sliding window have weight 0
		if t.sinks != nil {
			own[end] = t.sinks[b.kvHead*group+q%group]
			end++
		}
		a := &m.softmax
		a.X, a.N = &own[first], int64(end-first)
		t.step.kernels.Softmax(a)
	}
	t.weigh(thread, b, begin, shortest, longest, stride)
}

// scoreStride returns the distance between the scores of two queries: n positions and a sink,
// rounded up to a multiple of 16.
func scoreStride(n int) int { return (n + 16) &^ 15 }

// scores computes a block's scores for positions [begin, longest), including those to which a query
// does not attend, which are not used.
func (t *attention) scores(thread int, b queryBlock, begin, longest, stride int) {
	s, c := t.step, t.cache
	m := &s.scratch[thread]
	a := &m.scores
	a.Q, a.At = &values(t.q)[0], &m.queryAt[0]
	a.Queries, a.Stride, a.OutStride, a.Dims, a.Scale = int64(b.to-b.from), int64(t.shape.KeyDim), int64(stride), int64(t.shape.KeyDim), float64(t.shape.Scale)
	size := c.shape.PageSize
	for i, from := begin/size, begin/size*size; from < longest; i, from = i+1, from+size {
		n := min(size, longest-from)
		a.K = s.load(thread, c, t.keys, c.shape.KeyCols, t.shape.KeyDim, b.pages[i], int(b.kvHead), n, m.keys)
		a.Out, a.Positions = &m.attention[from], int64(n)
		if a.Next, a.NextBytes = t.prefetch(t.keys, c.shape.KeyCols, t.shape.KeyDim, b, i+1, longest); a.Next == nil {
			a.Next, a.NextBytes = t.prefetchValues(b, begin/size, longest)
		}
		c.scores(a)
	}
}

// prefetch returns the address of a head's rows in the i-th page of a sequence, up to position
// longest, and their size in bytes. The kernel prefetches these rows while it works on the previous
// page, because a processor cannot predict the order of pages.
func (t *attention) prefetch(layer []byte, cols, dims int, b queryBlock, i, longest int) (unsafe.Pointer, int64) {
	n := min(t.cache.shape.PageSize, longest-i*t.cache.shape.PageSize)
	if n <= 0 {
		return nil, 0
	}
	kind := t.cache.shape.Type
	page := b.pages[i]
	return t.cache.rows(layer, cols, dims, page, int(b.kvHead), 0), int64(n * dims * kind.BlockBytes() / kind.BlockSize())
}

func (t *attention) prefetchValues(b queryBlock, i, longest int) (unsafe.Pointer, int64) {
	if t.values == nil {
		return t.prefetch(t.keys, t.cache.shape.KeyCols, t.shape.KeyDim, b, i, longest)
	}
	return t.prefetch(t.values, t.cache.shape.ValueCols, t.shape.ValueDim, b, i, longest)
}

// weigh adds weighted values of positions [begin, longest) to the results of a block's queries. All
// queries attend to the positions before shortest. weigh processes these positions for all queries
// together, and the later positions for each query separately.
func (t *attention) weigh(thread int, b queryBlock, begin, shortest, longest, stride int) {
	s, c := t.step, t.cache
	m := &s.scratch[thread]
	a := &m.values
	a.Out, a.WeightsStride, a.Dims = &values(t.dst)[0], int64(stride), int64(t.shape.ValueDim)
	size := c.shape.PageSize
	for i, from := begin/size, begin/size*size; from < longest; i, from = i+1, from+size {
		n := min(size, longest-from)
		v, rowStride := t.pageValues(thread, b, i, n)
		a.Stride = int64(rowStride)
		skip := max(0, begin-from)
		all := max(0, min(n, shortest-from))
		if all > 0 {
			a.Weights, a.V, a.At = &m.attention[from+skip], unsafe.Add(v, skip*rowStride*c.valueBytes), &m.resultAt[0]
			a.Queries, a.Positions = int64(b.to-b.from), int64(all-skip)
			a.Next, a.NextBytes = t.prefetchValues(b, i+1, longest)
			c.weigh(a)
		}
		if all == n {
			continue
		}
		group := int32(t.shape.Heads / t.shape.KVHeads)
		a.Next, a.NextBytes = nil, 0
		a.V, a.Queries = unsafe.Add(v, all*rowStride*c.valueBytes), 1
		for q := b.from; q < b.to; q++ {
			own := min(n, int(s.batch.Positions[b.first+q/group])+1-from) - all
			if own > 0 {
				at := int(q - b.from)
				a.Weights, a.At, a.Positions = &m.attention[at*stride+from+all], &m.resultAt[at], int64(own)
				c.weigh(a)
			}
		}
	}
}

// pageValues returns the first n values in page i of the block's sequence, and the distance between
// two of them.
func (t *attention) pageValues(thread int, b queryBlock, i, n int) (unsafe.Pointer, int) {
	s, c := t.step, t.cache
	page, head := b.pages[i], int(b.kvHead)
	m := &s.scratch[thread]
	if t.values == nil {
		return s.load(thread, c, t.keys, c.shape.KeyCols, t.shape.KeyDim, page, head, n, m.keys), t.shape.KeyDim
	}
	return s.load(thread, c, t.values, c.shape.ValueCols, t.shape.ValueDim, page, head, n, m.pageValues), t.shape.ValueDim
}

func (s *step) Latents(dst, a compute.Tensor, qGain, kvGain compute.Weight, eps float32, table compute.Rope, kv compute.Cache, layer int) {
	t := &s.byRow
	t.dst, t.src, t.gain, t.second, t.eps = dst, a, kvGain.(*weight).vector, nil, eps
	if qGain != nil {
		t.second = qGain.(*weight).vector
	}
	t.rope, t.cache = table.(*rope), kv.(*cache)
	t.group, t.keys, t.values = t.cache.at(layer)
	t.run((*rowsTask).latents, a.Rows, 2*a.Cols)
}

func (t *rowsTask) latents(thread, r int) {
	s, line := t.step, row(t.src, r)
	if q := len(t.second); q > 0 {
		s.norm(thread, row(t.dst, r)[:q], line[:q], t.second, t.eps)
		line = line[q:]
	}
	latent, key := line[:len(t.gain)], line[len(t.gain):len(t.gain)+t.rope.dims]
	s.norm(thread, latent, latent, t.gain, t.eps)
	s.rotate(thread, key, key, t.rope, s.batch.Positions[r], 1, 0, 0)
	page, slot := s.slot(t.cache, t.group, r)
	line = line[:t.cache.shape.KeyCols]
	s.store(thread, t.cache, t.keys, len(line), line, len(line), page, slot)
}

func (s *step) Absorb(dst, q compute.Tensor, kb compute.Weight, table compute.Rope) {
	w, t := kb.(*weight), &s.byRow
	t.rope = table.(*rope)
	t.outStride, t.inStride = w.out+t.rope.dims, w.in+t.rope.dims
	s.heads(dst, q, w, t.outStride, t.inStride)
	t.dst, t.src, t.table = dst, q, w
	t.run((*rowsTask).turn, dst.Rows, w.matrices*t.rope.dims)
}

func (t *rowsTask) turn(thread, r int) {
	w := t.table
	out, in := row(t.dst, r), row(t.src, r)
	t.step.rotate(thread, out[w.out:], in[w.in:], t.rope, t.step.batch.Positions[r], w.matrices, t.outStride, t.inStride)
}

func (s *step) Expand(dst, ctx compute.Tensor, vb compute.Weight) {
	w := vb.(*weight)
	s.heads(dst, ctx, w, w.out, w.in)
}

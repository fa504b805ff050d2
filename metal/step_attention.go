package metal

// stored is where the keys and values of a layer are, with the slot mapping of the group of layers
// to which it belongs.
type stored struct{ keys, values, slots Binding }

func (s *step) stored(c *cache, layer int) stored {
	group, in, part, parts := c.shape.Place(layer)
	s.divide(group, parts)
	slots := Binding{s.slotMapping.Buffer, s.slotMapping.Offset + slotBytes*group*len(s.batch.Tokens)}
	return stored{Binding{c.keys[in], part * c.partBytes(c.shape.KeyCols/parts)}, Binding{c.values[in], part * c.partBytes(c.shape.ValueCols/parts)}, slots}
}

// divide changes a group's page tables, once a step, to numbers of the pages' parts: the first part
// of a page has the page's number times the number of parts.
func (s *step) divide(group, parts int) {
	if parts == 1 || s.divided[group] {
		return
	}
	s.divided[group] = true
	for i := range s.groupTables[group] {
		s.groupTables[group][i] *= int32(parts)
	}
}

// locate sets the slots of the step's rows in the slot mapping of the layer's group of layers, once
// a step. The slots depend on the cache's page size, which is the same for all layers of a step.
func (s *step) locate(c *cache, layer int) {
	group, _, _, parts := c.shape.Place(layer)
	size, row := int32(c.shape.PageSize), 0
	if s.located[group] {
		return
	}
	s.located[group] = true
	slots := s.slots[slotInts*group*len(s.batch.Tokens):]
	for _, seq := range s.batch.Seqs {
		pages := seq.Table(group)
		for range seq.Rows {
			p := s.batch.Positions[row]
			slots[slotInts*row+1] = pages[p/size]*int32(parts)*size + p%size
			row++
		}
	}
}

// rowsBefore returns the number of rows before the first long sequence. A sequence is long if its
// number of rows is at least many.
func (s *step) rowsBefore(many int) (rows int) {
	for _, seq := range s.batch.Seqs {
		if seq.Rows >= many {
			break
		}
		rows += seq.Rows
	}
	return rows
}

type attentionArgs struct {
	heads, kvHeads, keyDim, valueDim, qStride, dstStride, pageSize uint32
	latent, splits                                                 uint32
	scale                                                          float32
	window, sinks                                                  uint32
}

func (o *attention) args() attentionArgs {
	s := &o.shape
	return attentionArgs{
		heads: uint32(s.Heads), kvHeads: uint32(s.KVHeads), keyDim: uint32(s.KeyDim), valueDim: uint32(s.ValueDim),
		qStride: uint32(o.q.Stride), dstStride: uint32(o.dst.Stride), pageSize: uint32(o.cache.shape.PageSize),
		latent: flag(o.latent()), scale: s.Scale, window: uint32(s.Window), sinks: flag(s.Sinks != nil),
	}
}

// pairTiles returns a list of tiles for the last rows of the batch, and the number of tiles. The
// parameter from is the index of the first of these rows. A tile holds pairs of a row and one of
// the heads that read the same keys, as many as the parameter pairs at most. Calls with the same
// arguments in a step return the same list.
func (s *step) pairTiles(heads, from, pairs int) (Binding, int) {
	if s.pairHeads == heads && s.pairFrom == from && s.pairsPerTile == pairs {
		return s.pairs, s.pairCount
	}
	n := s.countPairTiles(heads, from, pairs)
	list, ints := s.take(3 * n)
	i, row := 0, 0
	for _, seq := range s.batch.Seqs {
		for first := 0; row >= from && first < seq.Rows*heads; first += pairs {
			ints[i], ints[i+1], ints[i+2] = int32(row), int32(first), int32(min(pairs, seq.Rows*heads-first))
			i += 3
		}
		row += seq.Rows
	}
	s.pairs, s.pairHeads, s.pairFrom, s.pairsPerTile, s.pairCount = list, heads, from, pairs, n
	return list, n
}

func (s *step) countPairTiles(heads, from, pairs int) (n int) {
	row := 0
	for _, seq := range s.batch.Seqs {
		if row >= from {
			n += (seq.Rows*heads + pairs - 1) / pairs
		}
		row += seq.Rows
	}
	return n
}

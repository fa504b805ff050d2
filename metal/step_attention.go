package metal

import (
	"fmt"
	"slices"

	"github.com/ingot-run/ingot/engine/compute"
)

// stored is where the keys and values of a layer are, with the slot mapping of the group of layers to which it belongs.
type stored struct{ keys, values, slots Binding }

// stored returns where a layer is stored in a cache.
func (s *step) stored(c *cache, layer int) stored {
	group, in := layer/c.shape.Layers, layer%c.shape.Layers
	slots := Binding{s.slotMapping.Buffer, s.slotMapping.Offset + slotBytes*group*len(s.batch.Tokens)}
	return stored{Binding{Buffer: c.keys[in]}, Binding{Buffer: c.values[in]}, slots}
}

// locate sets the slots of the step's rows in the slot mapping of the layer's group of layers. The slots depend on the cache's page size.
func (s *step) locate(c *cache, layer int) {
	size, group, row := int32(c.shape.PageSize), layer/c.shape.Layers, 0
	slots := s.slots[slotInts*group*len(s.batch.Tokens):]
	for _, seq := range s.batch.Seqs {
		pages := seq.Table(group)
		for range seq.Rows {
			p := s.batch.Positions[row]
			slots[slotInts*row+1] = pages[p/size]*size + p%size
			row++
		}
	}
}

type ropeStoreArgs struct {
	stride, heads, kvHeads, keyDim, valueDim, dims, pageSize uint32
	halves, biased, normed                                   uint32
	eps                                                      float32
}

// RopeStore implements compute.Step.
func (s *step) RopeStore(qkv compute.Tensor, p compute.Projection, shape compute.AttentionShape, table compute.Rope, kv compute.Cache, layer int) {
	s.flush()
	c := kv.(*cache)
	s.locate(c, layer)
	a := ropeStoreArgs{
		stride: uint32(qkv.Stride), heads: uint32(shape.Heads), kvHeads: uint32(shape.KVHeads), keyDim: uint32(shape.KeyDim),
		valueDim: uint32(shape.ValueDim), pageSize: uint32(c.shape.PageSize), biased: flag(p.Bias != nil), normed: flag(p.QueryNorm != nil), eps: p.Eps,
	}
	angles := at(qkv)
	if table != nil {
		r := table.(*rope)
		a.dims, a.halves, angles = uint32(r.dims), flag(r.halves), Binding{Buffer: r.buffer}
	}
	in := s.stored(c, layer)
	record(s, "rope_store", c.kernels.ropeStore, grid{x: qkv.Rows, y: 1, simdgroups: storeGroups}, &a,
		at(qkv), angles, in.slots, in.keys, in.values,
		bind(p.Bias, at(qkv)), bind(p.QueryNorm, at(qkv)), bind(p.KeyNorm, at(qkv)))
}

type latentsArgs struct {
	stride, dstStride, q, latent, dims, pageSize uint32
	eps                                          float32
}

// Latents implements compute.Step.
func (s *step) Latents(dst, t compute.Tensor, qGain, kvGain compute.Weight, eps float32, table compute.Rope, kv compute.Cache, layer int) {
	s.flush()
	c, r, w := kv.(*cache), table.(*rope), kvGain.(*weight)
	s.locate(c, layer)
	if s.nativeLatents(dst, t, qGain, w, eps, r, c, layer) {
		return
	}
	if qGain == nil {
		dst = t // bound, but not used
	}
	a := latentsArgs{stride: uint32(t.Stride), dstStride: uint32(dst.Stride), latent: uint32(w.in), dims: uint32(r.dims), pageSize: uint32(c.shape.PageSize), eps: eps}
	widest := w.in
	if qGain != nil {
		a.q = uint32(qGain.(*weight).in)
		widest = max(widest, int(a.q))
	}
	groups := normGroups(widest)
	gain := Binding{Buffer: w.buffer}
	in := s.stored(c, layer)
	record(s, "latents", c.kernels.latents, grid{x: t.Rows, y: 1, simdgroups: groups, shared: 8 * groups}, &a,
		at(t), bind(qGain, gain), gain, Binding{Buffer: r.buffer}, in.slots, in.keys, at(dst))
}

// Attention implements compute.Step. Rows before the first sequence with many rows are decoding rows, which are processed one by one. All later
// rows are processed in tiles.
func (s *step) Attention(dst, q compute.Tensor, shape compute.AttentionShape, kv compute.Cache, layer int) {
	s.flush()
	c := kv.(*cache)
	if p, ok := s.native.attentionFor(shape, c); ok {
		s.nativeAttention(p, dst, q, shape, c, layer)
		return
	}
	chosen := c.kernels.choose(shape)
	few := dst.Rows
	if !s.kernels.plainTiles && shape.ValueDim <= 512 {
		few = s.rowsBefore(chosen.tileFrom)
	}
	if few < dst.Rows {
		s.attentionTile(dst, q, shape, c, layer, few)
	}
	if few > 0 {
		s.attentionFew(dst.Head(few), q, shape, c, layer, few < dst.Rows)
	}
}

// rowsBefore returns the number of rows before the first long sequence. A sequence is long if its number of rows is at least many.
func (s *step) rowsBefore(many int) (rows int) {
	for _, seq := range s.batch.Seqs {
		if seq.Rows >= many {
			break
		}
		rows += seq.Rows
	}
	return rows
}

// attentionFew records the attention of the batch's first dst.Rows rows, which are processed one by one. If a row has many positions, they are
// split over several threadgroups, and a second dispatch joins the splits.
func (s *step) attentionFew(dst, q compute.Tensor, shape compute.AttentionShape, c *cache, layer int, concurrent bool) {
	chosen := c.kernels.choose(shape)
	a := attentionArgsOf(dst, q, shape, c)
	longest := int(slices.Max(s.batch.Positions[:dst.Rows])) + 1
	splits := (longest + splitKeys - 1) / splitKeys
	if splits == 1 || longest < chosen.splitFrom || dst.Rows*shape.Heads*splits*(shape.ValueDim+2)*4 > s.scratch.bytes {
		splits = 0
	}
	a.splits = uint32(splits)
	g := grid{x: max(splits, 1), z: dst.Rows, concurrent: concurrent}
	k, groups, room, ok := c.kernels.forSplits(shape, g.x*dst.Rows)
	if ok {
		g.y, g.simdgroups, g.shared = groups, k.simdgroups, room
	} else {
		if k, room, ok = c.kernels.forHeads(shape, chosen.heads); !ok {
			s.fail(fmt.Errorf("compute attention: no kernel supports heads with keys of length %d and values of length %d; use --backend cpu", shape.KeyDim, shape.ValueDim))
			return
		}
		units := shape.Heads / k.heads
		g.simdgroups = min(chosen.simdgroups, k.simdgroups, units, threadgroupBytes/room)
		g.y, g.shared = (units+g.simdgroups-1)/g.simdgroups, g.simdgroups*room
	}
	in := s.stored(c, layer)
	record(s, "attention", k.pipeline, g, &a,
		at(q), in.keys, in.values, in.slots, s.tables, Binding{Buffer: s.scratch.buffer}, at(dst), bind(shape.Sinks, at(q)))
	if splits > 0 {
		record(s, "attention_join", s.kernels.attentionJoin, grid{x: (shape.ValueDim + 31) / 32, y: shape.Heads, z: dst.Rows, simdgroups: 1}, &a,
			Binding{Buffer: s.scratch.buffer}, in.slots, at(dst), bind(shape.Sinks, at(q)))
	}
}

type attentionArgs struct {
	heads, kvHeads, keyDim, valueDim, qStride, dstStride, pageSize uint32
	latent, splits                                                 uint32
	scale                                                          float32
	window, sinks                                                  uint32
}

func attentionArgsOf(dst, q compute.Tensor, shape compute.AttentionShape, c *cache) attentionArgs {
	return attentionArgs{
		heads: uint32(shape.Heads), kvHeads: uint32(shape.KVHeads), keyDim: uint32(shape.KeyDim), valueDim: uint32(shape.ValueDim),
		qStride: uint32(q.Stride), dstStride: uint32(dst.Stride), pageSize: uint32(c.shape.PageSize),
		latent: flag(c.shape.ValueCols == 0), scale: shape.Scale,
		window: uint32(shape.Window), sinks: flag(shape.Sinks != nil),
	}
}

// attentionTile records, in tiles, the attention of the last rows of the batch. The parameter from is the index of the first of them, which
// must be the first row of a sequence.
func (s *step) attentionTile(dst, q compute.Tensor, shape compute.AttentionShape, c *cache, layer, from int) {
	k := c.kernels.attentionTiles[0]
	if shape.ValueDim > 32*k.values {
		k = c.kernels.attentionTiles[1]
	}
	tiles, n := s.pairTiles(shape.Heads/shape.KVHeads, from)
	a, in := attentionArgsOf(dst, q, shape, c), s.stored(c, layer)
	record(s, "attention", k.pipeline, grid{x: n, y: shape.KVHeads, simdgroups: attentionTileGroups, shared: attentionTileBytes}, &a,
		at(q), in.keys, in.values, in.slots, s.tables, tiles, at(dst), bind(shape.Sinks, at(q)))
}

// pairTiles returns a list of tiles for the last rows of the batch, and the number of tiles. The parameter from is the index of the first
// of these rows. A tile holds pairs of a row and one of the heads that read the same keys. Calls with the same arguments in a step return
// the same list.
func (s *step) pairTiles(heads, from int) (Binding, int) {
	if s.pairHeads == heads && s.pairFrom == from {
		return s.pairs, s.pairCount
	}
	n, row := 0, 0
	for _, seq := range s.batch.Seqs {
		if row >= from {
			n += (seq.Rows*heads + attentionPairs - 1) / attentionPairs
		}
		row += seq.Rows
	}
	list, ints := s.take(3 * n)
	i := 0
	row = 0
	for _, seq := range s.batch.Seqs {
		for first := 0; row >= from && first < seq.Rows*heads; first += attentionPairs {
			ints[i], ints[i+1], ints[i+2] = int32(row), int32(first), int32(min(attentionPairs, seq.Rows*heads-first))
			i += 3
		}
		row += seq.Rows
	}
	s.pairs, s.pairHeads, s.pairFrom, s.pairCount = list, heads, from, n
	return list, n
}

package metal

import (
	"fmt"
	"slices"
)

type ropeStoreArgs struct {
	stride, heads, kvHeads, keyDim, valueDim, dims, pageSize uint32
	halves, biased, normed                                   uint32
	eps                                                      float32
	valuesNormed, valuesFromKeys                             uint32
}

func (o *ropeStore) portable(p *portable) { o.record(p.step, o.cache.kernels.ropeStore) }

// record records a RopeStore with a kernel, which is portable or NVIDIA's.
func (o *ropeStore) record(s *step, kernel Pipeline) {
	s.locate(o.cache, o.layer)
	qkv, in := into(o.qkv), s.stored(o.cache, o.layer)
	a := ropeStoreArgs{
		stride: uint32(o.qkv.Stride), heads: uint32(o.shape.Heads), kvHeads: uint32(o.shape.KVHeads), keyDim: uint32(o.shape.KeyDim),
		valueDim: uint32(o.shape.ValueDim), pageSize: uint32(o.cache.shape.PageSize), biased: flag(o.proj.Bias != nil), normed: flag(o.proj.QueryNorm != nil), eps: o.proj.Eps,
		valuesNormed: flag(o.proj.ValueNorm), valuesFromKeys: flag(o.proj.ValuesFromKeys),
	}
	angles := qkv
	if r := o.rope; r != nil {
		a.dims, a.halves, angles = uint32(r.dims), flag(r.halves), Binding{Buffer: r.buffer}
	}
	heads := o.shape.Heads + o.shape.KVHeads
	record(s, "rope_store", kernel, grid{x: (heads + storeGroups - 1) / storeGroups, y: o.qkv.Rows, simdgroups: storeGroups}, &a,
		qkv, angles, in.slots, in.keys, in.values, bind(o.proj.Bias, qkv), bind(o.proj.QueryNorm, qkv), bind(o.proj.KeyNorm, qkv))
}

type shortConvArgs struct {
	cols, stride, bStride, xStride, heads, keyDim, valueDim, pageSize, taps uint32
}

func (o *shortConv) portable(p *portable) {
	p.locate(o.cache, o.layer)
	in := p.stored(o.cache, o.layer)
	a := shortConvArgs{
		cols: uint32(o.c.Cols), stride: uint32(o.c.Stride), bStride: uint32(o.b.Stride), xStride: uint32(o.x.Stride), heads: uint32(o.shape.KVHeads),
		keyDim: uint32(o.shape.KeyDim), valueDim: uint32(o.shape.ValueDim), pageSize: uint32(o.cache.shape.PageSize),
		taps: uint32(weightOf(o.w).in / o.c.Cols),
	}
	kernels := o.cache.kernels
	record(p.step, "store_gated", kernels.storeGated, grid{x: o.x.Rows, y: 1, simdgroups: storeGroups}, &a, at(o.b), into(o.x), in.slots, in.keys, in.values)
	record(p.step, "short_conv", kernels.shortConv, byColumn(o.c.Cols, o.c.Rows), &a,
		into(o.c), at(o.x), bind(o.w, Binding{}), in.slots, in.keys, in.values, p.tables)
}

type latentsArgs struct {
	stride, dstStride, q, latent, dims, pageSize uint32
	eps                                          float32
}

// queryCols returns the number of values of the compressed query.
func (o *latents) queryCols() int {
	if o.qGain == nil {
		return 0
	}
	return o.qGain.in
}

func (o *latents) portable(p *portable) {
	p.locate(o.cache, o.layer)
	gain := Binding{Buffer: o.kvGain.buffer}
	dst, qGain, parts := o.t, gain, 1 // dst and qGain are bound, but not used without queries
	if o.qGain != nil {
		dst, qGain.Buffer, parts = o.dst, o.qGain.buffer, 2
	}
	a := latentsArgs{
		stride: uint32(o.t.Stride), dstStride: uint32(dst.Stride), q: uint32(o.queryCols()), latent: uint32(o.kvGain.in),
		dims: uint32(o.rope.dims), pageSize: uint32(o.cache.shape.PageSize), eps: o.eps,
	}
	groups := normGroups(max(o.kvGain.in, o.queryCols()))
	in := p.stored(o.cache, o.layer)
	record(p.step, "latents", o.cache.kernels.latents, grid{x: o.t.Rows, y: parts, simdgroups: groups, shared: 4 * groups}, &a,
		into(o.t), qGain, gain, Binding{Buffer: o.rope.buffer}, in.slots, in.keys, into(dst))
}

// portable records the rows before the first sequence with many rows, which are decoding rows, one
// by one, and all later rows in tiles.
func (o *attention) portable(p *portable) {
	chosen := o.cache.kernels.choose(o.shape)
	few := o.dst.Rows
	tile, ok := o.cache.kernels.tile(o.shape, chosen.pairs)
	if ok && !p.kernels.plainTiles {
		few = p.rowsBefore(chosen.tileFrom)
	}
	if few < o.dst.Rows {
		p.attentionTile(o, tile, few)
	}
	if few > 0 {
		p.attentionFew(o, chosen, few)
	}
}

// aligned reports whether four values of a key or of a value are aligned like a vector.
func (o *attention) aligned() bool {
	return o.shape.KeyDim%4 == 0 && o.shape.ValueDim%4 == 0 && alignedRows(o.q)
}

// attentionFew records the attention of the batch's first rows, which are processed one by one. If
// a row has many positions, they are split over several threadgroups, and a second dispatch joins
// the splits.
func (p *portable) attentionFew(o *attention, chosen attentionChoice, rows int) {
	shape, kernels := o.shape, o.cache.kernels
	a := o.args()
	longest := int(slices.Max(p.batch.Positions[:rows])) + 1
	splits := (longest + splitKeys - 1) / splitKeys
	if splits == 1 || longest < chosen.splitFrom || rows*shape.Heads*splits*(shape.ValueDim+2)*4 > p.scratch.bytes {
		splits = 0
	}
	a.splits = uint32(splits)
	g := grid{x: max(splits, 1), z: rows, concurrent: rows < o.dst.Rows}
	k, groups, room, ok := kernels.forRows(shape, chosen.heads, g.x*rows)
	if !ok {
		p.fail(fmt.Errorf("compute attention: no kernel supports heads with keys of length %d and values of length %d; use --backend cpu", shape.KeyDim, shape.ValueDim))
		return
	}
	g.y, g.simdgroups, g.shared = groups, attentionGroups, room
	in, sinks := p.stored(o.cache, o.layer), bind(shape.Sinks, at(o.q))
	record(p.step, "attention", k.choose(p, o.aligned()), g, &a, at(o.q), in.keys, in.values, in.slots, p.tables, p.scratch.write(), into(o.dst), sinks)
	if splits > 0 {
		record(p.step, "attention_join", p.kernels.attentionJoin, grid{x: (shape.ValueDim + 31) / 32, y: shape.Heads, z: rows, simdgroups: 1}, &a,
			p.scratch.read(), in.slots, into(o.dst), sinks)
	}
}

// attentionTile records, in tiles, the attention of the last rows of the batch. The parameter from
// is the index of the first of them, which must be the first row of a sequence.
func (p *portable) attentionTile(o *attention, k attentionKernel, from int) {
	tiles, n := p.pairTiles(o.shape.Heads/o.shape.KVHeads, from, k.pairs)
	a, in := o.args(), p.stored(o.cache, o.layer)
	record(p.step, "attention", k.choose(p, o.aligned()), grid{x: n, y: o.shape.KVHeads, simdgroups: attentionGroups, shared: k.room()}, &a,
		at(o.q), in.keys, in.values, in.slots, p.tables, tiles, into(o.dst), bind(o.shape.Sinks, at(o.q)))
}

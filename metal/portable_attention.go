package metal

import (
	"fmt"
	"slices"

	"github.com/ingot-run/ingot/engine/compute"
)

type ropeStoreArgs struct {
	stride, heads, kvHeads, keyDim, valueDim, dims, pageSize uint32
	halves, biased, normed                                   uint32
	eps                                                      float32
}

func (p *portable) RopeStore(qkv compute.Tensor, proj compute.Projection, shape compute.AttentionShape, table compute.Rope, kv compute.Cache, layer int) {
	c := kv.(*cache)
	p.locate(c, layer)
	a := ropeStoreArgs{
		stride: uint32(qkv.Stride), heads: uint32(shape.Heads), kvHeads: uint32(shape.KVHeads), keyDim: uint32(shape.KeyDim),
		valueDim: uint32(shape.ValueDim), pageSize: uint32(c.shape.PageSize), biased: flag(proj.Bias != nil), normed: flag(proj.QueryNorm != nil), eps: proj.Eps,
	}
	angles := at(qkv)
	if table != nil {
		r := table.(*rope)
		a.dims, a.halves, angles = uint32(r.dims), flag(r.halves), Binding{Buffer: r.buffer}
	}
	in := p.stored(c, layer)
	record(p.step, "rope_store", c.kernels.ropeStore, grid{x: qkv.Rows, y: 1, simdgroups: storeGroups}, &a,
		at(qkv), angles, in.slots, in.keys, in.values,
		bind(proj.Bias, at(qkv)), bind(proj.QueryNorm, at(qkv)), bind(proj.KeyNorm, at(qkv)))
}

type latentsArgs struct {
	stride, dstStride, q, latent, dims, pageSize uint32
	eps                                          float32
}

func (p *portable) Latents(dst, t compute.Tensor, qGain, kvGain compute.Weight, eps float32, table compute.Rope, kv compute.Cache, layer int) {
	c, r, w := kv.(*cache), table.(*rope), kvGain.(*weight)
	p.locate(c, layer)
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
	in := p.stored(c, layer)
	record(p.step, "latents", c.kernels.latents, grid{x: t.Rows, y: 1, simdgroups: groups, shared: 8 * groups}, &a,
		at(t), bind(qGain, gain), gain, Binding{Buffer: r.buffer}, in.slots, in.keys, at(dst))
}

// Attention implements compute.Step. Rows before the first sequence with many rows are decoding
// rows, which are processed one by one. All later rows are processed in tiles.
func (p *portable) Attention(dst, q compute.Tensor, shape compute.AttentionShape, kv compute.Cache, layer int) {
	c := kv.(*cache)
	chosen := c.kernels.choose(shape)
	few := dst.Rows
	if !p.kernels.plainTiles && shape.ValueDim <= 512 {
		few = p.rowsBefore(chosen.tileFrom)
	}
	if few < dst.Rows {
		p.attentionTile(dst, q, shape, c, layer, few)
	}
	if few > 0 {
		p.attentionFew(dst.Head(few), q, shape, c, layer, few < dst.Rows)
	}
}

// attentionFew records the attention of the batch's first dst.Rows rows, which are processed one by
// one. If a row has many positions, they are split over several threadgroups, and a second dispatch
// joins the splits.
func (p *portable) attentionFew(dst, q compute.Tensor, shape compute.AttentionShape, c *cache, layer int, concurrent bool) {
	chosen := c.kernels.choose(shape)
	a := attentionArgsOf(dst, q, shape, c)
	longest := int(slices.Max(p.batch.Positions[:dst.Rows])) + 1
	splits := (longest + splitKeys - 1) / splitKeys
	if splits == 1 || longest < chosen.splitFrom || dst.Rows*shape.Heads*splits*(shape.ValueDim+2)*4 > p.scratch.bytes {
		splits = 0
	}
	a.splits = uint32(splits)
	g := grid{x: max(splits, 1), z: dst.Rows, concurrent: concurrent}
	k, groups, room, ok := c.kernels.forSplits(shape, g.x*dst.Rows)
	if ok {
		g.y, g.simdgroups, g.shared = groups, attentionSplitGroups, room
	} else {
		if k, room, ok = c.kernels.forHeads(shape, chosen.heads); !ok {
			p.fail(fmt.Errorf("compute attention: no kernel supports heads with keys of length %d and values of length %d; use --backend cpu", shape.KeyDim, shape.ValueDim))
			return
		}
		units := shape.Heads / k.heads
		g.simdgroups = min(chosen.simdgroups, k.simdgroups, units, threadgroupBytes/room)
		g.y, g.shared = (units+g.simdgroups-1)/g.simdgroups, g.simdgroups*room
	}
	in := p.stored(c, layer)
	record(p.step, "attention", k.pipeline, g, &a,
		at(q), in.keys, in.values, in.slots, p.tables, Binding{Buffer: p.scratch.buffer}, at(dst), bind(shape.Sinks, at(q)))
	if splits > 0 {
		record(p.step, "attention_join", p.kernels.attentionJoin, grid{x: (shape.ValueDim + 31) / 32, y: shape.Heads, z: dst.Rows, simdgroups: 1}, &a,
			Binding{Buffer: p.scratch.buffer}, in.slots, at(dst), bind(shape.Sinks, at(q)))
	}
}

// attentionTile records, in tiles, the attention of the last rows of the batch. The parameter from
// is the index of the first of them, which must be the first row of a sequence.
func (p *portable) attentionTile(dst, q compute.Tensor, shape compute.AttentionShape, c *cache, layer, from int) {
	k := c.kernels.attentionTiles[0]
	if shape.ValueDim > 32*k.values {
		k = c.kernels.attentionTiles[1]
	}
	tiles, n := p.pairTiles(shape.Heads/shape.KVHeads, from)
	a, in := attentionArgsOf(dst, q, shape, c), p.stored(c, layer)
	record(p.step, "attention", k.pipeline, grid{x: n, y: shape.KVHeads, simdgroups: attentionTileGroups, shared: attentionTileBytes}, &a,
		at(q), in.keys, in.values, in.slots, p.tables, tiles, at(dst), bind(shape.Sinks, at(q)))
}

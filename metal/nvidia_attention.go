package metal

import (
	"fmt"
	"slices"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
)

// nvidiaAttention has the kernels of attention over pages of float16, by number of values per head.
type nvidiaAttention struct {
	whole, split map[int]*Pipeline
	join         Pipeline
}

// busyTiles is the minimum number of tiles of attention for which one threadgroup computes all
// splits of a tile. An H100 has 132 multiprocessors, so this many threadgroups occupy it. With
// fewer tiles, each split has a threadgroup, and another dispatch joins the splits.
const busyTiles = 128

func (a *nvidiaAttention) compile(dev Device, mode Mode) error {
	a.whole, a.split = map[int]*Pipeline{}, map[int]*Pipeline{}
	pipelines := map[string]*Pipeline{"attention_join": &a.join}
	for _, values := range []int{64, 128, 256, 512} {
		a.whole[values], a.split[values] = new(Pipeline), new(Pipeline)
		pipelines[fmt.Sprintf("attention_%d", values)], pipelines[fmt.Sprintf("attention_split_%d", values)] = a.whole[values], a.split[values]
	}
	return makePipelines(dev, mode, "attention.cu", pipelines)
}

func (n *nvidia) computesAttention(o *attention) bool {
	shape := &o.shape
	return n.whole[shape.ValueDim] != nil && shape.Window == 0 && shape.Sinks == nil && o.cache.shape.Type == gguf.TypeF16 && shape.KeyDim%32 == 0 &&
		attentionBytes(shape) <= n.memory
}

// attentionBytes returns the bytes of threadgroup memory that attention.cu needs. The arrays are
// listed in attend.
func attentionBytes(shape *compute.AttentionShape) int {
	query := shape.KeyDim
	if shape.KeyDim/32%2 == 0 {
		query += 32
	}
	bytes := attentionPairs*(4*(nvidiaSplitKeys+4)+2*(nvidiaSplitKeys+8)) + 4*nvidiaSplitKeys + 8*attentionPairs + 2*attentionPairs*query
	if shares := attentionWarps * 64 / shape.ValueDim; shares > 1 {
		bytes += shares * attentionPairs * 4 * shape.ValueDim
	}
	return bytes
}

// splitsOf returns the number of splits per row if few tiles are to be computed, each split by its
// own threadgroup. It is 0 if a threadgroup computes all splits of a tile, or if another kernel
// computes the attention.
func (n *nvidia) splitsOf(o *attention) int {
	if !n.computesAttention(o) {
		return 0
	}
	rows, shape := o.dst.Rows, &o.shape
	longest := int(slices.Max(n.batch.Positions[:rows])) + 1
	splits := (longest + nvidiaSplitKeys - 1) / nvidiaSplitKeys
	if splits == 1 || n.countPairTiles(shape.Heads/shape.KVHeads, 0)*shape.KVHeads >= busyTiles || rows*shape.Heads*splits*(shape.ValueDim+partHeader)*4 > n.scratch.bytes {
		return 0
	}
	return splits
}

// nvidia records an attention. If each split of a tile has its own threadgroup, a second dispatch
// joins the splits, unless the next operation's kernel does it.
func (o *attention) nvidia(n *nvidia) {
	if !n.computesAttention(o) {
		o.portable(n.general)
		return
	}
	shape := &o.shape
	tiles, count := n.pairTiles(shape.Heads/shape.KVHeads, 0)
	a := o.args()
	splits, p := n.splitsOf(o), n.whole[shape.ValueDim]
	if splits > 0 {
		p = n.split[shape.ValueDim]
	}
	a.splits = uint32(splits)
	in := n.stored(o.cache, o.layer)
	record(n.step, "attention", *p, grid{x: count, y: shape.KVHeads, z: splits, simdgroups: attentionWarps, shared: attentionBytes(shape)}, &a,
		at(o.q), in.keys, in.values, in.slots, n.tables, tiles, n.scratch.write(), into(o.dst))
	if splits > 0 && !o.continued {
		const simdgroups = 2
		g := grid{x: (shape.ValueDim + 32*simdgroups - 1) / (32 * simdgroups), y: shape.Heads, z: o.dst.Rows, simdgroups: simdgroups, shared: 8 * splits}
		record(n.step, "attention_join", n.join, g, &a, n.scratch.read(), n.slotMapping, into(o.dst))
	}
}

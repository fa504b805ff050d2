package metal

import (
	"fmt"
	"slices"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
)

// nvidiaAttention has the kernels of attention, by type of the pages.
type nvidiaAttention struct {
	ofPages map[gguf.Type]*attentionKernels
}

// attentionKernels are the kernels of attention over pages of a type. whole and split are by the
// number of values per head, up to which they compute attention.
type attentionKernels struct {
	whole, split [len(attentionValues)]Pipeline
	join         Pipeline
	// latent and latentSplit are the kernels of latent_attention.cu. latents reports whether the
	// device runs them on pages of this type.
	latents             bool
	latent, latentSplit Pipeline
}

var attentionValues = [...]int{64, 128, 256, 512}

// busyTiles is the minimum number of tiles of attention for which one threadgroup computes all
// splits of a tile. An H100 has 132 multiprocessors, so this many threadgroups occupy it. With
// fewer tiles, each split has a threadgroup, and another dispatch joins the splits.
const busyTiles = 128

func attentionSource(pages gguf.Type) (Source, error) {
	src, err := nvidiaSource("attention.cu")
	src.Name = fmt.Sprintf("%s for pages of %v", src.Name, pages)
	src.Text = fmt.Sprintf("#define PAGE Page%v\n", pages) + src.Text
	return src, err
}

// attendsPages reports whether attention.cu reads pages of a type. Those of F32 are for results as
// near to float32 as possible, but attention.cu multiplies float16, so the portable kernels read
// them.
func attendsPages(pages gguf.Type) bool { return pages != gguf.TypeF32 }

func (n *nvidia) pageSources(pages gguf.Type) ([]Source, error) {
	if !attendsPages(pages) {
		return nil, nil
	}
	src, err := attentionSource(pages)
	if err != nil || !n.latentPages(pages) {
		return []Source{src}, err
	}
	latent, err := nvidiaSource(latentFile)
	return []Source{src, latent}, err
}

func (n *nvidia) makePages(pages gguf.Type) error {
	if n.ofPages[pages] != nil || !attendsPages(pages) {
		return nil
	}
	src, err := attentionSource(pages)
	if err != nil {
		return err
	}
	k := &attentionKernels{}
	pipelines := map[string]*Pipeline{"attention_join": &k.join}
	for i, values := range attentionValues {
		pipelines[fmt.Sprintf("attention_%d", values)], pipelines[fmt.Sprintf("attention_split_%d", values)] = &k.whole[i], &k.split[i]
	}
	if err := makePipelines(n.device, n.mode, src, pipelines); err != nil {
		return err
	}
	if k.latents = n.latentPages(pages); k.latents {
		latents := map[string]*Pipeline{"latent_attention": &k.latent, "latent_attention_split": &k.latentSplit}
		if err := makeFilePipelines(n.device, n.mode, latentFile, latents); err != nil {
			return err
		}
	}
	n.ofPages[pages] = k
	return nil
}

// valuesIndex returns the index in attentionValues of the smallest number of values per head that
// is not less than the given number, or false if there is none.
func valuesIndex(values int) (int, bool) {
	i := slices.IndexFunc(attentionValues[:], func(most int) bool { return values <= most })
	return i, i >= 0
}

func (n *nvidia) computesAttention(o *attention) bool {
	shape := &o.shape
	_, ok := valuesIndex(shape.ValueDim)
	return ok && n.ofPages[o.cache.shape.Type] != nil && shape.KeyDim%8 == 0 && shape.ValueDim%8 == 0 && attentionBytes(shape) <= n.memory
}

// attentionBytes returns the bytes of threadgroup memory that attention.cu needs. The arrays are
// listed in attend.
func attentionBytes(shape *compute.AttentionShape) int {
	query := (shape.KeyDim + 31) / 32 * 32
	if query/32%2 == 0 {
		query += 32
	}
	bytes := attentionPairs*(4*(nvidiaSplitKeys+4)+2*(nvidiaSplitKeys+8)) + 4*nvidiaSplitKeys + 8*attentionPairs + 2*attentionPairs*query
	if i, ok := valuesIndex(shape.ValueDim); ok && attentionWarps*64 > attentionValues[i] {
		bytes += attentionWarps * 64 * attentionPairs * 4
	}
	return bytes
}

// splitRange is a range of splits of attention, of which each threadgroup computes some.
type splitRange struct{ first, count, each int }

// splitsOf returns the splits of the rows if few tiles are to be computed, whose splits are divided
// among threadgroups. The range is empty if a threadgroup computes all splits of a tile, or if
// another kernel computes the attention.
func (n *nvidia) splitsOf(o *attention) splitRange {
	if !n.computesAttention(o) {
		return splitRange{}
	}
	rows, shape := o.dst.Rows, &o.shape
	positions := n.batch.Positions[:rows]
	first := shape.First(int(slices.Min(positions))) / nvidiaSplitKeys
	count := int(slices.Max(positions))/nvidiaSplitKeys + 1 - first
	latents, pairs, busy := n.attendsLatents(o), attentionPairs, busyTiles
	if latents {
		pairs, busy = latentPairs, busyLatentTiles
	}
	tiles := n.countPairTiles(shape.Heads/shape.KVHeads, 0, pairs) * shape.KVHeads
	if count == 1 || tiles >= busy || rows*shape.Heads*count*(shape.ValueDim+partHeader)*4 > n.scratch.bytes {
		return splitRange{}
	}
	each := 1
	if latents {
		groups := max(latentWave/tiles, 1)
		each = (count + groups - 1) / groups
	}
	return splitRange{first, count, each}
}

type nvidiaAttentionArgs struct {
	attentionArgs
	first, quantised, each uint32
}

// latent reports whether values are the leading values of keys, as in MLA. An Expand then reads the
// result, head by head.
func (o *attention) latent() bool { return o.cache.shape.ValueCols == 0 }

// nvidia records an attention. If each split of a tile has its own threadgroup, a second dispatch
// joins the splits, unless the next operation's kernel does it.
func (o *attention) nvidia(n *nvidia) {
	if !n.computesAttention(o) {
		o.portable(n.general)
		return
	}
	shape, kernels, splits := &o.shape, n.ofPages[o.cache.shape.Type], n.splitsOf(o)
	i, _ := valuesIndex(shape.ValueDim)
	whole, split, pairs, memory := kernels.whole[i], kernels.split[i], attentionPairs, attentionBytes(shape)
	if n.attendsLatents(o) {
		whole, split, pairs, memory = kernels.latent, kernels.latentSplit, n.latentTile(o, splits), latentBytes(shape)
	}
	tiles, count := n.pairTiles(shape.Heads/shape.KVHeads, 0, pairs)
	p, groups := whole, 0
	if splits.count > 0 {
		p, groups = split, (splits.count+splits.each-1)/splits.each
	}
	a := nvidiaAttentionArgs{attentionArgs: o.args(), first: uint32(splits.first), each: uint32(splits.each)}
	a.splits = uint32(splits.count)
	dst := into(o.dst)
	packed := n.result(&o.fusion, &a.quantised, quantisedRows(o.dst, shape.Heads*shape.ValueDim, 1))
	in, sinks := n.stored(o.cache, o.layer), bind(shape.Sinks, at(o.q))
	record(n.step, "attention", p, grid{x: count, y: shape.KVHeads, z: groups, simdgroups: attentionWarps, shared: memory}, &a,
		at(o.q), in.keys, in.values, in.slots, n.tables, tiles, sinks, n.scratch.write(), dst, packed)
	if splits.count > 0 && !o.continued {
		const simdgroups = 2
		g := grid{x: (shape.ValueDim + 32*simdgroups - 1) / (32 * simdgroups), y: shape.Heads, z: o.dst.Rows, simdgroups: simdgroups, shared: 8 * splits.count}
		record(n.step, "attention_join", kernels.join, g, &a, n.scratch.read(), n.slotMapping, sinks, dst, packed)
	}
}

package metal

import (
	"fmt"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
)

// pageKernels are the pipelines of a type of KV pages.
type pageKernels struct {
	ropeStore, latents Pipeline
	attention          []attentionKernel
	attentionTiles     []attentionKernel
	attentionSplits    []attentionKernel // only on devices with Info.SplitAttention; the kernel with the most heads is first
	chosen             []attentionChoice // the choice for all shapes is last
}

// attentionKernel takes several query heads of one key head at once. A head has at most 32*values values.
type attentionKernel struct {
	values, heads int
	simdgroups    int // maximum
	pipeline      Pipeline
}

// attentionGeometry lists the kernels of attention.metal. Kernels for the same number of values are sorted by
// falling number of heads.
var attentionGeometry = []attentionKernel{
	{values: 4, heads: 4}, {values: 4, heads: 2}, {values: 4, heads: 1}, {values: 16, heads: 2}, {values: 16, heads: 1},
}

// attentionTileGeometry lists the kernels of attention_tile.metal.
var attentionTileGeometry = []attentionKernel{{values: 4}, {values: 16}}

// attentionChoice is a geometry of attention. in and out are the numbers of values of a key and of a value; if both are 0, the geometry
// is for all shapes.
type attentionChoice struct {
	in, out           int
	heads, simdgroups int // maximum heads and simdgroups per threadgroup
	splitFrom         int // minimum number of positions that are split
	tileFrom          int // minimum number of rows of a sequence for tiles
}

// forPages returns the pipelines of a type of KV pages. The pipelines of a type are made once.
func (k *kernelSet) forPages(t gguf.Type) (*pageKernels, error) {
	if have, ok := k.pages[t]; ok {
		return have, nil
	}
	m := maker{set: k}
	name := t.String()
	made := &pageKernels{ropeStore: m.pipeline("store.metal", "rope_store_"+name), latents: m.pipeline("store.metal", "latents_"+name)}
	for _, a := range attentionGeometry {
		a.pipeline = m.pipeline("attention.metal", fmt.Sprintf("attention_%s_v%d_q%d", name, a.values, a.heads))
		a.simdgroups = m.simdgroups(a.pipeline)
		made.attention = append(made.attention, a)
	}
	for _, a := range attentionTileGeometry {
		a.pipeline = m.pipeline("attention_tile.metal", fmt.Sprintf("attention_tile_%s_c%d", name, a.values))
		made.attentionTiles = append(made.attentionTiles, a)
	}
	if k.device.Info().SplitAttention {
		for _, heads := range []int{4, 2, 1} {
			a := attentionKernel{values: 16, heads: heads, simdgroups: attentionSplitGroups}
			a.pipeline = m.pipeline("attention_split.metal", fmt.Sprintf("attention_split_%s_q%d", name, heads))
			made.attentionSplits = append(made.attentionSplits, a)
		}
	}
	for _, c := range k.geometry {
		if c.In > 0 && (c.Kernel == Attention || c.Kernel == AttentionTile) {
			made.chosen = append(made.chosen, k.attentionFor(t, c.In, c.Out))
		}
	}
	made.chosen = append(made.chosen, k.attentionFor(t, 0, 0))
	if m.err != nil {
		return nil, m.err
	}
	k.pages[t] = made
	return made, nil
}

func (k *kernelSet) attentionFor(t gguf.Type, in, out int) attentionChoice {
	few, many := k.geometry.find(Attention, t, in, out, 0), k.geometry.find(AttentionTile, t, in, out, 0)
	return attentionChoice{in, out, few.Rows, few.Simdgroups, few.From, many.From}
}

// choose returns the geometry for a shape.
func (k *pageKernels) choose(shape compute.AttentionShape) attentionChoice {
	for _, c := range k.chosen {
		if c.in == shape.KeyDim && c.out == shape.ValueDim {
			return c
		}
	}
	return k.chosen[len(k.chosen)-1]
}

// forHeads returns the kernel for at most maxHeads heads of a shape. room is the bytes of threadgroup memory per simdgroup. ok is
// false if there is no such kernel.
func (k *pageKernels) forHeads(shape compute.AttentionShape, maxHeads int) (a attentionKernel, room int, ok bool) {
	for _, a := range k.attention {
		room := 4 * (a.heads*((shape.KeyDim+3)&^3+32) + 32)
		if shape.ValueDim <= 32*a.values && shape.Heads/shape.KVHeads%a.heads == 0 && a.heads <= maxHeads && room <= threadgroupBytes {
			return a, room, true
		}
	}
	return a, 0, false
}

// attentionSplitGroups is the number of simdgroups of a threadgroup of attention_split.metal: one per block of 32 keys.
const attentionSplitGroups = splitKeys / 32

// forSplits returns the kernel for threadgroups over splits of the keys. groups is the number of threadgroups per split of a row,
// room the bytes of threadgroup memory. ok is false if there is no such kernel. Kernels for many heads read keys less often, but
// with few rows and splits they would leave the GPU idle.
func (k *pageKernels) forSplits(shape compute.AttentionShape, rowSplits int) (a attentionKernel, groups, room int, ok bool) {
	const busy = 64 // threadgroups that occupy a GPU
	for _, each := range k.attentionSplits {
		bytes := 4 * (each.heads*((shape.KeyDim+3)&^3+splitKeys+3*attentionSplitGroups) + splitKeys)
		if shape.ValueDim > 32*each.values || bytes > threadgroupBytes || ok && groups*rowSplits >= busy {
			continue
		}
		heads := shape.Heads / shape.KVHeads
		a, groups, room, ok = each, shape.KVHeads*((heads+each.heads-1)/each.heads), bytes, true
	}
	return a, groups, room, ok
}

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
	chosen             []attentionChoice // that for all shapes last
}

// attentionKernel takes heads query heads of a key head at once, with up to 32*values values each.
type attentionKernel struct {
	values, heads int
	simdgroups    int // at most
	pipeline      Pipeline
}

// attentionGeometry is the kernels of attention.metal; of those for as many values, the one with most heads first.
var attentionGeometry = []attentionKernel{
	{values: 4, heads: 4}, {values: 4, heads: 2}, {values: 4, heads: 1}, {values: 16, heads: 2}, {values: 16, heads: 1},
}

// attentionTileGeometry is the kernels of attention_tile.metal.
var attentionTileGeometry = []attentionKernel{{values: 4}, {values: 16}}

// attentionChoice is the geometry of attentions with keys of in and values of out values; of all where these are 0.
type attentionChoice struct {
	in, out           int
	heads, simdgroups int // heads at most
	splitFrom         int // positions
	tileFrom          int // rows of a sequence
}

// forPages makes the pipelines of a type of KV pages, once.
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

// choose returns the geometry of an attention.
func (k *pageKernels) choose(shape compute.AttentionShape) attentionChoice {
	for _, c := range k.chosen {
		if c.in == shape.KeyDim && c.out == shape.ValueDim {
			return c
		}
	}
	return k.chosen[len(k.chosen)-1]
}

// forHeads chooses the kernel for heads of a shape, and gives the threadgroup memory that a simdgroup needs.
func (k *pageKernels) forHeads(shape compute.AttentionShape, most int) (a attentionKernel, room int, ok bool) {
	for _, a := range k.attention {
		room := 4 * (a.heads*((shape.KeyDim+3)&^3+32) + 32)
		if shape.ValueDim <= 32*a.values && shape.Heads/shape.KVHeads%a.heads == 0 && a.heads <= most && room <= threadgroupBytes {
			return a, room, true
		}
	}
	return a, 0, false
}

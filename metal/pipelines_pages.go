package metal

import (
	"fmt"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
)

// pageKernels are the pipelines for one type of KV pages.
type pageKernels struct {
	ropeStore, latents    Pipeline
	storeGated, shortConv Pipeline
	attention             []attentionKernel // sorted by falling number of heads
	attentionTiles        []attentionKernel
	chosen                []attentionChoice // choices for single shapes, then the choice for all shapes
}

// attentionKernel is a kernel that processes several query heads of one key head at once. heads is
// the maximum number of these query heads. The kernel supports heads whose values have up to
// 32*values dimensions.
type attentionKernel struct {
	values, heads int
	pairs         int // of attention_tile: maximum number of pairs of a tile
	byAlignment
	fits bool // the device allows the kernel's number of threads
}

// attentionTemplate is a kernel template that computes attention. letters has a letter for each
// template argument after the type of pages: c for values, q for heads, p for pairs, in eights.
type attentionTemplate struct {
	file, kernel, letters string
	instances             []attentionKernel
}

var (
	attentionFew   = attentionTemplate{"attention.metal", "attention", "q", []attentionKernel{{values: 16, heads: 4}, {values: 16, heads: 2}, {values: 16, heads: 1}}}
	attentionTiles = attentionTemplate{"attention_tile.metal", "attention_tile", "cp",
		[]attentionKernel{{values: 4, pairs: 16}, {values: 16, pairs: 16}, {values: 4, pairs: mostPairs}, {values: 16, pairs: mostPairs}}}
)

// mostPairs is the number of pairs of attention_tile's larger tiles. Names of kernels do not
// include it.
const mostPairs = 32

// instance returns the name of an instance, such as attention_F16_q2, and its template
// arguments.
func (a *attentionTemplate) instance(k attentionKernel, t gguf.Type) (name, arguments string) {
	name, arguments = fmt.Sprintf("%s_%v", a.kernel, t), fmt.Sprintf("Page%v", t)
	for _, letter := range a.letters {
		n := k.values
		switch letter {
		case 'q':
			n = k.heads
		case 'p':
			n = k.pairs / 8
		}
		arguments += fmt.Sprintf(", %d", n)
		if letter != 'p' || k.pairs != mostPairs {
			name += fmt.Sprintf("_%c%d", letter, n)
		}
	}
	return name, arguments
}

// attentionChoice is a geometry of attention. in and out are the lengths of a key and of a value
// for which it was chosen; 0 stands for all shapes.
type attentionChoice struct {
	in, out   int
	heads     int // maximum number of heads at once
	splitFrom int // minimum number of positions for which the keys are split
	tileFrom  int // minimum number of rows of a sequence for which tiles are used
	pairs     int // maximum number of pairs of a tile
}

// forPages returns the pipelines of a type of KV pages. The pipelines of a type are made once.
func (k *kernelSet) forPages(t gguf.Type) (*pageKernels, error) {
	if have, ok := k.pages[t]; ok {
		return have, nil
	}
	m := maker{set: k, kind: t.String()}
	name := t.String()
	made := &pageKernels{ropeStore: m.pipeline("store.metal", "rope_store_"+name, 1), latents: m.pipeline("store.metal", "latents_"+name, 1)}
	made.storeGated, made.shortConv = m.pipeline("store.metal", "store_gated_"+name, 1), m.pipeline("store.metal", "short_conv_"+name, 1)
	made.attention = m.attention(&attentionFew, t)
	made.attentionTiles = m.attention(&attentionTiles, t)
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

func (m *maker) attention(template *attentionTemplate, t gguf.Type) (list []attentionKernel) {
	for _, a := range template.instances {
		name, _ := template.instance(a, t)
		a.byAlignment = m.byAlignment(template.file, name, t, 0)
		a.fits = m.simdgroups(a.aligned) >= attentionGroups
		list = append(list, a)
	}
	return list
}

func (k *kernelSet) attentionFor(t gguf.Type, in, out int) attentionChoice {
	few, many := k.geometry.find(Attention, t, in, out, 0), k.geometry.find(AttentionTile, t, in, out, 0)
	return attentionChoice{in, out, few.Rows, few.From, many.From, many.Rows}
}

func (k *pageKernels) choose(shape compute.AttentionShape) attentionChoice {
	for _, c := range k.chosen {
		if c.in == shape.KeyDim && c.out == shape.ValueDim {
			return c
		}
	}
	return k.chosen[len(k.chosen)-1]
}

// tile returns the kernel for many rows of a sequence, with at most the given number of pairs per
// tile. ok is false if there is none whose number of threads the device allows.
func (k *pageKernels) tile(shape compute.AttentionShape, pairs int) (found attentionKernel, ok bool) {
	for _, a := range k.attentionTiles {
		if a.fits && shape.ValueDim <= 32*a.values && a.pairs <= pairs && (!ok || a.pairs > found.pairs) {
			found, ok = a, true
		}
	}
	return found, ok
}

// room returns the threadgroup memory of attention_tile in bytes.
func (a *attentionKernel) room() int {
	staged := 64*keyStride + 4*(8*(a.pairs+4)+4) // floats for 32 dimensions of keys and queries
	return 4 * (max(2*staged, scoresAt+64*(a.pairs+4)) + 9*a.pairs + 64)
}

// forRows returns the kernel for rows that are processed one by one, with at most maxHeads query
// heads at once. rowSplits is the number of splits of all rows. groups is the number of
// threadgroups per split of a row, room the threadgroup memory in bytes. ok is false if there is no
// such kernel. A kernel for more heads reads keys less often, but with few splits it has too few
// threadgroups to occupy the GPU.
func (k *pageKernels) forRows(shape compute.AttentionShape, maxHeads, rowSplits int) (a attentionKernel, groups, room int, ok bool) {
	const busy = 64 // number of threadgroups that occupies a GPU
	for _, each := range k.attention {
		bytes := 4 * (each.heads*((shape.KeyDim+3)&^3+splitKeys+3*attentionGroups) + splitKeys)
		if !each.fits || shape.ValueDim > 32*each.values || each.heads > maxHeads || bytes > threadgroupBytes || ok && groups*rowSplits >= busy {
			continue
		}
		heads := shape.Heads / shape.KVHeads
		a, groups, room, ok = each, shape.KVHeads*((heads+each.heads-1)/each.heads), bytes, true
	}
	return a, groups, room, ok
}

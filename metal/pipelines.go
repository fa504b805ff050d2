package metal

import (
	"fmt"

	"github.com/ingot-run/ingot/engine/gguf"
)

// sources are the kernel files, in the order in which they are compiled.
var sources = []string{
	"rows.metal", "norm.metal", "product.metal", "absorb.metal", "store.metal", "attention.metal", "experts.metal",
	"tiles.metal", "expert_tiles.metal", "sample.metal",
	"attention_tile.metal",
}

// geometry is how a product is spread over a GPU: a simdgroup takes rows of weights and inputs of activations, and a
// threadgroup has simdgroups. None of them changes a result.
type geometry struct {
	rows, inputs, simdgroups int
}

// The geometries of the products, by the number of activations that they take at once. They are those that products.metal
// and its neighbours have kernels of; simdgroups is free.
var (
	productGeometry = []geometry{{4, 1, 2}, {4, 2, 2}, {4, 4, 2}, {2, 8, 4}}
	gatedGeometry   = []geometry{{2, 1, 2}, {2, 2, 2}, {2, 4, 2}, {1, 8, 4}}
	absorbGeometry  = []geometry{{4, 1, 2}, {2, 8, 4}}
	gatedExperts    = geometry{2, 1, 2}
	expertsAdd      = geometry{4, 1, 2}
)

// threads of the kernels that have no geometry.
const (
	embedThreads     = 32
	copyThreads      = 64
	mostNormGroups   = 8 // simdgroups
	attentionGroups  = 4 // simdgroups, of a head each
	storeGroups      = 4
	routeGroups      = 16
	topGroups        = 16
	splitKeys        = 256 // split_keys of attention.metal
	threadgroupBytes = 32 << 10

	tileSize     = 32 // tile_size of tile.h
	tileGroups   = 4
	tileBytes    = 4 * 2 * tileSize * 36
	groupThreads = 64 // of group_experts

	attentionPairs     = 16 // pairs of attention_tile.metal
	attentionTileBytes = 4 * (4*32*36 + attentionPairs*(36+8) + 32)
)

// compiled is a product's kernel with its geometry.
type compiled struct {
	geometry
	pipeline Pipeline
}

// groups is the number of threadgroups over out rows of weights.
func (c compiled) groups(out int) int {
	each := c.rows * c.simdgroups
	return (out + each - 1) / each
}

// forRows chooses the kernel that takes all rows at once, or else the one that takes the most.
func forRows(kernels []compiled, rows int) compiled {
	for _, k := range kernels {
		if k.inputs >= rows {
			return k
		}
	}
	return kernels[len(kernels)-1]
}

// typeKernels are the pipelines of a type of weights.
type typeKernels struct {
	embed, route           Pipeline
	product, gated, absorb []compiled
	gatedExperts           compiled
	expertsAdd             compiled

	productTile, gatedTile, expertGatedTile, expertDownTile Pipeline
}

// pageKernels are the pipelines of a type of KV pages.
type pageKernels struct {
	ropeStore, latents Pipeline
	attention          []attentionKernel
	attentionTiles     []attentionKernel
}

// attentionKernel takes heads query heads of a key head at once, with up to 32*values values each.
type attentionKernel struct {
	values, heads int
	pipeline      Pipeline
}

// attentionGeometry is the kernels of attention.metal, the best first.
var attentionGeometry = []attentionKernel{{values: 4, heads: 4}, {values: 4, heads: 1}, {values: 16, heads: 2}, {values: 16, heads: 1}}

// attentionTileGeometry is the kernels of attention_tile.metal.
var attentionTileGeometry = []attentionKernel{{values: 4}, {values: 16}}

// kernelSet is the compiled kernels. Pipelines are made as models name the types that they need, before the first step.
type kernelSet struct {
	device    Device
	mode      Mode
	libraries map[string]Library
	types     map[gguf.Type]*typeKernels
	pages     map[gguf.Type]*pageKernels

	plainTiles bool // whether tiles do without simdgroup matrices

	norm, gather, gate, attentionJoin Pipeline
	groupExperts, weighExperts, top   Pipeline
}

func newKernelSet(dev Device, mode Mode, progress func(done, total int)) (*kernelSet, error) {
	k := &kernelSet{device: dev, mode: mode, libraries: map[string]Library{}, types: map[gguf.Type]*typeKernels{}, pages: map[gguf.Type]*pageKernels{}}
	for i, name := range sources {
		if progress != nil {
			progress(i, len(sources))
		}
		src, err := Kernel(name)
		if err != nil {
			return nil, err
		}
		if k.libraries[name], err = dev.Compile(src, mode); err != nil {
			return nil, err
		}
	}
	m := maker{set: k}
	k.norm, k.gather = m.pipeline("norm.metal", "rms_norm"), m.pipeline("rows.metal", "gather")
	k.gate, k.attentionJoin = m.pipeline("product.metal", "gate"), m.pipeline("attention.metal", "attention_join")
	k.groupExperts, k.weighExperts = m.pipeline("expert_tiles.metal", "group_experts"), m.pipeline("expert_tiles.metal", "weigh_experts")
	k.top = m.pipeline("sample.metal", "top")
	if progress != nil {
		progress(len(sources), len(sources))
	}
	return k, m.err
}

// maker makes pipelines up to the first error.
type maker struct {
	set *kernelSet
	err error
}

func (m *maker) pipeline(file, name string, constants ...Constant) (p Pipeline) {
	if m.err == nil {
		p, m.err = m.set.device.Pipeline(m.set.libraries[file], name, constants)
	}
	return p
}

// tile makes a pipeline of a kernel over tile.h.
func (m *maker) tile(file, name string) Pipeline {
	return m.pipeline(file, name, Constant{Index: 0, Value: flag(m.set.plainTiles)})
}

func (m *maker) products(file, name string, geometries []geometry) []compiled {
	list := make([]compiled, len(geometries))
	for i, g := range geometries {
		list[i] = compiled{g, m.pipeline(file, fmt.Sprintf("%s_r%d_n%d", name, g.rows, g.inputs))}
	}
	return list
}

// forType makes the pipelines of a type of weights, once.
func (k *kernelSet) forType(t gguf.Type) (*typeKernels, error) {
	if have, ok := k.types[t]; ok {
		return have, nil
	}
	m := maker{set: k}
	name := t.String()
	made := &typeKernels{
		embed:        m.pipeline("rows.metal", "embed_"+name),
		route:        m.pipeline("experts.metal", "route_"+name),
		product:      m.products("product.metal", "product_"+name, productGeometry),
		gated:        m.products("product.metal", "gated_product_"+name, gatedGeometry),
		absorb:       m.products("absorb.metal", "absorb_"+name, absorbGeometry),
		gatedExperts: compiled{gatedExperts, m.pipeline("experts.metal", fmt.Sprintf("gated_experts_%s_r%d", name, gatedExperts.rows))},
		expertsAdd:   compiled{expertsAdd, m.pipeline("experts.metal", fmt.Sprintf("experts_add_%s_r%d", name, expertsAdd.rows))},

		productTile:     m.tile("tiles.metal", "product_tile_"+name),
		gatedTile:       m.tile("tiles.metal", "gated_tile_"+name),
		expertGatedTile: m.tile("expert_tiles.metal", "expert_gated_tile_"+name),
		expertDownTile:  m.tile("expert_tiles.metal", "expert_down_tile_"+name),
	}
	if m.err != nil {
		return nil, m.err
	}
	k.types[t] = made
	return made, nil
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
		made.attention = append(made.attention, a)
	}
	for _, a := range attentionTileGeometry {
		a.pipeline = m.pipeline("attention_tile.metal", fmt.Sprintf("attention_tile_%s_c%d", name, a.values))
		made.attentionTiles = append(made.attentionTiles, a)
	}
	if m.err != nil {
		return nil, m.err
	}
	k.pages[t] = made
	return made, nil
}

package metal

import (
	"fmt"
	"slices"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
)

const (
	blockValues = 32  // values that share a scale
	rowThreads  = 128 // threads per threadgroup of kernels without a geometry
	// rowBlockBytes is the threadgroup memory for a block of a row of activations.
	rowBlockBytes = 64
	// rowPartBytes is the threadgroup memory for the partial sums of one choice (an expert of the
	// row) in row_experts_add.
	rowPartBytes = 640
	// joinedBytes is the threadgroup memory for the sums of a strand of a column (Parts of tile.h).
	joinedBytes = 80
	// shortRow is the maximum number of blocks of a row for row_product_short.
	shortRow = 32
	// longRow is the maximum number of blocks of a row that a kernel for one row makes itself. Each
	// of its threadgroups does, so for longer rows a kernel before it is faster.
	longRow = 64
	// wideRows is the minimum number of rows of weights for which threadgroups of 64 rows occupy
	// the whole GPU.
	wideRows = 16384
)

// anyTypeKernels are the pipelines of kernels that do not depend on the type of weights.
type anyTypeKernels struct{ quantise, norm, chain, gate, latents, rotate Pipeline }

// packedKernels are the pipelines for weights of a type.
type packedKernels struct {
	pack, embed, group, weigh Pipeline

	product, gated, gatedExperts, expertsDown []packedKernel // by columns, ascending
	small                                     packedKernel
	productTiles, gatedTiles                  []packedKernel // for many columns; by rows, descending
	splits                                    []packedKernel // by rows, ascending
	balanced                                  packedKernel   // for some more tiles than run at the same time, if the GPU can
	// The kernels that copy whole groups of weights, if the GPU can; by columns, ascending.
	fetchedProduct, fetchedGated, fetchedExperts, fetchedDown []packedKernel
	// row, shortRow, rowGatedProduct and rowExperts take one row of activations and quantise it
	// themselves; rowGated takes one quantised row. All of them stage their weights in threadgroup
	// memory. The simdgroups of rowExperts and rowExpertsFew are counted per choice.
	row, shortRow, rowGatedProduct, rowGated, rowExperts, rowExpertsFew packedKernel
}

// forColumns returns the smallest kernel that takes all columns at once. If there is none, it
// returns the largest kernel that the device has threadgroup memory for.
func (n *nvidia) forColumns(kernels []packedKernel, columns int) (largest packedKernel) {
	for _, k := range kernels {
		if !k.algorithm.fits(n.memory) {
			break
		}
		if largest = k; k.algorithm.columns() >= columns {
			break
		}
	}
	return largest
}

// maxFetched is the maximum number of bytes of weights that a threadgroup fetches, so that four of
// them run on a multiprocessor of an H100 at the same time. maxTall is the limit of the kernels for
// more rows of activations; three of those threadgroups run at a time.
const maxFetched, maxTall = 54 << 10, 74 << 10

// memory returns the threadgroup memory for products with a weight and, unless it is nil, another
// one. Fetched has the weights there, and then the sums of the strands.
func (k packedKernel) memory(w, other *weight) int {
	if !k.algorithm.fetches() {
		return k.algorithm.memory()
	}
	bytes := groupBytes(w)
	if other != nil {
		bytes = max(bytes, groupBytes(other))
	}
	return k.algorithm.groups() * max(bytes, strands*k.algorithm.columns()*joinedBytes)
}

// fetches returns the first kernel with Fetched that takes all columns of a tile at once, for some
// rows of activations. It returns otherwise if there is none, or if a threadgroup cannot fetch its
// rows of both weights. other may be nil.
func (n *nvidia) fetches(kernels []packedKernel, otherwise packedKernel, columns, rows int, w, other *weight) packedKernel {
	for _, k := range kernels {
		limit := maxFetched
		if k.from > 0 {
			limit = maxTall
		}
		if k.algorithm.columns() >= columns && rows >= k.from && k.memory(w, other) <= min(limit, n.memory/2) {
			return k
		}
	}
	return otherwise
}

const (
	// minTileRows is the minimum number of rows of activations for a tile of products.
	minTileRows = 33
	// fewThreadgroups is the maximum number of threadgroups for which twice as many, of half the
	// rows of weights, are faster.
	fewThreadgroups = 128
)

// threadgroups returns the number of threadgroups of k for the products of weights with columns.
func threadgroups(k packedKernel, ws []compute.Weight, columns int) (count int) {
	for _, w := range ws {
		count += weightOf(w).matrices * k.groups(weightOf(w).out) * k.tiles(columns)
	}
	return count
}

// tileFor returns the first tile of which enough threadgroups share the products of weights with
// columns, or false if there is none. kernel is the geometry's name of the operation.
func (n *nvidia) tileFor(kernel string, tiles []packedKernel, ws []compute.Weight, columns int) (packedKernel, bool) {
	limits, given := n.tiles[kernel]
	i := slices.IndexFunc(tiles, func(k packedKernel) bool {
		from, busy := k.from, k.busy
		if given {
			from, busy = limits.rows, limits.threadgroups
		}
		return columns >= from && k.takes(weightOf(ws[0]), columns) && k.algorithm.fits(n.memory) && (limits.tall == 0 || k.rows() <= limits.tall) && k.fills(threadgroups(k, ws, columns), busy)
	})
	if i < 0 {
		return packedKernel{}, false
	}
	return tiles[i], true
}

// forGated returns the kernel for a gated product.
func (n *nvidia) forGated(w *packedWeight, columns int) packedKernel {
	if k, ok := n.tileFor(GatedTile, w.packed.gatedTiles, []compute.Weight{w}, columns); ok {
		return k
	}
	return n.fetches(w.packed.fetchedGated, n.forColumns(w.packed.gated, columns), columns, columns, &w.weight, nil)
}

// packedWeight is a weight whose rows are packed for products of integers.
type packedWeight struct {
	weight
	packed *packedKernels
	floats *weight // copy in float32; nil until a step needs it
}

// nvidiaWeights has the kernels for packed weights, and the memory for quantised activations.
type nvidiaWeights struct {
	mode    Mode
	ofType  map[gguf.Type]*packedKernels
	anyType *anyTypeKernels // of the library for the first packed weight; nil without packed weights

	staging     room      // receives tensors before they are packed
	activations room      // quantised rows
	quantised   quantised // the contents of activations
	quantisedAt int       // their offset
	counters    room      // of the tiles of split products; each is a multiple of the number of strands between dispatches
}

// maxActivations is the maximum number of bytes for quantised activations. An operation that needs
// more bytes is done in parts.
const maxActivations = 64 << 20

func (n *nvidia) load(w *weight, data []byte, action string) (compute.Weight, error) {
	if !packs(w) {
		return n.general.load(w, data, action)
	}
	kernels, err := n.packedKernels(w.kind)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", action, err)
	}
	made := &packedWeight{weight: *w, packed: kernels}
	if err := n.pack(made, data, action); err != nil {
		return nil, err
	}
	if err := n.reserve(n.sizes(w).scratch); err != nil {
		return nil, fmt.Errorf("%s: %w", action, err)
	}
	return made, nil
}

func (n *nvidia) sizes(w *weight) weightSizes {
	if !packs(w) {
		return n.general.sizes(w)
	}
	rows, limit := scratchRows, maxScratch
	if w.matrices > 1 {
		rows, limit = 4*scratchRows, expertScratch
	}
	return weightSizes{packedBytes(w), w.fileBytes(), scratchFor(w, rows, limit)}
}

func (n *nvidia) sources(t gguf.Type) ([]Source, error) {
	if _, packed := packedSizes[t]; !packed {
		return n.general.sources(t)
	}
	src, err := weightsSource(t, n.hopper)
	return []Source{src}, err
}

// packs reports whether a weight is packed: if there is a layout for its type, and if its rows are
// whole blocks, which types without blocks do not guarantee.
func packs(w *weight) bool {
	_, packed := packedSizes[w.kind]
	return packed && w.in%blockValues == 0
}

// packedKernels returns the kernels for weights of a type, which are made once.
func (n *nvidia) packedKernels(t gguf.Type) (*packedKernels, error) {
	if have, ok := n.ofType[t]; ok {
		return have, nil
	}
	src, err := weightsSource(t, n.hopper)
	if err != nil {
		return nil, err
	}
	lib, err := n.device.Compile(src, n.mode)
	if err != nil {
		return nil, err
	}
	pipeline := func(name string) (p Pipeline) {
		if err == nil {
			p, err = n.device.Pipeline(lib, name, nil)
		}
		return p
	}
	geometry := packedGeometry(t, n.hopper)
	kernel := func(name string) packedKernel {
		k := geometry[name]
		k.pipeline = pipeline(name)
		return k
	}
	kernels := func(name string, columns ...int) (list []packedKernel) {
		for _, n := range columns {
			list = append(list, kernel(fmt.Sprintf("%s_%d", name, n)))
		}
		return list
	}
	k := &packedKernels{
		pack: pipeline("pack_weights"), embed: pipeline("embed_rows"), group: pipeline("group_choices"), weigh: pipeline("weigh_choices"),
		product: kernels("product", 8, 16, 32), gated: kernels("gated_product", 1, 8, 16, 32, 64),
		gatedExperts: kernels("gated_experts", 8, 32, 64), expertsDown: kernels("experts_down", 8, 32, 64),
		small: kernel("product_32_small"), productTiles: []packedKernel{kernel("product_tile"), kernel("product_tile_short")}, gatedTiles: []packedKernel{kernel("gated_product_tile")},
		row: kernel("row_product"), shortRow: kernel("row_product_short"), rowGatedProduct: kernel("row_gated_product"),
		rowGated: kernel("row_gated_experts"), rowExperts: kernel("row_experts_add"), rowExpertsFew: kernel("row_experts_few"),
	}
	if n.hopper {
		k.balanced = kernel("balanced_product")
		k.gatedExperts = append(k.gatedExperts, kernel("gated_experts_128"))
		k.expertsDown = append(k.expertsDown, kernel("experts_down_128"))
	}
	if n.hopper && partsOf(t) == 1 {
		k.splits = []packedKernel{kernel("split_product_short"), kernel("split_product")}
		k.productTiles = append([]packedKernel{kernel("product_bulk")}, k.productTiles...)
		k.gatedTiles = append([]packedKernel{kernel("gated_product_bulk"), kernel("gated_product_bulk_short")}, k.gatedTiles...)
		k.fetchedProduct, k.fetchedGated = kernels("fetched_product", 8, 16), kernels("fetched_gated", 8, 16)
		k.fetchedExperts, k.fetchedDown = []packedKernel{kernel("fetched_experts_8_tall"), kernel("fetched_experts_8")},
			[]packedKernel{kernel("fetched_down_8_tall"), kernel("fetched_down_8"), kernel("fetched_down_8_short")}
	}
	anyType := n.anyType
	if anyType == nil {
		anyType = &anyTypeKernels{
			pipeline("quantise_rows"), pipeline("norm_quantise"), pipeline("norm_chain"), pipeline("gate_rows"), pipeline("latents"), pipeline("rotate_queries"),
		}
	}
	if err != nil {
		return nil, err
	}
	n.ofType[t], n.anyType = k, anyType
	return k, nil
}

// packedSizes describes a packed group of rows with the sizes of weights.h: bytes of a
// super-block's header, bytes of a block, and blocks per super-block. Weights of other types are
// not packed.
var packedSizes = map[gguf.Type]struct{ header, block, blocks int }{
	gguf.TypeQ40: {0, 288, 1}, gguf.TypeQ41: {0, 320, 1}, gguf.TypeQ50: {0, 352, 1}, gguf.TypeQ51: {0, 384, 1}, gguf.TypeQ80: {0, 544, 1},
	gguf.TypeQ2K: {64, 160, 8}, gguf.TypeQ3K: {32, 224, 8}, gguf.TypeQ4K: {64, 288, 8}, gguf.TypeQ5K: {64, 352, 8}, gguf.TypeQ6K: {32, 416, 8},
	gguf.TypeIQ4NL: {0, 288, 1}, gguf.TypeIQ4XS: {32, 272, 8}, gguf.TypeMXFP4: {0, 272, 1}, gguf.TypeF16: {0, 1024, 1}, gguf.TypeBF16: {0, 1024, 1},
}

// partsOf returns the number of parts of the activations that are multiplied with weights of a type
// (see activations.h). Weights of 16 bits keep 8 bits or more per value, and activations in float16
// would lose as much as they do.
func partsOf(t gguf.Type) int {
	if t.BlockSize() == 1 {
		return 2
	}
	return 1
}

// activationBlocks returns the number of blocks of a row of activations for a packed weight.
func (w *weight) activationBlocks() int { return w.in / blockValues * partsOf(w.kind) }

func packedBytes(w *weight) int {
	return w.matrices * ((w.out + groupRows - 1) / groupRows) * groupBytes(w)
}

func groupBytes(w *weight) int {
	size := packedSizes[w.kind]
	return w.in / blockValues / size.blocks * (size.header + size.blocks*size.block)
}

// packArgs is PackArgs of pack.h.
type packArgs struct{ blocks, rowBytes, rows, groups uint32 }

// pack uploads a weight's data and packs the weight. Errors begin with action.
func (n *nvidia) pack(w *packedWeight, data []byte, action string) error {
	if n.staging.bytes < len(data) {
		n.staging.free(n.Backend) // first, since both may not fit
	}
	err := n.staging.grow(n.Backend, len(data), action+": allocate staging memory")
	if err != nil {
		return err
	}
	if w.buffer, err = n.newBuffer(packedBytes(w.self()), Private, action); err != nil {
		return err
	}
	if err := n.device.Upload(n.staging.buffer, 0, data); err != nil {
		return fmt.Errorf("%s: %w", action, err)
	}
	const simdgroups = 8
	groups, blocks := (w.out+groupRows-1)/groupRows, w.in/blockValues
	a := packArgs{blocks: uint32(blocks), rowBytes: uint32(w.rowBytes), rows: uint32(w.out), groups: uint32(groups)}
	ticket, err := n.device.Submit([]Dispatch{{
		Name: "pack", Pipeline: w.packed.pack, Buffers: []Binding{n.staging.read(), {Buffer: w.buffer}}, Args: bytesOf(&a),
		Groups: [3]int{groups, (blocks + simdgroups - 1) / simdgroups, w.matrices}, Threads: [3]int{32 * simdgroups, 1, 1}, Barrier: true,
	}})
	if err == nil {
		_, err = n.device.Wait(ticket)
	}
	if err != nil {
		return fmt.Errorf("%s: pack the weights: %w", action, err)
	}
	return nil
}

func (n *nvidia) reserveActivations(rows, cols int) error {
	return n.activations.grow(n.Backend, n.activationBytes(rows, cols), "make room for quantised activations")
}

func (n *nvidia) activationBytes(rows, cols int) int {
	each := 2 * ((cols + blockValues - 1) / blockValues) * columnBytes // of weights of 16 bits, which have most
	return max(min(roomFor(rows)/columnRows*each, maxActivations), each, n.activations.bytes)
}

// roomFor rounds a number of rows up to whole groups of columnRows.
func roomFor(rows int) int { return (rows + columnRows - 1) &^ (columnRows - 1) }

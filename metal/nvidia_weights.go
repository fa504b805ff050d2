package metal

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
)

const (
	blockValues = 32  // values that share a scale
	rowThreads  = 128 // threads per threadgroup of kernels without a geometry
	// rowBlockBytes is the threadgroup memory for a block of a row that a kernel quantises itself.
	rowBlockBytes = 72
	// rowAlign is the alignment in threadgroup memory of rows that a kernel quantises itself.
	rowAlign = 16
	// rowPartBytes is the threadgroup memory for the partial sums of one choice (an expert of the
	// row) in row_experts_add.
	rowPartBytes = 640
	// shortRow is the maximum number of blocks of a row for row_product_short.
	shortRow = 32
	// wideRows is the minimum number of rows of weights for which threadgroups of 64 rows occupy
	// the whole GPU.
	wideRows = 16384
)

// algorithm is Few, Tensor or Tile of tile.h: a team of warps multiplies groups of rows of weights
// with columns, which are rows of activations. For Few and Tensor, a warp takes some of the strands
// of a sum, and reads some blocks before it uses the first. For Tile, a warp takes all strands of
// tileGroups groups and tileColumns columns.
type algorithm struct {
	name                            string
	groups, columns, strands, reads int
}

const (
	tileGroups  = 2
	tileColumns = 32
)

// arguments returns the template arguments after the type of weights.
func (a algorithm) arguments() [4]int {
	switch a.name {
	case "Tile":
		return [4]int{tileGroups, tileColumns / columnRows, a.groups / tileGroups, a.columns / tileColumns}
	case "Tensor":
		return [4]int{a.groups, a.columns / columnRows, a.strands, a.reads}
	default:
		return [4]int{a.groups, a.columns, a.strands, a.reads}
	}
}

func (a algorithm) warps() int {
	if a.name == "Tile" {
		return a.groups / tileGroups * (a.columns / tileColumns)
	}
	return strands / a.strands
}

// packedKernel is a kernel that multiplies packed weights: an instance of a template in weights.cu.
type packedKernel struct {
	template  string // the macro that instantiates the template
	algorithm algorithm
	teams     int // per threadgroup; for ROW_EXPERTS the maximum number, since each choice has one
	resident  int // minimum number of threadgroups on a multiprocessor
	// normRounds is the maximum number of rounds in which a kernel normalises a row; a thread takes
	// 8 values per round.
	normRounds int
	pipeline   Pipeline
}

// packedGeometry lists the kernels. Gated algorithms have a group of gate and a group of up.
var packedGeometry = func() map[string]packedKernel {
	one, fewGated := algorithm{"Few", 1, 1, 4, 4}, algorithm{"Tensor", 2, 8, 4, 4}
	many, oneGated := algorithm{"Tensor", 2, 32, 1, 1}, algorithm{"Few", 2, 1, 4, 2}
	most, mostOfExpert := algorithm{name: "Tile", groups: 4, columns: 64}, algorithm{name: "Tile", groups: 8, columns: 32}
	short := algorithm{"Few", 1, 1, 4, 2}
	return map[string]packedKernel{
		"row_product":       {template: "ROW_PRODUCT", algorithm: algorithm{"Single", 1, 1, 1, 4}, teams: 1, resident: 2, normRounds: 2},
		"row_product_short": {template: "ROW_PRODUCT", algorithm: short, teams: 4, resident: 3, normRounds: 1},
		"row_gated_experts": {template: "ROW_GATED_EXPERTS", algorithm: oneGated, teams: 2, resident: 2},
		"row_experts_add":   {template: "ROW_EXPERTS", algorithm: short, teams: maxRowChoices, resident: 1},
		"product_1":         {template: "PRODUCT", algorithm: one, teams: 2, resident: 4},
		"product_2":         {template: "PRODUCT", algorithm: algorithm{"Few", 1, 2, 4, 2}, teams: 2, resident: 4},
		"product_8":         {template: "PRODUCT", algorithm: algorithm{"Tensor", 1, 8, 1, 4}, teams: 1, resident: 3},
		"product_8_wide":    {template: "PRODUCT", algorithm: algorithm{"Tensor", 2, 8, 4, 4}, teams: 2, resident: 4}, // for matrices of many rows
		"product_16":        {template: "PRODUCT", algorithm: algorithm{"Tensor", 1, 16, 1, 4}, teams: 1, resident: 2},
		"product_32":        {template: "PRODUCT", algorithm: many, teams: 1, resident: 2},
		"product_32_small":  {template: "PRODUCT", algorithm: algorithm{"Tensor", 1, 32, 1, 2}, teams: 1, resident: 2}, // for matrices of few rows
		"gated_product_16":  {template: "GATED", algorithm: algorithm{"Tensor", 2, 16, 1, 2}, teams: 1, resident: 2},
		"gated_product_1":   {template: "GATED", algorithm: oneGated, teams: 2, resident: 4},
		"gated_product_8":   {template: "GATED", algorithm: fewGated, teams: 2, resident: 4},
		"gated_product_32":  {template: "GATED", algorithm: many, teams: 1, resident: 2},
		"product_64":        {template: "PRODUCT", algorithm: most, teams: 1, resident: 4},
		"gated_product_64":  {template: "GATED", algorithm: most, teams: 1, resident: 4},
		"gated_experts_8":   {template: "GATED_EXPERTS", algorithm: fewGated, teams: 2, resident: 4},
		"gated_experts_32":  {template: "GATED_EXPERTS", algorithm: mostOfExpert, teams: 1, resident: 4},
		"experts_down_8":    {template: "EXPERTS_DOWN", algorithm: algorithm{"Tensor", 1, 8, 4, 4}, teams: 2, resident: 5},
		"experts_down_32":   {template: "EXPERTS_DOWN", algorithm: mostOfExpert, teams: 1, resident: 4},
	}
}()

// packedInstances returns the instances of the kernels for weights of a type. Blocks of 16 bits per
// weight take so many registers that a warp reads half as many of them before it uses the first.
func packedInstances(t gguf.Type) string {
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(packedGeometry)) {
		k := packedGeometry[name]
		if t.BlockSize() == 1 {
			k.algorithm.reads = max(1, k.algorithm.reads/2)
		}
		a := k.algorithm.arguments()
		fmt.Fprintf(&text, "typedef %s<WEIGHT, %d, %d, %d, %d> Of_%s;\n%s(%s, Of_%s, %d, %d", k.algorithm.name, a[0], a[1], a[2], a[3], name, k.template, name, name, k.teams, k.resident)
		if k.normRounds > 0 {
			fmt.Fprintf(&text, ", %d", k.normRounds)
		}
		text.WriteString(")\n")
	}
	return text.String()
}

func weightsSource(t gguf.Type) (Source, error) {
	src, err := nvidiaSource("weights.cu")
	src.Name = fmt.Sprintf("%s for %v", src.Name, t)
	src.Text = fmt.Sprintf("#define WEIGHT %v\n", t) + src.Text + packedInstances(t)
	return src, err
}

// rows returns the number of rows of weights per threadgroup.
func (k packedKernel) rows() int {
	switch k.template {
	case "GATED", "GATED_EXPERTS", "ROW_GATED_EXPERTS":
		return groupRows * k.algorithm.groups * k.teams / 2
	case "ROW_EXPERTS":
		return groupRows * k.algorithm.groups
	default:
		return groupRows * k.algorithm.groups * k.teams
	}
}

// simdgroups returns the number of simdgroups per threadgroup; for ROW_EXPERTS, per choice.
func (k packedKernel) simdgroups() int {
	warps := k.algorithm.warps()
	switch k.template {
	case "ROW_PRODUCT":
		return rowProductThreads / 32
	case "ROW_EXPERTS":
		return warps
	default:
		return warps * k.teams
	}
}

func (k packedKernel) groups(rows int) int { return (rows + k.rows() - 1) / k.rows() }

func (k packedKernel) tiles(columns int) int {
	return (columns + k.algorithm.columns - 1) / k.algorithm.columns
}

// anyTypeKernels are the pipelines of kernels that do not depend on the type of weights.
type anyTypeKernels struct{ quantise, norm, latents, rotate Pipeline }

// packedKernels are the pipelines for weights of a type.
type packedKernels struct {
	pack, embed, group, weigh Pipeline

	product, gated, gatedExperts, expertsDown []packedKernel // by columns, ascending
	wide, small                               packedKernel
	productTile, gatedTile                    packedKernel // for many columns
	// row, shortRow and rowExperts take one row of activations and quantise it themselves; rowGated
	// takes one quantised row. All of them stage their weights in threadgroup memory. The
	// simdgroups of rowExperts are counted per choice.
	row, shortRow, rowGated, rowExperts packedKernel
}

// forColumns returns the smallest kernel that takes all columns at once. If there is none, it
// returns the largest kernel.
func forColumns(kernels []packedKernel, columns int) packedKernel {
	for _, k := range kernels {
		if k.algorithm.columns >= columns {
			return k
		}
	}
	return kernels[len(kernels)-1]
}

const (
	// busyThreadgroups is the minimum number of threadgroups of a Tile for which it is faster than
	// a kernel that divides sums among warps. An H100 has 132 multiprocessors, so this many
	// threadgroups occupy it.
	busyThreadgroups = 128
	// manyTiles is the minimum number of threadgroups of a Tile for products that are not gated,
	// whose other kernels need fewer threads to be fast.
	manyTiles = 1024
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

// inTiles reports whether enough threadgroups of a Tile share the products of weights with columns.
// kernel is the geometry's name of the operation.
func (n *nvidia) inTiles(kernel string, tile packedKernel, ws []compute.Weight, columns int) bool {
	limits := n.tiles[kernel]
	return columns >= limits.rows && threadgroups(tile, ws, columns) >= limits.threadgroups
}

// forGated returns the kernel for a gated product.
func (n *nvidia) forGated(w *packedWeight, columns int) packedKernel {
	if k := w.packed.gatedTile; n.inTiles(GatedTile, k, []compute.Weight{w}, columns) {
		return k
	}
	return forColumns(w.packed.gated, columns)
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
	src, err := weightsSource(t)
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
	src, err := weightsSource(t)
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
	kernel := func(name string) packedKernel {
		k := packedGeometry[name]
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
		product: kernels("product", 1, 2, 8, 16, 32), gated: kernels("gated_product", 1, 8, 16, 32),
		gatedExperts: kernels("gated_experts", 8, 32), expertsDown: kernels("experts_down", 8, 32),
		wide: kernel("product_8_wide"), small: kernel("product_32_small"), productTile: kernel("product_64"), gatedTile: kernel("gated_product_64"), row: kernel("row_product"), shortRow: kernel("row_product_short"), rowGated: kernel("row_gated_experts"), rowExperts: kernel("row_experts_add"),
	}
	anyType := n.anyType
	if anyType == nil {
		anyType = &anyTypeKernels{pipeline("quantise_rows"), pipeline("norm_quantise"), pipeline("latents"), pipeline("rotate_queries")}
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
	gguf.TypeIQ4NL: {0, 288, 1}, gguf.TypeIQ4XS: {32, 272, 8}, gguf.TypeMXFP4: {0, 272, 1}, gguf.TypeF16: {0, 1040, 1}, gguf.TypeBF16: {0, 1040, 1},
}

// partsOf returns the number of parts of the activations that are multiplied with weights of a type
// (see activations.h). Weights of 16 bits keep 11 bits or more per value, and activations of 12
// bits per block would lose some of them.
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

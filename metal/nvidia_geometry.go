package metal

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ingot-run/ingot/engine/gguf"
)

// algorithm is one of tile.h, staged.h or warpgroups.h, with its template arguments after the type
// of weights: a team of warps multiplies groups of rows of weights with columns, which are rows of
// activations. For Few, Single, Streamed and Tensor, a warp takes some of the strands of a sum, and
// reads some blocks before it uses the first. For Staged, it takes a strand of some groups, and for
// Tile all strands of some groups and some tiles of columns. For Warpgroups, GatedWarpgroups, Bulk
// and GatedBulk, it takes all strands of a group.
type algorithm struct {
	name      string
	arguments [4]int
	// weightBytes is the maximum number of bytes of a stage's weights per group, for Bulk and
	// GatedBulk.
	weightBytes int
}

// few returns Few, Single or Streamed for groups and one column, and tensor returns Tensor. A warp
// takes some strands and reads some blocks at once.
func few(name string, groups, strands, reads int) algorithm {
	return algorithm{name: name, arguments: [4]int{groups, 1, strands, reads}}
}

func tensor(groups, columns, strands, reads int) algorithm {
	return algorithm{name: "Tensor", arguments: [4]int{groups, columns / columnRows, strands, reads}}
}

// staged returns Staged for columns, in which warpRows warps of each strand take groups each and
// read some blocks at once.
func staged(groups, columns, warpRows, reads int) algorithm {
	return algorithm{name: "Staged", arguments: [4]int{groups, columns / columnRows, warpRows, reads}}
}

// tile returns a Tile in which warps that are rows by columns take groups and columns each.
func tile(groups, columns, warpRows, warpColumns int) algorithm {
	return algorithm{name: "Tile", arguments: [4]int{groups, columns / columnRows, warpRows, warpColumns}}
}

// warpgroups returns Warpgroups, in which some warpgroups take four groups each with all columns
// and stage some blocks at a time.
func warpgroups(columns, count, blocks int) algorithm {
	return algorithm{name: "Warpgroups", arguments: [4]int{columns / columnRows, count, blocks, warpgroupStages}}
}

// gatedWarpgroups is warpgroups for gate and up, with a warpgroup for each.
func gatedWarpgroups(columns, blocks int) algorithm {
	return algorithm{name: "GatedWarpgroups", arguments: warpgroups(columns, 2, blocks).arguments}
}

// bulk returns Bulk or GatedBulk for weights of a type, in which some warpgroups take four groups
// each with 64 columns. It has the longest stages, of up to the given number of blocks, of which
// two fit into the given number of bytes, and as many stages as fit.
func bulk(name string, t gguf.Type, count, blocks, bytes int) algorithm {
	size := packedSizes[t]
	for {
		a := algorithm{name: name, arguments: [4]int{bulkColumns / columnRows, count, blocks, minBulkStages}, weightBytes: size.header + blocks*size.block}
		if a.memory() <= bytes || blocks == minBulkBlocks {
			for a.memory() <= bytes {
				a.arguments[3]++
			}
			a.arguments[3] = max(a.arguments[3]-1, minBulkStages)
			return a
		}
		blocks /= 2
	}
}

// fetched returns Fetched for groups and columns, in which a warp reads the activations of some
// blocks at once. Unless early is 0, the next kernel may start as soon as the previous one has
// ended.
func fetched(groups, columns, early, reads int) algorithm {
	return algorithm{name: "Fetched", arguments: [4]int{groups, columns / columnRows, early, reads}}
}

// fetchedStrands returns FetchedStrands for weights of a type, or Fetched if the type has scales
// that take few instructions.
func fetchedStrands(t gguf.Type, groups, columns, early, reads int) algorithm {
	a := fetched(groups, columns, early, reads)
	if t == gguf.TypeQ4K || t == gguf.TypeQ5K {
		a.name = "FetchedStrands"
	}
	return a
}

// fetches reports whether the algorithm fetches whole groups of weights.
func (a algorithm) fetches() bool { return a.name == "Fetched" || a.name == "FetchedStrands" }

// groups and columns return the numbers of a team.
func (a algorithm) groups() int {
	switch a.name {
	case "Tile", "Staged":
		return a.arguments[0] * a.arguments[2]
	case "Warpgroups", "GatedWarpgroups", "Bulk", "GatedBulk":
		return a.warps()
	default:
		return a.arguments[0]
	}
}

func (a algorithm) columns() int {
	switch a.name {
	case "Tile":
		return a.arguments[1] * columnRows * a.arguments[3]
	case "Tensor", "Staged", "Fetched", "FetchedStrands":
		return a.arguments[1] * columnRows
	case "Warpgroups", "GatedWarpgroups", "Bulk", "GatedBulk":
		return a.arguments[0] * columnRows
	default:
		return a.arguments[1]
	}
}

func (a algorithm) warps() int {
	switch a.name {
	case "Tile":
		return a.arguments[2] * a.arguments[3]
	case "Staged":
		return strands * a.arguments[2]
	case "Fetched", "FetchedStrands":
		return strands
	case "Warpgroups", "GatedWarpgroups", "Bulk", "GatedBulk":
		return 4 * a.arguments[1]
	default:
		return strands / a.arguments[2]
	}
}

const (
	tileBlocks = 4 // blocks that a Tile stages at once
	tileStages = 2 // stages of a Tile and of Staged

	warpgroupStages = 3 // stages of Warpgroups

	barrierBytes  = 8         // threadgroup memory of the barrier of a stage of Bulk
	bulkMemory    = 220 << 10 // maximum bytes of threadgroup memory of Bulk on a multiprocessor
	bulkColumns   = 64
	minBulkStages = 2
	minBulkBlocks = 2 // of a stage
)

// memory returns the threadgroup memory that the launch gives: for the staged activations, in a
// Tile for the sums of finished strands too, and in GatedWarpgroups for half of the results
// afterwards.
func (a algorithm) memory() int {
	switch a.name {
	case "Tile":
		return a.columns() * (tileStages*tileBlocks*rowBlockBytes + 4*a.groups()*groupRows)
	case "Staged":
		return a.columns() * strands * tileStages * a.arguments[3] * rowBlockBytes
	case "Warpgroups":
		return a.columns() * a.arguments[2] * a.arguments[3] * rowBlockBytes
	case "Bulk", "GatedBulk":
		columns := a.columns() * a.arguments[2] * rowBlockBytes
		return a.arguments[3]*(columns+a.groups()*a.weightBytes+barrierBytes) + 2*columns
	case "GatedWarpgroups":
		return a.columns() * max(a.arguments[2]*a.arguments[3]*rowBlockBytes, 4*a.groups()*groupRows/2)
	default:
		return 0
	}
}

// fits reports whether a threadgroup has enough memory for the algorithm, with the sums that Staged
// joins.
func (a algorithm) fits(memory int) bool {
	bytes := a.memory()
	if a.name == "Staged" {
		bytes += strands * a.columns() * joinedBytes
	}
	return bytes <= memory
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
	// A tile of products is used from a number of rows of activations on, if there is work for so
	// many threadgroups that it is faster than a tile of fewer rows of weights, or than a kernel
	// that divides sums among warps. An H100 has 132 multiprocessors. A kernel with Fetched is used
	// from a number of rows on, too.
	from, busy int
	to         int // maximum number of rows of activations of a tile; 0 for any
	// wave is the number of threadgroups that run at the same time. A tile with a wave is not used
	// if the last wave would be less than a third full, because a shorter tile is faster then. If
	// waves is not 0, this applies to at most so many waves.
	wave, waves int
	pipeline    Pipeline
}

// packedGeometry returns the kernels for weights of a type, with the tiles for Hopper or for other
// GPUs. Gated algorithms have a group of gate and a group of up.
func packedGeometry(t gguf.Type, hopper bool) map[string]packedKernel {
	fewGated, many := tensor(2, 8, 2, 2), tensor(2, 32, 1, 2)
	most, manyOfExpert, short := tile(2, 64, 4, 1), tile(2, 32, 4, 1), few("Few", 1, 4, 2)
	all := map[string]packedKernel{
		"row_product":       {template: "ROW_PRODUCT", algorithm: few("Single", 1, 1, 4), teams: 1, resident: 2, normRounds: 2},
		"row_product_short": {template: "ROW_PRODUCT", algorithm: short, teams: 4, resident: 3, normRounds: 1},
		"row_gated_product": {template: "ROW_GATED", algorithm: few("Single", 2, 1, 4), teams: 1, resident: 2, normRounds: 2},
		"row_gated_experts": {template: "ROW_GATED_EXPERTS", algorithm: few("Streamed", 2, 1, 2), teams: 1, resident: 4},
		"row_experts_few":   {template: "ROW_EXPERTS", algorithm: few("Single", 1, 2, 3), teams: fewRowChoices, resident: 1},
		"row_experts_add":   {template: "ROW_EXPERTS", algorithm: short, teams: maxRowChoices, resident: 1},
		"product_8":         {template: "PRODUCT", algorithm: tensor(1, 8, 1, 4), teams: 1, resident: 4},
		"product_16":        {template: "PRODUCT", algorithm: tensor(1, 16, 1, 2), teams: 1, resident: 4},
		"product_32":        {template: "PRODUCT", algorithm: many, teams: 1, resident: 2},
		"product_32_small":  {template: "PRODUCT", algorithm: tensor(1, 32, 1, 2), teams: 1, resident: 2}, // for matrices of few rows
		"gated_product_16":  {template: "GATED", algorithm: tensor(2, 16, 1, 2), teams: 1, resident: 3},
		"gated_product_1":   {template: "GATED", algorithm: few("Few", 2, 4, 2), teams: 1, resident: 6},
		"gated_product_8":   {template: "GATED", algorithm: tensor(2, 8, 1, 2), teams: 1, resident: 4},
		"gated_product_32":  {template: "GATED", algorithm: many, teams: 1, resident: 2},
		"gated_product_64":  {template: "GATED", algorithm: staged(2, 64, 2, 2), teams: 1, resident: 1},
		"gated_experts_8":   {template: "GATED_EXPERTS", algorithm: fewGated, teams: 1, resident: 6},
		"gated_experts_32":  {template: "GATED_EXPERTS", algorithm: manyOfExpert, teams: 1, resident: 2},
		"gated_experts_64":  {template: "GATED_EXPERTS", algorithm: most, teams: 1, resident: 2},
		"experts_down_8":    {template: "EXPERTS_DOWN", algorithm: tensor(1, 8, 4, 4), teams: 2, resident: 5},
		"experts_down_32":   {template: "EXPERTS_DOWN", algorithm: manyOfExpert, teams: 1, resident: 2},
		"experts_down_64":   {template: "EXPERTS_DOWN", algorithm: most, teams: 1, resident: 2},
	}
	tiles := map[string]packedKernel{
		"product_tile":       {template: "PRODUCT", algorithm: most, teams: 1, resident: 2, from: minTileRows, busy: 256},
		"product_tile_short": {template: "PRODUCT", algorithm: tile(1, 64, 4, 1), teams: 1, resident: 4, from: minTileRows, busy: 256},
		"gated_product_tile": {template: "GATED", algorithm: most, teams: 1, resident: 2, from: minTileRows, busy: 256},
	}
	if hopper {
		gated, product := gatedWarpgroups(128, 4), warpgroups(128, 2, 4)
		tiles = map[string]packedKernel{
			"product_tile":       {template: "PRODUCT", algorithm: product, teams: 1, resident: 1, from: 65, busy: 88, wave: 132, waves: 2},
			"balanced_product":   {template: "BALANCED_PRODUCT", algorithm: product, teams: 1, resident: 1},
			"product_tile_short": {template: "PRODUCT", algorithm: warpgroups(64, 1, 4), teams: 1, resident: 3, from: minTileRows, busy: 256},
			"gated_product_tile": {template: "GATED", algorithm: gated, teams: 1, resident: 1, from: 65, busy: 88},
			"gated_experts_128":  {template: "GATED_EXPERTS", algorithm: gated, teams: 1, resident: 1},
			"experts_down_128":   {template: "EXPERTS_DOWN", algorithm: product, teams: 1, resident: 1},
		}
	}
	maps.Copy(all, tiles)
	if hopper && partsOf(t) == 1 {
		maps.Copy(all, bulkGeometry(t))
		maps.Copy(all, fetchedGeometry(t))
	}
	return all
}

// minTallRows is the minimum number of rows of activations for the experts' kernels that fetch
// twice as many rows of weights: with fewer rows, there would be few threadgroups.
const minTallRows = 33

// fetchedGeometry returns the kernels that copy whole groups of weights of a type in bulk, for up
// to 16 columns.
func fetchedGeometry(t gguf.Type) map[string]packedKernel {
	return map[string]packedKernel{
		"fetched_product_8":      {template: "PRODUCT", algorithm: fetched(1, 8, 1, 4), teams: 1, resident: 4},
		"fetched_product_16":     {template: "PRODUCT", algorithm: fetched(1, 16, 1, 4), teams: 1, resident: 3},
		"fetched_gated_8":        {template: "GATED", algorithm: fetched(2, 8, 0, 4), teams: 1, resident: 4},
		"fetched_gated_16":       {template: "GATED", algorithm: fetched(2, 16, 0, 2), teams: 1, resident: 3},
		"fetched_experts_8":      {template: "GATED_EXPERTS", algorithm: fetchedStrands(t, 2, 8, 0, 4), teams: 1, resident: 4},
		"fetched_experts_8_tall": {template: "GATED_EXPERTS", algorithm: fetchedStrands(t, 4, 8, 0, 4), teams: 1, resident: 3, from: minTallRows},
		"fetched_down_8_tall":    {template: "EXPERTS_DOWN", algorithm: fetched(8, 8, 0, 2), teams: 1, resident: 3, from: minTallRows},
		"fetched_down_8":         {template: "EXPERTS_DOWN", algorithm: fetched(4, 8, 0, 2), teams: 1, resident: 4},
		"fetched_down_8_short":   {template: "EXPERTS_DOWN", algorithm: fetched(2, 8, 0, 3), teams: 1, resident: 4}, // for long rows
	}
}

// bulkGeometry returns the kernels with bulk copies for weights of a type.
func bulkGeometry(t gguf.Type) map[string]packedKernel {
	return map[string]packedKernel{
		"split_product_short": {
			template: "SPLIT_PRODUCT", algorithm: bulk("Bulk", t, 2, 4, bulkMemory/2), teams: 1, resident: 2, from: minTileRows, to: bulkColumns, busy: 64,
		},
		"split_product": {
			template: "SPLIT_PRODUCT", algorithm: bulk("Bulk", t, 3, 4, bulkMemory/2), teams: 1, resident: 2, from: minTileRows, to: bulkColumns, busy: 128,
		},
		"product_bulk": {
			template: "PRODUCT", algorithm: bulk("Bulk", t, 3, 8, bulkMemory), teams: 1, resident: 1, from: minTileRows, to: bulkColumns, busy: 56, wave: 132,
		},
		"gated_product_bulk": {
			template: "GATED", algorithm: bulk("GatedBulk", t, 3, 8, bulkMemory), teams: 1, resident: 1, from: minTileRows, to: bulkColumns, busy: 89, wave: 132,
		},
		"gated_product_bulk_short": {
			template: "GATED", algorithm: bulk("GatedBulk", t, 2, 4, bulkMemory/2), teams: 1, resident: 2, from: minTileRows, to: bulkColumns, busy: 48, wave: 264,
		},
	}
}

// packedInstances returns the instances of the kernels for weights of a type. Blocks of 16 bits per
// weight take so many registers that a warp reads half as many of them before it uses the first.
func packedInstances(t gguf.Type, hopper bool) string {
	var text strings.Builder
	geometry := packedGeometry(t, hopper)
	for _, name := range slices.Sorted(maps.Keys(geometry)) {
		k := geometry[name]
		if t.BlockSize() == 1 && k.algorithm.memory() == 0 {
			k.algorithm.arguments[3] = max(1, k.algorithm.arguments[3]/2)
		}
		a := k.algorithm.arguments
		fmt.Fprintf(&text, "typedef %s<WEIGHT, %d, %d, %d, %d> Of_%s;\n%s(%s, Of_%s, %d, %d", k.algorithm.name, a[0], a[1], a[2], a[3], name, k.template, name, name, k.teams, k.resident)
		if k.normRounds > 0 {
			fmt.Fprintf(&text, ", %d", k.normRounds)
		}
		text.WriteString(")\n")
	}
	return text.String()
}

func weightsSource(t gguf.Type, hopper bool) (Source, error) {
	src, err := nvidiaSource("weights.cu")
	src.Name = fmt.Sprintf("%s for %v", src.Name, t)
	src.Text = fmt.Sprintf("#define WEIGHT %v\n", t) + src.Text + packedInstances(t, hopper)
	return src, err
}

// rows returns the number of rows of weights per threadgroup.
func (k packedKernel) rows() int {
	switch k.template {
	case "GATED", "GATED_EXPERTS", "ROW_GATED", "ROW_GATED_EXPERTS":
		return groupRows * k.algorithm.groups() * k.teams / 2
	case "ROW_EXPERTS":
		return groupRows * k.algorithm.groups()
	default:
		return groupRows * k.algorithm.groups() * k.teams
	}
}

// simdgroups returns the number of simdgroups per threadgroup; for ROW_EXPERTS, per choice.
func (k packedKernel) simdgroups() int {
	warps := k.algorithm.warps()
	switch k.template {
	case "ROW_PRODUCT", "ROW_GATED":
		return rowProductThreads / 32
	case "ROW_EXPERTS":
		return warps
	default:
		return warps * k.teams
	}
}

func (k packedKernel) groups(rows int) int { return (rows + k.rows() - 1) / k.rows() }

func (k packedKernel) tiles(columns int) int {
	return (columns + k.algorithm.columns() - 1) / k.algorithm.columns()
}

// takes reports whether a tile can multiply a weight with columns. Bulk needs whole stages,
// and a split product whole stages of each strand.
func (k packedKernel) takes(w *weight, columns int) bool {
	stage := 1
	if k.algorithm.weightBytes > 0 {
		stage = k.algorithm.arguments[2]
	}
	if k.template == "SPLIT_PRODUCT" {
		stage *= strands
	}
	return (k.to == 0 || columns <= k.to) && w.activationBlocks()%stage == 0
}

// fills reports whether some threadgroups are enough for a tile, and not a few more than it runs at
// the same time.
func (k packedKernel) fills(threadgroups, busy int) bool {
	last := 0
	if k.wave > 0 && (k.waves == 0 || threadgroups < k.waves*k.wave) {
		last = threadgroups % k.wave
	}
	return threadgroups >= busy && (last == 0 || threadgroups < k.wave || 3*last >= k.wave)
}

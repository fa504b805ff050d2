package metal

import (
	"fmt"
	"strings"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
)

// The constants that this package shares with the kernels. The kernels have them as names in
// capitals, such as SPLIT_KEYS, which are replaced by the values when a source is read.

const (
	embedThreads = 32  // threads per threadgroup of embed (rows.metal)
	copyThreads  = 64  // threads per threadgroup of kernels with a thread per column, such as gather (rows.metal)
	cappedValues = 8   // values of a thread of kernel soft_cap
	topThreads   = 256 // threads per threadgroup of top_parts and of top_join (sample.metal)
	topParts     = 32  // parts of a row of logits, one per lane of top_join
	splitKeys    = 256 // positions per split of attention

	strands = 8            // parts of a product's sum
	teams   = 32 / strands // parts of a simdgroup, each of which computes all strands of its rows

	stagedFloats   = 8192 // activations in threadgroup memory of a product of several rows
	stagedRow      = 2048 // the longest row of activations that a product of one row stages there
	tileGroups     = 4    // simdgroups of a tile
	tileStride     = 20   // floats per row of 16 activations of a tile in threadgroup memory
	wideTileRows   = 128  // rows of weights of a wide tile
	wideTileInputs = 64   // rows of activations, or choices, of a wide tile
	groupThreads   = 512  // threads of group_experts (expert_tiles.metal)

	keyStride = 36   // floats per row of 32 values of keys in threadgroup memory
	scoresAt  = 4096 // floats before the scores, for values and for parts of scores

	convolveRows = 8    // maximum number of rows of a sequence that a thread convolves
	stateKeys    = 128  // maximum length of a key of a recurrent layer
	stateCols    = 32   // columns of a state per threadgroup of chunk_pass
	chunkValues  = 8448 // values in scratch memory per chunk and head of a recurrent layer
)

var portableConstants = map[string]any{
	"EMBED_THREADS": embedThreads, "COPY_THREADS": copyThreads, "CAPPED_VALUES": cappedValues, "TOP_THREADS": topThreads, "TOP_PARTS": topParts, "DRAW_THREADS": drawThreads, "CHOOSE_THREADS": chooseThreads, "DRAW_BUCKETS": drawBuckets,
	"DRAW_PART": compute.DrawPart, "DRAW_HIGHEST": drawHighest, "DRAW_ALL": drawAll, "DRAW_SOME": drawSome, "DRAW_GIVEN": drawGiven, "SPLIT_KEYS": splitKeys,
	"ALL_STRANDS": strands, "STAGED_FLOATS": stagedFloats, "STAGED_ROW": stagedRow, "TILE_SIMDGROUPS": tileGroups, "TILE_STRIDE": tileStride, "GROUP_THREADS": groupThreads,
	"KEY_STRIDE": keyStride, "SCORES_AT": scoresAt,
	"CHUNK_ROWS": compute.ChunkRows, "CONVOLVE_ROWS": convolveRows, "STATE_KEYS": stateKeys, "STATE_COLS": stateCols, "CHUNK_VALUES": chunkValues,
	"GRID_IQ2_XXS": initialiser(gguf.GridIQ2XXS), "GRID_IQ2_XS": initialiser(gguf.GridIQ2XS), "GRID_IQ2_S": initialiser(gguf.GridIQ2S),
	"GRID_IQ3_XXS": initialiser(gguf.GridIQ3XXS), "GRID_IQ3_S": initialiser(gguf.GridIQ3S), "GRID_IQ1": initialiser(gguf.GridIQ1),
}

// initialiser returns the points of a grid as the elements of an array.
func initialiser(points []uint16) string {
	return strings.Trim(strings.Join(strings.Fields(fmt.Sprint(points)), ","), "[]")
}

const (
	groupRows       = 16  // rows of weights that are packed together
	columnRows      = 8   // rows of activations that are packed together
	columnBytes     = 512 // bytes of a block of values for columnRows rows
	nvidiaSplitKeys = 128 // positions per split of attention
	attentionPairs  = 16  // pairs of a row and a query head per tile of attention
	partHeader      = 4   // floats before the values of a split
	attentionWarps  = 8   // warps per threadgroup of attention
	latentThreads   = 128 // threads that normalise a latent
	maxUsedExperts  = 32  // maximum number of experts per row
	// rowProductThreads is the number of threads per threadgroup of products of one row.
	rowProductThreads = 256
	// maxRowChoices is the maximum number of choices that row_experts_add takes.
	maxRowChoices = 12
	// fewRowChoices is the maximum number of choices that row_experts_few takes.
	fewRowChoices = 6
)

// nvidiaConstants are those of the kernels in kernels/cuda. NAME_SIZES are the sizes of each packed
// type in weights.h.
var nvidiaConstants = func() map[string]any {
	all := map[string]any{
		"GROUP_ROWS": groupRows, "COLUMN_BYTES": columnBytes, "SPLIT_KEYS": nvidiaSplitKeys, "PART_HEADER": partHeader,
		"ATTENTION_PAIRS": attentionPairs, "ATTENTION_WARPS": attentionWarps, "LATENT_THREADS": latentThreads, "MAX_USED": maxUsedExperts,
		"ALL_STRANDS": strands, "CHAINED_NORMS": chainedNorms, "STATE_DIM": stateDim, "ROW_THREADS": rowProductThreads, "TILE_BLOCKS": tileBlocks, "TILE_STAGES": tileStages,
	}
	for t, size := range packedSizes {
		all[t.String()+"_SIZES"] = fmt.Sprintf("parts = %d, per = %d, header = %d, unit = %d, source_block = %d, source_bytes = %d",
			partsOf(t), size.blocks, size.header, size.block, t.BlockSize(), t.BlockBytes())
	}
	return all
}()

func replaceConstants(text string, constants map[string]any) string {
	var out strings.Builder
	written := 0 // bytes of text that are in out
	for at := 0; at < len(text); at++ {
		from, capital := at, text[at] >= 'A' && text[at] <= 'Z'
		for at < len(text) && inName(text[at]) {
			at++
		}
		if !capital {
			continue
		}
		if value, ok := constants[text[from:at]]; ok {
			fmt.Fprint(&out, text[written:from], value)
			written = at
		}
	}
	out.WriteString(text[written:])
	return out.String()
}

func inName(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
}

// eachType returns the lines that define EACH_TYPE(X), which expands to X(struct, name) for every
// given type of weights, and EACH_PAGE_TYPE(X) for every given type of KV pages.
func eachType(types, pageTypes []gguf.Type) string {
	weights, pages := "#define EACH_TYPE(X)", "\n#define EACH_PAGE_TYPE(X)"
	for _, t := range types {
		weights += fmt.Sprintf(" X(%v, %q)", t, t)
	}
	for _, t := range pageTypes {
		pages += fmt.Sprintf(" X(Page%v, %q)", t, t)
	}
	return weights + pages + "\n"
}

// ofKind returns the types of a list that a unit has instances for.
func ofKind(list []gguf.Type, kind string) (found []gguf.Type) {
	for _, t := range list {
		if kind == t.String() {
			found = append(found, t)
		}
	}
	return found
}

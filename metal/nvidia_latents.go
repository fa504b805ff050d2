package metal

import (
	"slices"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
)

const (
	latentFile  = "latent_attention.cu"
	latentPairs = 32 // pairs of a row and a query head that latent_attention.cu computes at once
	// maxLatentGroups is the maximum number of times that a threadgroup does this, and latentWaves
	// the number of tiles per multiprocessor that remain then, so that none of them is idle for
	// long.
	maxLatentGroups = 8
	latentWaves     = 3
	// latentWave is the number of threadgroups among which the splits of a few tiles are divided.
	// One of them is on each of an H100's 132 multiprocessors.
	latentWave = 132
	// latentRows is the product of the numbers of rows and of heads for which there is scratch
	// memory, if maxLatentBytes allows it.
	latentRows     = 512
	maxLatentBytes = 128 << 20
	// latentWork is the minimum product of the number of rows and of the length of the longest
	// sequence for which latent_attention.cu is used. An H100 computes 16 rows after 160 positions,
	// or one after 2,048, in 16.5 and 12.8 us with attention.cu and in 18.2 and 13.9 us with
	// latent_attention.cu; 64 rows after 160, or one after 8,192, in 30.3 and 21.7 us and in 25.2
	// and 20.7 us.
	latentWork = 8192
	// busyLatentTiles is what busyTiles is for attention.cu. 64 rows after 160 positions take 25.2
	// us, and 32.3 us if two threadgroups compute each.
	busyLatentTiles = 64
)

// latentPages reports whether latent_attention.cu reads pages of a type on the device.
func (n *nvidia) latentPages(pages gguf.Type) bool { return n.hopper && pages == gguf.TypeF16 }

// attendsLatents reports whether latent_attention.cu computes o: its order of sums is that of
// attention.cu only for 257 to 512 values.
func (n *nvidia) attendsLatents(o *attention) bool {
	s := &o.shape
	return o.latent() && n.ofPages[o.cache.shape.Type].latents && s.KVHeads == 1 && s.KeyDim%32 == 0 &&
		s.ValueDim%64 == 0 && s.ValueDim > 256 && s.ValueDim <= 512 && latentBytes(s) <= n.memory && n.worthLatents(o.dst.Rows)
}

// worthLatents reports whether latent_attention.cu is faster than attention.cu for this many rows.
func (n *nvidia) worthLatents(rows int) bool {
	_, forced := n.tiles[AttentionTile]
	return forced || rows*(int(slices.Max(n.batch.Positions[:rows]))+1) >= latentWork
}

// latentTile returns the number of pairs of a row and a head that one threadgroup computes. Without
// splits, it is several groups of 32 if there is enough work: the threadgroup copies the next
// latents while it computes the last ones of the group before, or retains a single split for all.
func (n *nvidia) latentTile(o *attention, splits splitRange) int {
	if splits.count > 0 {
		return latentPairs
	}
	if _, given := n.tiles[AttentionTile]; given {
		return maxLatentGroups * latentPairs
	}
	tiles := n.countPairTiles(o.shape.Heads, 0, latentPairs)
	return min(max(tiles/(latentWaves*latentWave), 1), maxLatentGroups) * latentPairs
}

// latentBytes returns the bytes of threadgroup memory that latent_attention.cu needs. The arrays
// are listed in attend_latents.
func latentBytes(shape *compute.AttentionShape) int {
	query := shape.KeyDim
	if query/32%2 == 0 {
		query += 32
	}
	latents := nvidiaSplitKeys * ((2*shape.KeyDim+127)/128*128 + 16)
	return latents + latentPairs*(2*query+8*(nvidiaSplitKeys+4)+2*(nvidiaSplitKeys+8)+8) + barrierBytes*nvidiaSplitKeys/32
}

// splitBytes implements recorder. Attention over latents has more splits than the portable kernels,
// and more rows of which they are stored.
func (n *nvidia) splitBytes(shape compute.CacheShape, positions int) int {
	if shape.ValueCols == 0 && n.latentPages(shape.Type) {
		return splitsFor(shape, positions, nvidiaSplitKeys, latentRows, maxLatentBytes)
	}
	return n.general.splitBytes(shape, positions)
}

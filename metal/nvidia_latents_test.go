package metal_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/metal"
	"github.com/ingot-run/ingot/metal/emulator"
)

// TestLatentAttention compares the bits of the attention over latents on Hopper with those of the
// kernels for all pages: whole tiles, tiles whose splits are divided among threadgroups, and
// threadgroups with several splits, or with several groups of pairs. Tiles begin within the heads
// of a row, and sequences end in the first position of a split and in the last.
func TestLatentAttention(t *testing.T) {
	t.Parallel()
	const rank, dims, positions, pageSize = 512, 64, 1024, 16
	single := func(n, last int) (all [][2]int) {
		for i := range n {
			all = append(all, [2]int{1, last - 3*i})
		}
		return all
	}
	for _, c := range []struct {
		kernel    string
		geometry  metal.Geometry
		heads     int
		sequences [][2]int // number of rows, position of the last row
	}{
		{"latent_attention_split", nil, 20, [][2]int{{1, 5}, {1, 127}, {1, 128}, {5, 300}, {1, 1023}}},
		{"latent_attention_split", nil, 3, single(17, 1000)},
		{"latent_attention", nil, 20, [][2]int{{40, 330}, {1, 500}, {25, 255}}},
		{"latent_attention", tilesFrom(2), 20, [][2]int{{22, 265}, {1, 500}, {20, 300}, {17, 127}}},
		{"latent_attention", tilesFrom(2), 20, [][2]int{{7, 100}, {1, 0}, {14, 127}}},
	} {
		var bits [2][][]float32
		hopper, log := openHopper(t, metal.Options{Geometry: c.geometry})
		for i, be := range []*metal.Backend{hopper, open(t, metal.Options{}, emulator.Options{Nvidia: true})} {
			o := &operations{t, be, rand.New(rand.NewPCG(1, 2))}
			shape := compute.AttentionShape{Heads: c.heads, KVHeads: 1, KeyDim: rank + dims, ValueDim: rank, Scale: 0.1}
			cache, err := be.Cache(compute.CacheShape{Layers: 1, Pages: positions / pageSize, PageSize: pageSize, KeyCols: rank + dims, Type: gguf.TypeF16})
			require.NoError(t, err)
			rope, err := be.Rope(compute.RopeFreqs{Freqs: make([]float32, dims/2), Scale: 1}, positions)
			require.NoError(t, err)
			var table []int32
			for _, page := range o.random.Perm(positions / pageSize) {
				table = append(table, int32(page))
			}
			batch := func(sequences ...[2]int) *compute.Batch {
				b := &compute.Batch{}
				for _, s := range sequences {
					b.Seqs = append(b.Seqs, compute.Seq{Rows: s[0], Pages: table})
					for r := range s[0] {
						b.Tokens, b.Positions = append(b.Tokens, 0), append(b.Positions, int32(s[1]-s[0]+1+r))
					}
				}
				return b
			}
			latents, gain := o.values(positions, rank+dims), o.weight(gguf.TypeF32, rank)
			s := be.Begin(batch([2]int{positions, positions - 1}))
			s.Latents(compute.Tensor{}, latents, nil, gain, 1e-6, rope, cache, 0)
			require.NoError(t, s.Run())

			all := batch(c.sequences...)
			q, dst := o.values(len(all.Tokens), c.heads*(rank+dims)), o.buffer(len(all.Tokens), c.heads*rank)
			log.ran = nil
			s = be.Begin(all)
			s.Attention(dst, q, shape, cache, 0)
			require.NoError(t, s.Run())
			if be == hopper {
				require.Contains(t, log.ran, c.kernel)
			}
			for _, row := range be.Floats(dst) {
				bits[i] = append(bits[i], slices.Clone(row))
			}
		}
		require.Equal(t, bits[1], bits[0], "%v", c.sequences)
	}
}

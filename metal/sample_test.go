package metal_test

import (
	"cmp"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/metal"
	"github.com/ingot-run/ingot/metal/host"
)

// TestTop compares with a sort, with ties, minus infinity, rows of odd lengths, and more wanted than a simdgroup has.
func TestTop(t *testing.T) {
	for _, mode := range []metal.Mode{metal.Release, metal.Debug} {
		be := open(t, metal.Options{Mode: mode}, host.Options{Seed: 3})
		random := rand.New(rand.NewPCG(1, 2))
		for _, c := range []struct{ rows, cols, k int }{{1, 1, 1}, {3, 33, 33}, {4, 1000, 1}, {2, 5000, 40}} {
			data := make([]byte, 0, 4*c.rows*c.cols)
			rows := make([][]float32, c.rows)
			for r := range rows {
				for range c.cols {
					v := float32(random.IntN(50)) / 4 // many are equal
					if random.IntN(10) == 0 {
						v = float32(math.Inf(-1))
					}
					rows[r] = append(rows[r], v)
				}
				rows[r][random.IntN(c.cols)] = 3
				for _, v := range rows[r] {
					data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
				}
			}
			table, err := be.Weight(gguf.Tensor{Name: "logits", Type: gguf.TypeF32, Shape: []int{c.cols, c.rows}, Data: data})
			require.NoError(t, err)
			logits, err := be.Buffer(c.rows, c.cols)
			require.NoError(t, err)
			dst, err := be.Buffer(c.rows, 2*c.k+1)
			require.NoError(t, err)
			b := &compute.Batch{}
			for r := range c.rows {
				b.Tokens, b.Positions = append(b.Tokens, int32(r)), append(b.Positions, 0)
				b.Seqs = append(b.Seqs, compute.Seq{First: r, Rows: 1, Pages: []int32{0}})
			}
			s := be.Begin(b).(metal.TopStep)
			s.Embed(logits, table)
			s.Top(dst, logits, c.k)
			require.NoError(t, s.Run())
			for r, got := range be.Floats(dst) {
				ids := make([]int, c.cols)
				for i := range ids {
					ids[i] = i
				}
				slices.SortStableFunc(ids, func(a, b int) int { return cmp.Compare(rows[r][b], rows[r][a]) })
				sum := 0.0
				for _, v := range rows[r] {
					sum += math.Exp(float64(v))
				}
				for k := range c.k {
					require.Equal(t, float32(ids[k]), got[k], "%+v, row %d, place %d", c, r, k)
					require.Equal(t, rows[r][ids[k]], got[c.k+k])
				}
				require.InDelta(t, math.Log(sum), got[2*c.k], 1e-4)
			}
		}
		require.NoError(t, be.Close())
	}
}

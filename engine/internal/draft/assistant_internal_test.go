package draft

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/cpu"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/engine/internal/cache"
	"github.com/ingot-run/ingot/engine/internal/cost"
	"github.com/ingot-run/ingot/engine/model"
	"github.com/ingot-run/ingot/engine/model/modeltest"
)

// The chain of an assistant drafts for several sequences of a step. The drafts are those of the
// reference, although the chain has not processed the tokens before the last one.
func TestAssistantChain(t *testing.T) {
	modeltest.Families(t, func(t *testing.T, f *modeltest.Family) {
		if f.Assistant == nil {
			return
		}
		limits := modeltest.FamilyLimits
		limits.FreeWindows = true
		be, err := cpu.New(1)
		require.NoError(t, err)
		var files [2]*gguf.File
		for i, path := range []string{f.Files[0], f.Assistant.File} {
			files[i], err = gguf.Open(path)
			require.NoError(t, err)
		}
		m, err := model.Load(be, files[0], limits)
		require.NoError(t, err)
		d, err := model.LoadAssistant(be, m, files[1], limits)
		require.NoError(t, err)

		g := m.Config().Groups(limits)
		pool := cache.NewPool(limits.Pages, limits.PageSize, cache.Groups{Full: g.Full, Sliding: g.Sliding, Window: g.Window})
		all := f.Prompts[f.Assistant.Prompt].All()
		var step []*Sequence
		b := &compute.Batch{}
		for _, n := range []int{2, 19, len(all) - 1, 33} {
			s := &Sequence{Tokens: all[:n], Limit: 1000, Table: pool.NewTable(), Computed: n - 1, Rows: n - 1, FirstRow: len(b.Tokens), wanted: 3}
			require.True(t, s.Table.Grow(n))
			b.Seqs = append(b.Seqs, compute.Seq{Rows: n - 1, Pages: s.Table.Pages(), Further: s.Table.Further()})
			for p := range n - 1 {
				b.Tokens, b.Positions = append(b.Tokens, all[p]), append(b.Positions, int32(p))
			}
			step = append(step, s)
		}
		_, err = m.Forward(b)
		require.NoError(t, err)
		step[1].wanted = 0
		for _, s := range step {
			s.Table.Slide(s.Computed) // as after a step
		}
		curve := cost.NewCurve([]int{1, 8}, []float64{1e-3, 2e-3})
		require.NoError(t, newMTPChain(d, true, limits.Rows).run(step, true, &curve, nil))
		compared := 0
		for i, s := range step {
			require.Len(t, s.Drafts, s.wanted, "sequence %d", i)
			for k, id := range s.Drafts {
				want := f.Assistant.Drafts[s.Length()-2][k]
				if want.Logits[0]-want.Logits[1] <= modeltest.MinGap {
					break
				}
				require.Equal(t, want.IDs[0], id, "sequence %d, draft %d", i, k)
				compared++
			}
		}
		require.Greater(t, compared, 5)
		require.NoError(t, be.Close())
		for _, file := range files {
			require.NoError(t, file.Close())
		}
	})
}

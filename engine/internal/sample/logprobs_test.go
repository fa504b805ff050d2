package sample

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/generation"
)

// The logarithm of the sum is exact for logits whose exponentials would overflow.
func TestLogSumExp(t *testing.T) {
	t.Parallel()
	inf := float32(math.Inf(1))
	for want, logits := range map[float64][]float32{
		math.Log(3):        {0, 0, 0},
		1000 + math.Log(2): {1000, 1000, -inf},
		-1000:              {-1000},
		2 + math.Log(1+math.Exp(-1)+math.Exp(-5)): {1, 2, -3},
	} {
		got, err := LogSumExp(logits)
		require.NoError(t, err)
		require.InDelta(t, want, got, 1e-12)
		best := ReadBest([]float32{7, 3, 2, 1, float32(want)}, 2)
		got, err = best.LogSumExp()
		require.NoError(t, err)
		require.InDelta(t, want, got, 1e-4)
		require.Equal(t, []int32{7, 3}, []int32{best.ID(0), best.ID(1)})
		require.Equal(t, []float32{2, 1}, []float32{best.Logit(0), best.Logit(1)})
	}
	for want, logits := range map[string][]float32{
		"the logit of token 1 is +Inf": {0, inf, 0},
		"the logit of token 2 is NaN":  {0, 0, float32(math.NaN())},
		"all of them are -Inf":         {-inf, -inf},
	} {
		_, err := LogSumExp(logits)
		require.ErrorIs(t, err, generation.ErrNotFinite)
		require.ErrorContains(t, err, want)
	}
	for _, sum := range []float64{math.Inf(1), math.Inf(-1), math.NaN()} {
		_, err := ReadBest([]float32{7, 3, 2, 1, float32(sum)}, 2).LogSumExp()
		require.ErrorIs(t, err, generation.ErrNotFinite)
	}
}

// The highest logits are those of a stable sort, after what the slice already has.
func TestTopIsSorted(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		logits := make([]float32, 1+random.IntN(12))
		ids := make([]int32, len(logits))
		for i := range logits {
			logits[i], ids[i] = float32(random.IntN(6)), int32(i)
		}
		slices.SortStableFunc(ids, func(a, b int32) int { return cmp.Compare(logits[b], logits[a]) })
		for _, before := range [][]int32{nil, {11, 0}} {
			n := random.IntN(len(logits) + 3)
			got := Top(slices.Clone(before), logits, n)
			want := append(slices.Clone(before), ids[:min(n, len(ids))]...)
			require.True(t, slices.Equal(want, got), "%d of %v: %v", n, logits, got)
		}
	}
}

// A row of a draw has the token, its logit, and the highest logit after the edits.
func TestReadDrawn(t *testing.T) {
	t.Parallel()
	drawn, err := ReadDrawn([]float32{5, 1.5, -2.5})
	require.NoError(t, err)
	require.Equal(t, Drawn{ID: 5, Logit: 1.5}, drawn)
	for _, top := range []float32{compute.MaxLogit, -compute.MaxLogit} {
		_, err = ReadDrawn([]float32{5, 1.5, top})
		require.ErrorIs(t, err, generation.ErrBadRequest)
		drawn, err = ReadDrawn([]float32{5, 1.5, math.Nextafter32(top, 0)})
		require.NoError(t, err)
		require.Equal(t, int32(5), drawn.ID)
	}
	for _, top := range []float64{math.Inf(1), math.Inf(-1), math.NaN()} {
		_, err = ReadDrawn([]float32{5, 1.5, float32(top)})
		require.ErrorIs(t, err, generation.ErrNotFinite)
	}
}

// Without penalties, drafts change no logit, so a draw after drafts needs no further edits.
func TestDraftsWithoutPenaltiesNeedNoEdits(t *testing.T) {
	t.Parallel()
	var memory []compute.Edit
	s := New(generation.Sampling{Temperature: 1, LogitBias: map[int32]float64{3: 1}}, 0, []int32{1, 2})
	d := s.Next(4, []int32{5, 6}, nil, &memory)
	require.Empty(t, memory)
	require.Len(t, d.Edits, 1)
	require.Equal(t, 4, d.Position)
}

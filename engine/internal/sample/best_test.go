package sample

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ingot-run/ingot/engine/generation"
)

// bestOf returns the k highest logits in the format of a backend.
func bestOf(t require.TestingT, logits []float32, k int) Best {
	row := make([]float32, 2*k+1)
	for i, id := range Top(nil, logits, k) {
		row[i], row[k+i] = float32(id), logits[id]
	}
	sum, err := LogSumExp(logits)
	require.NoError(t, err)
	row[2*k] = float32(sum)
	return ReadBest(row, k)
}

// SampleBest draws the same token from the highest logits as Sample from all logits, with few and
// with many equal logits.
func TestSampleBestIsSample(t *testing.T) {
	drawn, open := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		logits := make([]float32, rapid.IntRange(2, 300).Draw(t, "vocabulary"))
		steps := rapid.SampledFrom([]float64{1, 4, 1000}).Draw(t, "steps")
		for i := range logits {
			logits[i] = float32(math.Round(rapid.Float64Range(-8, 8).Draw(t, "logit")*steps) / steps)
		}
		p := drawTruncation(t, len(logits))
		p.Temperature = rapid.SampledFrom([]float64{0, 0.05, 0.7, 1, 3}).Draw(t, "temperature")
		p.TopK = rapid.IntRange(1, min(40, len(logits)-1)).Draw(t, "top_k")
		p.Seed = rapid.Uint64().Draw(t, "seed")
		s := New(p, 0, nil)
		need := s.Needs()
		require.Equal(t, p.Temperature == 0, need == 1 && s.Greedy())
		require.Equal(t, p.Temperature == 0, s.Greedy())
		best := bestOf(t, logits, rapid.IntRange(need, len(logits)).Draw(t, "given"))
		var w Scratch
		for position := range 5 {
			want, err := s.Sample(logits, position, &w)
			require.NoError(t, err)
			place, ok, err := s.SampleBest(best, position, &w)
			require.NoError(t, err)
			if !ok {
				open++
				continue
			}
			drawn++
			require.Equal(t, want, best.ID(place))
			require.InDelta(t, logits[want], best.Logit(place), 0)
		}
	})
	if testing.Short() {
		return // rapid then runs too few checks for these counts
	}
	require.Greater(t, drawn, 2*open, "SampleBest must decide most draws")
	require.Positive(t, open)
}

// Needs is 0 for settings with which the highest logits do not decide the token.
func TestNeeds(t *testing.T) {
	for _, c := range []struct {
		params generation.Sampling
		want   int
	}{
		{generation.Sampling{}, 1},
		{generation.Sampling{TopK: 40}, 1},
		{generation.Sampling{Temperature: 1, TopK: 40}, 41},
		{generation.Sampling{Temperature: 1, TopK: 40, TopP: 0.9, MinP: 0.1}, 41},
		{generation.Sampling{Temperature: 1}, 0},
		{generation.Sampling{Temperature: 1, TopP: 0.9}, 0},
		{generation.Sampling{RepetitionPenalty: 1.1}, 0},
		{generation.Sampling{PresencePenalty: 1}, 0},
		{generation.Sampling{FrequencyPenalty: -1}, 0},
		{generation.Sampling{LogitBias: map[int32]float64{1: 1}}, 0},
	} {
		s := New(c.params, 0, []int32{1})
		require.Equal(t, c.want, s.Needs(), "%+v", c.params)
		s.Exclude([]int32{2})
		require.Zero(t, s.Needs())
		require.False(t, s.Greedy())
		s.Exclude(nil)
		require.Equal(t, c.want, s.Needs())
	}
}

func TestBestOfLogitsThatAreNotFinite(t *testing.T) {
	for _, sum := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		best := ReadBest([]float32{0, 1, float32(sum)}, 1)
		_, _, err := New(generation.Sampling{}, 0, nil).SampleBest(best, 0, &Scratch{})
		require.ErrorIs(t, err, generation.ErrNotFinite)
	}
}

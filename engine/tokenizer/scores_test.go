package tokenizer

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// The best score has rank 0, equal scores have the same rank, and ranks have no gaps.
func TestRanksOfScores(t *testing.T) {
	t.Parallel()
	nan := float32(math.NaN())
	for _, c := range []struct {
		scores []float32
		want   []int32 // nil for an error
	}{
		{[]float32{}, []int32{}},
		{[]float32{-5}, []int32{0}},
		{[]float32{-3, -1, -2}, []int32{2, 0, 1}},
		{[]float32{-1, -1, -1}, []int32{0, 0, 0}},
		{[]float32{-2, -1, -2, 0, -1}, []int32{2, 1, 2, 0, 1}},
		{[]float32{float32(math.Inf(-1)), 0, -1e10}, []int32{2, 0, 1}},
		{[]float32{0, nan}, nil},
	} {
		got, err := rankScores(c.scores)
		require.Equal(t, c.want == nil, err != nil, c.scores)
		require.Equal(t, c.want, got, c.scores)
	}
	_, err := rankScores([]float32{0, nan})
	require.ErrorContains(t, err, "score 1 is NaN, but must be a number")
}

func TestWhatSpansWords(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{"▁a": false, "▁▁": false, "a": false, "": false, "a▁": true, "▁a▁b": true} {
		require.Equal(t, want, spansWords(text), text)
	}
}

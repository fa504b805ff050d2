package schedule

import (
	"testing"

	"github.com/ingot-run/ingot/generation"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/draft"
	"github.com/ingot-run/ingot/engine/sample"
)

// If more logits equal the last of the top k than a step has found, the token is drawn from all of them, and the scores are
// still those of the best.
func TestDrawAmongManyEquals(t *testing.T) {
	logits := []float32{0, 3, 3, 1, 3, 3, 3, -2}
	const top, sum = 3, 4.75
	best := []float32{1, 2, 4, 3, 3, 3, sum}
	other := map[int32]bool{}
	for seed := range uint64(40) {
		params := generation.Sampling{Temperature: 1, TopK: top - 1, Seed: seed}
		c := &call{prompt: []int32{1, 2}, scores: true}
		s := &sequence{call: c, sampler: sample.New(params, 0, c.prompt), Sequence: draft.Sequence{Tokens: c.prompt}, scores: scores{top: 1}}
		require.Equal(t, top, s.needs(0, 64))
		var w sample.Scratch
		id, err := s.draw(output{top: top}, result{logits: logits, best: sample.ReadBest(best, top)}, &w)
		require.NoError(t, err)
		want, err := s.sampler.Sample(logits, s.Length(), &w)
		require.NoError(t, err)
		require.Equal(t, want, id)
		require.Equal(t, []float64{3 - sum}, s.scores.of)
		require.Equal(t, []int32{1}, s.scores.topID)
		other[id] = true
	}
	require.Len(t, other, 5)
}

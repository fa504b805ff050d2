package schedule

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/internal/sample"
	"github.com/ingot-run/ingot/engine/model"
)

// Log-probabilities and alternatives are the same from all logits and from the highest ones alone.
func TestScoresOfTokens(t *testing.T) {
	t.Parallel()
	logits := []float32{1, 4, 2, 3}
	sum, err := sample.LogSumExp(logits)
	require.NoError(t, err)
	for _, top := range []int{0, 2} {
		all, best := scores{top: top}, scores{top: top}
		row := sample.ReadBest([]float32{1, 3, 2, 4, 3, 2, float32(sum)}, 3)
		for _, id := range []int32{2, 1} {
			require.NoError(t, all.add(id, logits))
			require.NoError(t, best.addBest(id, logits[id], row))
		}
		for _, s := range []*scores{&all, &best} {
			require.Equal(t, []int32{2, 1}, s.ids)
			require.InDeltaSlice(t, []float64{2 - sum, 4 - sum}, s.of, 1e-6)
			require.Len(t, s.topID, 2*top)
			if top > 0 {
				require.Equal(t, []int32{1, 3, 1, 3}, s.topID)
				require.InDeltaSlice(t, []float64{4 - sum, 3 - sum, 4 - sum, 3 - sum}, s.topOf, 1e-6)
			}
			var part scores
			s.appendTo(&part, 1)
			require.Equal(t, []int32{1}, part.ids)
			require.Equal(t, s.of[1:], part.of)
			if top > 0 {
				require.Equal(t, s.topID[top:], part.topID)
				require.Equal(t, s.topOf[top:], part.topOf)
			}
		}
		require.Error(t, all.add(1, []float32{float32(math.NaN())}))
		require.Error(t, best.addBest(1, 1, sample.ReadBest([]float32{1, 3, float32(math.Inf(1))}, 1)))
		require.Len(t, all.ids, 2)
		require.Len(t, best.ids, 2)
	}
}

// A control token has its name, and another token the text that it adds.
func TestNamesOfTokens(t *testing.T) {
	t.Parallel()
	tok := newSimulated(t, model.Config{}, model.Limits{}, Options{}, nil).tokenizer
	n := newNames(tok)
	stop := tok.StopIDs()[0]
	require.Nil(t, tok.Bytes(stop))
	got := n.of(stop)
	require.Equal(t, tok.Token(stop), got.Text)
	require.Equal(t, []byte(tok.Token(stop)), got.Bytes)
	require.NotEmpty(t, got.Text)
	require.Equal(t, got, n.of(stop))
	require.Equal(t, string(tok.Bytes(300)), n.of(300).Text)
	require.EqualValues(t, 300, n.of(300).ID)
}

// The number of highest logits that a row needs: one for a log-probability alone.
func TestHighestLogitsThatARowNeeds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer, prompt bool // whose log-probabilities are requested
		top            int
		position, want int
	}{
		"none":                       {position: 5, top: 3},
		"the answer's":               {answer: true, position: 5, want: 1},
		"with alternatives":          {answer: true, top: 3, position: 5, want: 3},
		"the prompt's":               {prompt: true, position: 2, want: 1},
		"the prompt's alternatives":  {prompt: true, top: 3, position: 2, want: 3},
		"behind the prompt":          {prompt: true, top: 3, position: 5},
		"the last one of the prompt": {prompt: true, top: 3, position: 3},
	} {
		r := &request{prompt: ascending(4), scores: c.answer, scoresPrompt: c.prompt, promptScores: scores{top: c.top}}
		s := &sequence{request: r, tokens: ascending(6), scores: scores{top: c.top}}
		require.Equal(t, c.want, s.tops(c.position), name)
	}
}

// Log-probabilities cannot be computed if the sum of a row is not a number.
func TestScoresThatAreNotFinite(t *testing.T) {
	t.Parallel()
	d := drawer{top: 1, best: [][]float32{{1, 2, float32(math.NaN())}}}
	require.ErrorIs(t, d.score(&scores{top: 1}, sample.Drawn{ID: 1}, output{top: 1}), generation.ErrNotFinite)
}

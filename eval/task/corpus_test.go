package task

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestScoresOfSentences compares scores of random sentences with those of SacreBLEU and
// rouge-score, which testdata/corpus.py has recorded.
func TestScoresOfSentences(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("testdata", "corpus.json"))
	require.NoError(t, err)
	var all []struct {
		Answer, Target string
		Scores         map[string]float64
	}
	require.NoError(t, json.Unmarshal(text, &all))
	require.NotEmpty(t, all)
	for _, c := range all {
		for _, name := range []string{"bleu", "chrf", "chrf++", "ter"} {
			m := Metric{Name: name, Aggregation: name}
			corpus := m.Corpus()
			require.InDelta(t, c.Scores[name], corpus.Value(corpus.Answer(c.Answer, c.Target)), 1e-9, "%s of %q for %q", name, c.Answer, c.Target)
		}
		a, b := rougeTokens(c.Answer), rougeTokens(c.Target)
		require.InDelta(t, c.Scores["rouge1"], 100*rougeN(a, b, 1), 1e-9, "%q for %q", c.Answer, c.Target)
		require.InDelta(t, c.Scores["rouge2"], 100*rougeN(a, b, 2), 1e-9, "%q for %q", c.Answer, c.Target)
		require.InDelta(t, c.Scores["rougeL"], 100*rougeL(a, b), 1e-9, "%q for %q", c.Answer, c.Target)
		require.InDelta(t, c.Scores["rougeLsum"], 100*rougeLSum(c.Answer, c.Target), 1e-9, "%q for %q", c.Answer, c.Target)
	}
}

// The search for shifts of TER ends after its number of candidates, also within one round: those of
// one more pair of phrases are the last.
func TestCandidatesOfTER(t *testing.T) {
	t.Parallel()
	words := strings.Fields(strings.Repeat("a b c d e f g ", 4))
	right := strings.Fields(strings.Repeat("b d a c g f e ", 4))
	tried := 0
	terShift(words, right, &tried)
	require.Greater(t, tried, 100)
	tried = terCandidates - 10
	terShift(words, right, &tried)
	require.GreaterOrEqual(t, tried, terCandidates)
	require.LessOrEqual(t, tried, terCandidates+terLongestShift)
}

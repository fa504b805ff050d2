package eval_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/eval"
)

// The first row without a score is the first of the file, counted from 1.
func TestFirstFailureOfARun(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for text, want := range map[string]struct {
		row    int
		reason string
	}{
		"": {}, `{"doc_id":0}`: {}, `{"doc_id":0}` + "\n" + `{"doc_id":4,"failed":"late"}` + "\n" + `{"doc_id":5,"failed":"x"}`: {5, "late"},
	} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, eval.SamplesFile("a")), []byte(text), 0o600))
		row, reason, err := eval.FirstFailure(folder, "a")
		require.NoError(t, err)
		require.Equal(t, want.row, row)
		require.Equal(t, want.reason, reason)
	}
	row, _, err := eval.FirstFailure(folder, "b")
	require.ErrorContains(t, err, "read samples: ")
	require.Zero(t, row)
}

// The score of a row by a metric of the whole task is the metric of this row alone.
func TestRowsOfMetricsOfAWholeTask(t *testing.T) {
	t.Parallel()
	s := written(t, "a", "doc_to_text: q\ndoc_to_target: 'yes it is so now'\nmetric_list: [{metric: bleu}, {metric: chrf}, {metric: ter}]\n", rowsOf(2))
	dir := scoredRun(t, t.TempDir(), "run", s, func(string) []string { return []string{"yes it was so"} })
	samples, err := eval.ReadSamples(dir, "a")
	require.NoError(t, err)
	require.Len(t, samples, 2)
	for i := range s.Metrics {
		c := s.Metrics[i].Corpus()
		want := c.Value(c.Answer("yes it was so", "yes it is so now")) / c.Row
		require.Positive(t, want)
		require.InDelta(t, want, samples[0].Scores[s.Metrics[i].Name], 1e-12, s.Metrics[i].Name)
	}
}

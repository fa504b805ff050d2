package statistics

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCompareAgainstR checks Compare for 18 pairs of runs against results of R: t.test, binom.test,
// the clustered standard errors of package sandwich, and the percentile interval of package boot
// with 200,000 samples. testdata/reference.R has written them to testdata/reference.json. The pairs
// include ties, fewer than 10 rows, runs that are all right or all wrong, and clusters.
func TestCompareAgainstR(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("testdata", "reference.json"))
	require.NoError(t, err)
	var cases []struct {
		Name                          string
		Baseline, Candidate           []float64
		Cluster                       []string
		N, Clusters, Lost, Won        int
		Mean, SE, Low, High, P, Worse float64
		Sampled                       bool // the interval comes from a bootstrap, so it differs slightly from R's
	}
	require.NoError(t, json.Unmarshal(text, &cases))
	require.Len(t, cases, 18)
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			got := Compare(c.Baseline, c.Candidate, c.Cluster)
			require.Equal(t, []int{c.N, c.Clusters, c.Lost, c.Won}, []int{got.N, got.Clusters, got.Lost, got.Won})
			require.InDelta(t, c.Mean, got.Mean, tolerance)
			require.InDelta(t, c.SE, got.SE, tolerance)
			interval := tolerance
			if c.Sampled {
				interval = 0.0015
			}
			require.InDelta(t, c.Low, got.Low, interval)
			require.InDelta(t, c.High, got.High, interval)
			require.InDelta(t, c.P, got.P, tolerance)
			require.InDelta(t, c.Worse, got.Worse, tolerance)
		})
	}
}

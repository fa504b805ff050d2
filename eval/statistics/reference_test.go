package statistics

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func readCases(t *testing.T, name string, cases any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, cases))
}

// TestCompareAgainstReferences checks Compare for 22 pairs of runs against results of scipy and
// statsmodels: tests, clustered standard errors and the percentile interval of 200,000 samples.
// testdata/reference.py has written them to testdata/reference.json. The pairs include ties, fewer
// than 10 rows, runs that are all right or all wrong, and clusters.
func TestCompareAgainstReferences(t *testing.T) {
	t.Parallel()
	var cases []struct {
		Name                          string
		Baseline, Candidate           []float64
		Cluster                       []string
		N, Clusters, Lost, Won        int
		Mean, SE, Low, High, P, Worse float64
		Sampled                       bool // the interval comes from a bootstrap, so it differs slightly from the reference
	}
	readCases(t, "reference.json", &cases)
	require.Len(t, cases, 22)
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

// Published intervals: PropCIs' scoreci.mp(25, 28, 618) in R, at 90 %.
func TestTangoAgainstR(t *testing.T) {
	t.Parallel()
	got := Tango(25, 28, 618)
	require.InDelta(t, -0.0148, got.Low, 0.00005)
	require.InDelta(t, 0.0247, got.High, 0.00005)
	require.Equal(t, Interval{-1, 1}, Tango(0, 0, 0))
	for n := 1; n < 8; n++ { // stays within -1 and 1, contains the mean, and is mirrored
		for lost := range n + 1 {
			for won := range n + 1 - lost {
				a, b := Tango(lost, won, n), Tango(won, lost, n)
				mean := float64(won-lost) / float64(n)
				require.True(t, -1 <= a.Low && a.Low <= mean && mean <= a.High && a.High <= 1, "%d lost, %d won of %d: %v", lost, won, n, a)
				require.InDelta(t, a.Low, -b.High, tolerance)
				require.Less(t, a.Low, a.High)
			}
		}
	}
}

// TestMaxTAgainstScipy compares MaxT with scipy's permutation_test. Exact p-values must be equal;
// those of random signs differ by chance.
func TestMaxTAgainstScipy(t *testing.T) {
	t.Parallel()
	var cases []struct {
		Name        string
		Differences [][]float64
		P           []float64
	}
	readCases(t, "maxt.json", &cases)
	require.Len(t, cases, 6)
	for _, c := range cases {
		allowed := 0.015 // three standard errors of 10,000 draws
		if len(c.Differences[0]) <= exhaustive {
			allowed = tolerance
		}
		require.InDeltaSlice(t, c.P, MaxT(testsOf(c.Differences)), allowed, c.Name)
	}
}

// TestWilsonAgainstStatsmodels compares Wilson with proportion_confint(method="wilson", alpha=0.1).
func TestWilsonAgainstStatsmodels(t *testing.T) {
	t.Parallel()
	var cases []struct {
		Right, N  int
		Low, High float64
	}
	readCases(t, "wilson.json", &cases)
	for _, c := range cases {
		got := Wilson(float64(c.Right)/float64(c.N), float64(c.N))
		require.InDelta(t, c.Low, got.Low, tolerance, "%d of %d", c.Right, c.N)
		require.InDelta(t, c.High, got.High, tolerance, "%d of %d", c.Right, c.N)
	}
	require.Equal(t, Interval{0, 1}, Wilson(0.5, 0))
	require.Equal(t, Interval{0, 1}, Normal(0.5, 1, Interval{0, 1}))
}

package statistics

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every condition of a gate decides by itself, and its limits are exact.
func TestConditionsOfAGate(t *testing.T) {
	t.Parallel()
	const margin = 0.25 // exact in binary
	for name, c := range map[string]struct {
		n               int
		mean, low, high float64
		worse           float64
		identical       bool
		want            Verdict
	}{
		"no rows":            {n: 0, mean: -1, low: -1, high: -1, worse: 0, want: Inconclusive},
		"no rows, identical": {n: 0, identical: true, want: Pass},
		"identical answers":  {n: 9, mean: -1, low: -1, high: -1, worse: 0, identical: true, want: Pass},
		"the whole interval is beyond the margin":       {n: 9, mean: -0.5, low: -0.75, high: -0.3, worse: 0.01, want: Fail},
		"the interval, but not significant":             {n: 9, mean: -0.5, low: -0.75, high: -0.3, worse: 0.06, want: Inconclusive},
		"significant at exactly the level":              {n: 9, mean: -0.5, low: -0.75, high: -0.3, worse: Level, want: Inconclusive},
		"only the mean is beyond half the margin":       {n: 9, mean: -0.2, low: -0.5, high: 0.1, worse: 0.01, want: Fail},
		"a loss of the mean within the interval's end":  {n: 9, mean: -0.2, low: -0.24, high: -0.1, worse: 0.01, want: Fail},
		"the mean is exactly half the margin":           {n: 9, mean: -margin / 2, low: -0.5, high: 0.1, worse: 0.01, want: Inconclusive},
		"a small significant loss":                      {n: 9, mean: -0.1, low: -0.2, high: -0.01, worse: 0.01, want: Pass},
		"only the interval's upper end is beyond":       {n: 9, mean: -0.1, low: -0.6, high: -0.3, worse: 0.01, want: Fail},
		"the upper end is exactly the margin":           {n: 9, mean: -0.1, low: -0.6, high: -margin, worse: 0.01, want: Inconclusive},
		"the largest loss is smaller than the margin":   {n: 9, mean: 0, low: -0.24, high: 0.2, worse: 0.5, want: Pass},
		"the largest loss is exactly the margin":        {n: 9, mean: 0, low: -margin, high: 0.2, worse: 0.5, want: Inconclusive},
		"the largest loss may be larger":                {n: 9, mean: 0, low: -0.26, high: 0.2, worse: 0.5, want: Inconclusive},
		"a gain whose interval reaches beyond a margin": {n: 9, mean: 0.5, low: -0.3, high: 1, worse: 0.9, want: Inconclusive},
	} {
		got := Comparison{Difference: Difference{N: c.n, Clusters: c.n, Mean: c.mean, Interval: Interval{c.low, c.high}}}
		require.Equal(t, c.want, got.Gate(margin, c.worse, c.identical), name)
	}
}

// What a comparison of few rows says, computed by hand.
func TestComparisonsOfFewRows(t *testing.T) {
	t.Parallel()
	none := Compare(nil, nil, nil)
	require.Equal(t, Interval{-1, 1}, none.Interval)
	require.Equal(t, []int{0, 0, 0, 0}, []int{none.N, none.Clusters, none.Lost, none.Won})
	require.InDelta(t, 1, none.Smallest, 0)
	require.Equal(t, Interval{-1, 1}, Bootstrap(nil, nil, 1))

	one := Compare([]float64{1}, []float64{0}, nil)
	require.Equal(t, []int{1, 1, 1, 0}, []int{one.N, one.Clusters, one.Lost, one.Won})
	require.True(t, one.Binary)
	require.InDelta(t, -1, one.Mean, 0)
	require.InDelta(t, -1, one.Low, 0)
	require.InDelta(t, 0.4602681024, one.High, tolerance) // as in testdata/reference.json
	require.InDelta(t, 0.5, one.Worse, tolerance)
	require.InDelta(t, 1, one.deviation(), tolerance)
	require.Equal(t, 1.0, one.Smallest, "one row finds nothing")

	// (qnorm(.95) + qnorm(.8)) * sd / sqrt(n); sd is 1/sqrt(n) if all rows have the same
	// difference.
	same := Compare(make([]float64, 400), make([]float64, 400), nil)
	require.InDelta(t, 0.05, same.deviation(), tolerance)
	require.InDelta(t, 2.486474860524786*0.05/20, same.Smallest, 1e-7)
	require.InDelta(t, 2.486474860524786*0.31622776601683794/math.Sqrt(1319), SmallestDifference(1319, 0.31622776601683794, Level), 1e-7)
	require.InDelta(t, 1, SmallestDifference(0, 0, Level), 0)
	require.Less(t, SmallestDifference(1, 0.1, Level), 1.0)

	for _, scores := range [][2][]float64{{{0.5, 1}, {1, 1}}, {{1, 1}, {0.5, 1}}} {
		require.False(t, Compare(scores[0], scores[1], nil).Binary, "a score of either run is not 0 or 1")
	}
	// Two rows in one cluster: McNemar's test does not apply. Student's t is 0.5 / 0.5 with 1
	// degree of freedom.
	twice := Compare([]float64{0, 0, 0, 0}, []float64{1, 1, 0, 0}, []string{"a", "a", "b", "b"})
	require.Equal(t, []int{4, 2}, []int{twice.N, twice.Clusters})
	require.InDelta(t, 0.5, twice.SE, tolerance)
	require.InDelta(t, 0.75, twice.Worse, tolerance)
	require.InDelta(t, 0.5, twice.P, tolerance)
}

// The interval is Tango's for right and wrong answers of independent rows, that of Bootstrap for
// scores of at least 30 clusters with unequal differences, and else Student's.
func TestIntervalsOfComparisons(t *testing.T) {
	t.Parallel()
	compare := func(n int, before, after func(i int) float64, cluster []string) (c Comparison, d []float64) {
		a, b := make([]float64, n), make([]float64, n)
		for i := range a {
			a[i], b[i] = before(i), after(i)
			d = append(d, b[i]-a[i])
		}
		return Compare(a, b, cluster), d
	}
	half := func(int) float64 { return 0.5 }
	graded := func(i int) float64 { return float64(i%5) / 4 }
	binary := func(i int) float64 { return float64(i % 2) }
	pairs := clusters(60, 0)

	require.Equal(t, Difference{Interval: Interval{-1, 1}}, Paired(nil, nil))
	c, d := compare(30, half, graded, nil)
	require.Equal(t, Bootstrap(d, nil, 1), c.Interval)
	c, d = compare(29, half, graded, nil)
	require.Equal(t, Paired(d, nil).Interval, c.Interval)
	c, d = compare(30, half, func(int) float64 { return 0.75 }, nil)
	require.Equal(t, Paired(d, nil).Interval, c.Interval)
	c, d = compare(60, half, graded, pairs)
	require.Equal(t, 30, c.Clusters)
	require.Equal(t, Bootstrap(d, pairs, 1), c.Interval)
	c, d = compare(58, half, graded, pairs[:58])
	require.Equal(t, Paired(d, pairs[:58]).Interval, c.Interval)
	c, d = compare(60, func(int) float64 { return 0 }, binary, pairs)
	require.Equal(t, Paired(d, pairs).Interval, c.Interval, "right and wrong answers in clusters")
	c, _ = compare(60, func(int) float64 { return 0 }, binary, nil)
	require.Equal(t, Tango(0, 30, 60), c.Interval)
}

// The number of rows for a verdict: those of a cluster count together.
func TestRowsToPass(t *testing.T) {
	t.Parallel()
	c := Comparison{Difference: Difference{N: 50, Clusters: 50}}
	for margin, want := range map[float64]int{0: 0, -0.1: 0, 1: 0, 1.5: 0, 0.02: 149, 0.5: 5, 0.99: 1} { // log(.05) / log(1 - margin)
		require.Equal(t, want, c.RowsToPass(margin), margin)
	}
	c.SE = 0.1
	require.Zero(t, c.RowsToPass(1), "no loss is larger than 1")
	c.SE = 0
	c.N = 150
	require.Equal(t, 445, c.RowsToPass(0.02), "three rows in each cluster: 3 * 148.3")
	require.Zero(t, (&Comparison{}).RowsToPass(0.02))

	// ((qnorm(.95) + qnorm(.8^(1/comparisons))) * sqrt(.1) / margin)^2
	require.Equal(t, 687, RowsToDecide(0.03, 1))
	require.Equal(t, 932, RowsToDecide(0.03, 2))
	require.Equal(t, 6183, RowsToDecide(0.01, 1))
	require.Zero(t, RowsToDecide(0, 1))
	require.Zero(t, RowsToDecide(0.03, 0))
}

// Resamples draw whole clusters: the interval of two opposite clusters reaches from one to the
// other.
func TestBootstrapDrawsClusters(t *testing.T) {
	t.Parallel()
	d := []float64{1, 1, 1, -1}
	require.Equal(t, Interval{-1, 1}, Bootstrap(d, []string{"a", "a", "a", "b"}, 1))
	require.Equal(t, []group{{2, 2}, {0, 2}}, groupsOf(d, []string{"a", "a", "b", "b"}))
	require.Equal(t, []group{{0, 2}, {2, 2}}, groupsOf(d, []string{"a", "b", "b", "a"}))
	seven := []float64{0.1, 0.4, 0.2, 0.9, 0.33, 0.57, 0.71}
	require.NotEqual(t, Bootstrap(seven, nil, 1), Bootstrap(seven, nil, 2))
}

func TestOneSidedTests(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		d    Difference
		want float64
	}{
		{Difference{Mean: 0.5, Clusters: 3}, 1},
		{Difference{Mean: 0, Clusters: 3}, 1},
		{Difference{Mean: -0.5, Clusters: 3}, 0.125},
		{Difference{Mean: 0, SE: 0.1, Clusters: 3}, 0.5},
		{Difference{Mean: -0.1, SE: 0.1, Clusters: 3}, 0.2113248654}, // pt(-1, 2)
		{Difference{Mean: 0.1, SE: 0.1, Clusters: 3}, 0.7886751346},  // pt(1, 2)
	} {
		require.InDelta(t, c.want, c.d.Worse(), tolerance)
	}
}

package statistics

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// The expected values in this file were computed with R 4.2.2 (p-values and standard errors by
// t.test and binom.test) and scipy 1.17.1 (intervals by ttest_1samp and binomtest). Those for
// clusters were computed with the formula in the comment next to them. tolerance is the maximum
// difference.
const tolerance = 1e-8

// TestPairedAgainstR compares Paired with ttest_1samp(d, 0) and t.test(d, alternative = "less").
func TestPairedAgainstR(t *testing.T) {
	t.Parallel()
	twelve := []float64{0, 0, -1, 1, 0, -1, 0, -1, 0, 0, 1, -1}
	for name, c := range map[string]struct {
		d                         []float64
		cluster                   []string
		mean, se, low, high, less float64
	}{
		"right and wrong, 12 rows": {twelve, nil, -0.1666666667, 0.2071938535, -0.5387629627, 0.2054296294, 0.2191029497},
		"scores, 8 rows": {[]float64{0.1, -0.2, 0.05, 0, -0.3, 0.15, -0.05, -0.1}, nil,
			-0.04375, 0.05381640416, -0.1457094079, 0.0582094079, 0.2215071545},
		"nearly all lost, 4 rows": {[]float64{-1, -1, -1, 0}, nil, -0.75, 0.25, -1, -0.1616591413, 0.02883444281}, // scipy: low is -1.3383408587
		// Standard error of G clusters with sums of deviations s: sqrt(sum(s^2)*G/(G-1))/n. The
		// interval has G-1 degrees of freedom.
		"clusters": {twelve, []string{"a", "a", "a", "b", "b", "c", "c", "c", "c", "d", "e", "e"},
			-0.1666666667, 0.1850404527, -0.5611445611, 0.2278112278, 0.2093363351},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := Paired(c.d, c.cluster)
			require.Equal(t, len(c.d), got.N)
			require.InDelta(t, c.mean, got.Mean, tolerance)
			require.InDelta(t, c.se, got.SE, tolerance)
			require.InDelta(t, c.low, got.Low, tolerance)
			require.InDelta(t, c.high, got.High, tolerance)
			require.InDelta(t, c.less, got.Worse(), tolerance)
		})
	}
}

// TestNoDifference compares the interval of n rows without any change with binomtest(0, n).
func TestNoDifference(t *testing.T) {
	t.Parallel()
	for n, high := range map[int]float64{5: 0.4507197283, 30: 0.09503385286, 1000: 0.00299124955} {
		d := Paired(make([]float64, n), nil)
		require.Zero(t, d.Mean)
		require.InDelta(t, high, d.High, tolerance)
		require.InDelta(t, -high, d.Low, tolerance)
		require.InDelta(t, 1, d.Worse(), 0)
	}
}

// TestMcNemarAgainstR compares McNemar with binom.test(lost, lost + won) and with alternative =
// "greater".
func TestMcNemarAgainstR(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		lost, won       int
		twoSided, worse float64
	}{
		{20, 8, 0.03569813818, 0.01784906909},
		{12, 4, 0.07681274414, 0.03840637207},
		{60, 45, 0.1715646972, 0.08578234858},
		{1, 0, 1, 0.5},
		{5, 5, 1, 0.623046875},
		{0, 7, 0.015625, 1},
		{3, 0, 0.25, 0.125},
		{0, 0, 1, 1},
	} {
		two, worse := McNemar(c.lost, c.won)
		require.InDelta(t, c.twoSided, two, tolerance, "%d lost, %d won", c.lost, c.won)
		require.InDelta(t, c.worse, worse, tolerance, "%d lost, %d won", c.lost, c.won)
	}
}

// TestSmallestDifferenceAgainstR compares SmallestDifference with (qnorm(.95) + qnorm(.8)) *
// sqrt(.1 / 1319).
func TestSmallestDifferenceAgainstR(t *testing.T) {
	t.Parallel()
	require.InDelta(t, 0.02165018815, SmallestDifference(1319, 0.31622776601683794, 0.05), tolerance)
}

// TestRowsToPassAgainstR compares RowsToPass with ((qnorm(.95) + qnorm(.8)) * sd / margin)^2 and
// log(.05) / log(1 - margin). It then simulates runs with that many rows, of which a tenth changes
// in both directions equally. About 80 % of the runs must pass.
func TestRowsToPassAgainstR(t *testing.T) {
	t.Parallel()
	noisy := Comparison{Difference: Difference{N: 1319, Clusters: 1319, SE: 0.31622776601683794 / math.Sqrt(1319)}}
	require.Equal(t, 1546, noisy.RowsToPass(0.02))
	noisy.N *= 2 // two rows in each cluster
	require.Equal(t, 3092, noisy.RowsToPass(0.02))
	same := Compare(make([]float64, 50), make([]float64, 50), nil)
	require.Equal(t, 149, same.RowsToPass(0.02))
	require.Zero(t, same.RowsToPass(0))
	random := rand.New(rand.NewPCG(9, 10)) //nolint:gosec // a simulation needs no secure random numbers
	passed := 0
	for range 200 {
		base, candidate := make([]float64, 1546), make([]float64, 1546)
		for i := range base {
			switch {
			case random.Float64() < 0.05:
				base[i] = 1
			case random.Float64() < 0.05/0.95:
				candidate[i] = 1
			}
		}
		c := Compare(base, candidate, nil)
		if c.Gate(0.02, c.Worse, false) == Pass {
			passed++
		}
	}
	require.InDelta(t, 160, passed, 20)
}

// TestBootstrapAgreesWithStudent checks that both intervals are nearly equal for many rows with
// normally distributed differences.
func TestBootstrapAgreesWithStudent(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4)) //nolint:gosec // a simulation needs no secure random numbers
	d := make([]float64, 1000)
	cluster := make([]string, len(d))
	for i := range d {
		d[i] = 0.02 + 0.1*random.NormFloat64()
		cluster[i] = fmt.Sprint(i)
	}
	student, sampled := Paired(d, nil), Bootstrap(d, nil, 1)
	require.InDelta(t, student.Low, sampled.Low, 0.0005)
	require.InDelta(t, student.High, sampled.High, 0.0005)
	require.Equal(t, sampled, Bootstrap(d, cluster, 1), "one cluster per row gives the same interval as no clusters")
	require.Equal(t, student, Paired(d, cluster))
}

// scores draws a score of 1 or 0 for each row. chances are the probabilities of a 1.
func scores(random *rand.Rand, chances []float64) []float64 {
	list := make([]float64, len(chances))
	for i, p := range chances {
		if random.Float64() < p {
			list[i] = 1
		}
	}
	return list
}

// TestFalseAlarms runs gates over three tasks on two equally good models with noisy answers, and
// counts the gates that fail. Two standard errors more than Level are allowed.
func TestFalseAlarms(t *testing.T) {
	t.Parallel()
	const tasks, rows, margin = 3, 300, 0.02
	for name, c := range map[string]struct {
		gates, allowed int
		draw           func(random *rand.Rand) (base, candidate []float64, cluster []string)
	}{
		"right and wrong": {200, 10, func(random *rand.Rand) (base, candidate []float64, cluster []string) {
			chances := make([]float64, rows)
			for r := range chances {
				chances[r] = random.Float64()
			}
			return scores(random, chances), scores(random, chances), nil
		}},
		"shares of four answers": {1000, 63, func(random *rand.Rand) (base, candidate []float64, cluster []string) {
			const few = 29 // from 30 rows on, a slow bootstrap computes the interval, and the verdicts hardly differ
			base, candidate = make([]float64, few), make([]float64, few)
			for r := range base {
				chance := random.Float64()
				for range 4 {
					base[r] += scores(random, []float64{chance})[0] / 4
					candidate[r] += scores(random, []float64{chance})[0] / 4
				}
			}
			return base, candidate, nil
		}},
		"five questions on each text": {500, 34, func(random *rand.Rand) (base, candidate []float64, cluster []string) {
			for text := range rows / 5 { // for each model, the five questions about a text are equally hard
				for _, list := range []*[]float64{&base, &candidate} {
					chance := random.Float64()
					*list = append(*list, scores(random, slices.Repeat([]float64{chance}, 5))...)
				}
				cluster = append(cluster, slices.Repeat([]string{fmt.Sprint(text)}, 5)...)
			}
			return base, candidate, cluster
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(5, 6)) //nolint:gosec // a simulation needs no secure random numbers
			alarms := 0
			for range c.gates {
				var g gated
				for i := range tasks {
					base, candidate, cluster := c.draw(random)
					g.add(fmt.Sprint(i), base, candidate, cluster)
				}
				if g.verdict(margin) == Fail {
					alarms++
				}
			}
			t.Logf("%d of %d gates failed", alarms, c.gates)
			require.LessOrEqual(t, alarms, c.allowed)
			require.Positive(t, alarms, "with so much noise, some gates must fail by chance")
		})
	}
}

// TestRealLossesAreFound checks the power of a gate: a model that loses more than
// SmallestDifference fails in at least 80 of 100 gates.
func TestRealLossesAreFound(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(7, 8)) //nolint:gosec // a simulation needs no secure random numbers
	const rows = 1000
	found := 0
	for range 100 {
		base, candidate := make([]float64, rows), make([]float64, rows)
		for i := range base {
			base[i] = 1
			if random.Float64() > 0.05 {
				candidate[i] = 1
			}
		}
		c := Compare(base, candidate, nil)
		require.Less(t, c.Smallest, 0.05)
		if c.Gate(0.01, c.Worse, false) == Fail {
			found++
		}
	}
	require.GreaterOrEqual(t, found, 80)
}

func TestGate(t *testing.T) {
	t.Parallel()
	ones := func(n, wrong int) []float64 {
		list := make([]float64, n)
		for i := range list[wrong:] {
			list[wrong+i] = 1
		}
		return list
	}
	for name, c := range map[string]struct {
		base, candidate []float64
		cluster         []string
		margin          float64
		identical       bool
		want            Verdict
	}{
		"identical answers":          {ones(5, 0), ones(5, 0), nil, 0.01, true, Pass},
		"no rows":                    {nil, nil, nil, 0.01, false, Inconclusive},
		"texts changed, few rows":    {ones(5, 0), ones(5, 0), nil, 0.01, false, Inconclusive},
		"texts changed, many rows":   {ones(1000, 0), ones(1000, 0), nil, 0.01, false, Pass},
		"all right, then all wrong":  {ones(20, 0), ones(20, 20), nil, 0.01, false, Fail},
		"all wrong in both":          {ones(1000, 1000), ones(1000, 1000), nil, 0.01, false, Pass},
		"a few lost, few rows":       {ones(50, 0), ones(50, 2), nil, 0.01, false, Inconclusive},
		"many lost":                  {ones(1000, 0), ones(1000, 40), nil, 0.01, false, Fail},
		"a loss within the margin":   {ones(1000, 0), ones(1000, 2), nil, 0.05, false, Pass},
		"won":                        {ones(1000, 40), ones(1000, 0), nil, 0.01, false, Pass},
		"a ninth row, lost":          {ones(9, 0), ones(9, 1), nil, 0.02, false, Inconclusive},
		"lost rows are one cluster":  {ones(100, 0), ones(100, 10), clusters(100, 10), 0.02, false, Inconclusive},
		"lost rows are independent":  {ones(100, 0), ones(100, 10), nil, 0.02, false, Fail},
		"half a point more, 3 rows":  {[]float64{0.5, 0.25, 0.5}, []float64{1, 0.75, 1}, nil, 0.02, false, Inconclusive},
		"half a point less, 10 rows": {slices.Repeat([]float64{0.5}, 10), make([]float64, 10), nil, 0.02, false, Fail},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			compared := Compare(c.base, c.candidate, c.cluster)
			require.Equal(t, c.want, compared.Gate(c.margin, compared.Worse, c.identical), "%+v", compared)
		})
	}
}

// clusters puts the first rows into one cluster and the others in pairs.
func clusters(n, first int) []string {
	list := make([]string, n)
	for i := first; i < n; i++ {
		list[i] = fmt.Sprint(i / 2)
	}
	return list
}

// TestSymmetry checks that exchanging baseline and candidate mirrors the comparison.
func TestSymmetry(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 60).Draw(t, "n")
		score := rapid.SampledFrom([]float64{0, 1})
		if rapid.Bool().Draw(t, "graded") {
			score = rapid.Float64Range(0, 1)
		}
		a, b := rapid.SliceOfN(score, n, n).Draw(t, "a"), rapid.SliceOfN(score, n, n).Draw(t, "b")
		forth, back := Compare(a, b, nil), Compare(b, a, nil)
		require.InDelta(t, -forth.Mean, back.Mean, tolerance)
		require.InDelta(t, forth.SE, back.SE, tolerance)
		require.InDelta(t, forth.P, back.P, 1e-6)
		require.Equal(t, forth.Lost, back.Won)
		require.LessOrEqual(t, forth.Low, forth.Mean+tolerance)
		require.GreaterOrEqual(t, forth.High, forth.Mean-tolerance)
		require.GreaterOrEqual(t, forth.P, 0.0)
		require.LessOrEqual(t, forth.P, 1.0)
	})
}

package statistics

import (
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/mathext"
)

// McNemar is McNemar's exact test (Q. McNemar, 1947) of two runs with right and wrong answers. lost
// is the number of rows that became wrong, won the number that became right. If the runs are
// equally good, lost has a binomial distribution with probability 1/2. twoSided is the probability
// of counts at least as uneven as these. worse is the probability that at least this many rows are
// lost.
func McNemar(lost, won int) (twoSided, worse float64) {
	n := lost + won
	if n == 0 {
		return 1, 1
	}
	tail := func(k int) float64 { // probability that at least k of lost+won rows are lost
		if k == 0 {
			return 1
		}
		return mathext.RegIncBeta(float64(k), float64(n-k+1), 0.5)
	}
	return min(1, 2*tail(max(lost, won))), tail(lost)
}

// Worse returns the one-sided p-value of a loss: the probability of a mean no higher than d's if
// the runs are equally good. The p-value comes from Student's t-test or, if all observations are
// equal, from the sign test. Compare uses it if McNemar's test does not apply.
func (d Difference) Worse() float64 {
	switch {
	case d.SE > 0:
		return studentsT(d.Mean/d.SE, float64(d.Clusters-1))
	case d.Mean < 0:
		return math.Pow(0.5, float64(d.Clusters))
	}
	return 1
}

func studentsT(t, freedom float64) float64 {
	tail := mathext.RegIncBeta(freedom/2, 0.5, freedom/(freedom+t*t)) / 2
	if t > 0 {
		return 1 - tail
	}
	return tail
}

const draws = 10_000

// Bootstrap returns the percentile interval of the mean of d (B. Efron, 1979): the 5th and 95th
// percentiles of the means of 10,000 resamples. Rows with the same value in cluster are drawn
// together. If cluster is nil, each row is drawn alone. Equal arguments give equal results.
func Bootstrap(d []float64, cluster []string, seed uint64) Interval {
	if len(d) == 0 {
		return Interval{-1, 1}
	}
	groups := groupsOf(d, cluster)
	random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // a simulation
	means := make([]float64, draws)
	for i := range means {
		sum, n := 0.0, 0
		for range groups {
			g := groups[random.IntN(len(groups))]
			sum += g.sum
			n += g.n
		}
		means[i] = sum / float64(n)
	}
	slices.Sort(means)
	tail := (1 - Confidence) / 2
	return Interval{means[int(math.Floor(tail*draws))], means[int(math.Ceil((1-tail)*draws))-1]}
}

type group struct {
	sum float64
	n   int
}

func groupsOf(d []float64, cluster []string) []group {
	var groups []group
	at := map[string]int{}
	for i, v := range d {
		if cluster == nil {
			groups = append(groups, group{v, 1})
			continue
		}
		k, known := at[cluster[i]]
		if !known {
			k = len(groups)
			at[cluster[i]] = k
			groups = append(groups, group{})
		}
		groups[k].sum += v
		groups[k].n++
	}
	return groups
}

// Power is the probability with which a test finds SmallestDifference.
const Power = 0.8

// SmallestDifference returns the smallest mean difference that a one-sided test with level alpha
// finds with probability Power, among n independent rows whose differences have the given standard
// deviation.
func SmallestDifference(n int, deviation, alpha float64) float64 {
	if n == 0 {
		return 1
	}
	z := mathext.NormalQuantile(1-alpha) + mathext.NormalQuantile(Power)
	return min(1, z*deviation/math.Sqrt(float64(n)))
}

// Package statistics compares the scores of two runs over the same rows. It computes the
// difference, its confidence interval and p-values, and the verdict of a gate. The formulas are
// those of E. Miller, "Adding Error Bars to Evals" (arXiv 2411.00640), unless a comment names
// another source.
package statistics

import (
	"math"

	"gonum.org/v1/gonum/mathext"
)

// Confidence is the confidence level of all intervals. The true value is below an interval with a
// probability of at most Level, and above it with the same probability: a gate looks at one end.
const Confidence = 1 - 2*Level

// Interval is a confidence interval.
type Interval struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// Difference is the mean, over the rows that both runs have, of the candidate's score minus the
// baseline's score.
type Difference struct {
	N        int     `json:"n"`        // number of rows
	Clusters int     `json:"clusters"` // number of independent groups of rows; N if all rows are independent
	Mean     float64 `json:"mean"`
	SE       float64 `json:"stderr"` // standard error of Mean
	Interval
}

// rounding is the maximum relative rounding error of the mean of equal values.
const rounding = 1e-13

// Paired returns the mean of d and its interval. For each row, d has the candidate's score minus
// the baseline's. Scores are between 0 and 1. Rows with the same value in cluster, such as
// questions about one text, count as one observation. If cluster is nil, each row is an
// observation. The interval uses Student's t, since there may be few rows.
//
// If all observations are equal, the standard error is 0. The interval is then made wide enough for
// a rare change that none of the observations shows: n observations miss a change of probability p
// with probability (1-p)^n (Clopper and Pearson's bound for 0 of n).
func Paired(d []float64, cluster []string) Difference {
	n := len(d)
	if n == 0 {
		return Difference{Interval: Interval{-1, 1}}
	}
	r := Difference{N: n, Clusters: n, Mean: mean(d)}
	sums := make([]float64, 0, n)
	if cluster == nil {
		for _, v := range d {
			sums = append(sums, v-r.Mean)
		}
	} else {
		sums = clusterSums(d, cluster, r.Mean)
		r.Clusters = len(sums)
	}
	squares, largest := 0.0, 0.0
	for _, s := range sums {
		squares += s * s
	}
	for _, v := range d {
		largest = max(largest, math.Abs(v))
	}
	if math.Sqrt(squares) <= rounding*float64(n)*largest { // the observations are equal; only their mean was rounded
		squares = 0
	}
	// With G clusters, the factor G/(G-1) makes the variance unbiased. If each row is a cluster,
	// this is the sample variance divided by n.
	half := 0.0
	if g := float64(r.Clusters); g > 1 {
		r.SE = math.Sqrt(squares*g/(g-1)) / float64(n)
		tail := mathext.InvRegIncBeta((g-1)/2, 0.5, 1-Confidence)
		half = r.SE * math.Sqrt((g-1)*(1-tail)/tail) // the quantile of Student's t
	}
	if squares == 0 {
		half = 1 - math.Pow((1-Confidence)/2, 1/float64(r.Clusters))
	}
	r.Interval = Interval{max(-1, r.Mean-half), min(1, r.Mean+half)}
	return r
}

// clusterSums returns the sum of each cluster's deviations from the mean, in the order in which the
// clusters first appear.
func clusterSums(d []float64, cluster []string, mean float64) []float64 {
	at := map[string]int{}
	var sums []float64
	for i, v := range d {
		k, known := at[cluster[i]]
		if !known {
			k = len(sums)
			at[cluster[i]] = k
			sums = append(sums, 0)
		}
		sums[k] += v - mean
	}
	return sums
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// Package statistics compares the scores of two runs over the same rows: how much they differ, how certain that is, and what it
// means for a gate. The formulas are those of E. Miller, "Adding Error Bars to Evals" (arXiv 2411.00640), unless a comment names
// another source.
package statistics

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// Confidence is the level of all intervals.
const Confidence = 0.95

// Interval is a confidence interval.
type Interval struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// Difference is the mean of a candidate's score less the baseline's, over the rows that both have.
type Difference struct {
	N        int     `json:"n"`        // rows
	Clusters int     `json:"clusters"` // groups of rows that are not independent; N if each row is its own
	Mean     float64 `json:"mean"`
	SE       float64 `json:"stderr"` // standard error of Mean
	Interval
}

// rounding is the share of a value up to which a deviation from the mean of equal values can be an error of arithmetic.
const rounding = 1e-13

// Paired returns the difference of scores that d has for each row, candidate less baseline. Rows with the same cluster, such as
// questions on one text or several samples of one prompt, count as one observation; nil makes each row its own. Scores are between 0
// and 1. The interval uses Student's t, since sets may be small.
//
// If n observations all differ equally, or not at all, the standard error is 0, and the interval is that of a rare change: as many observations
// would miss a change with probability p in a share (1-p)^n of cases (Clopper and Pearson's bound for 0 of n).
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
	if math.Sqrt(squares) <= rounding*float64(n)*largest { // equal observations, whose mean is rounded
		squares = 0
	}
	// With G clusters, G/(G-1) makes the variance unbiased; for single rows that is the sample's variance over n.
	half := 0.0
	if g := float64(r.Clusters); g > 1 {
		r.SE = math.Sqrt(squares*g/(g-1)) / float64(n)
		half = r.SE * distuv.StudentsT{Mu: 0, Sigma: 1, Nu: g - 1}.Quantile(1-(1-Confidence)/2)
	}
	if squares == 0 {
		half = 1 - math.Pow((1-Confidence)/2, 1/float64(r.Clusters))
	}
	r.Interval = Interval{max(-1, r.Mean-half), min(1, r.Mean+half)}
	return r
}

// clusterSums returns, for each cluster in the order of first appearance, the sum of its deviations from the mean.
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

// Wilson returns the interval of a share of successes in n independent rows (E. B. Wilson, 1927). Without rows it is from 0 to 1.
func Wilson(successes, n int) Interval {
	if n == 0 {
		return Interval{0, 1}
	}
	z := distuv.UnitNormal.Quantile(1 - (1-Confidence)/2)
	p, m := float64(successes)/float64(n), float64(n)
	centre := (p + z*z/(2*m)) / (1 + z*z/m)
	half := z * math.Sqrt(p*(1-p)/m+z*z/(4*m*m)) / (1 + z*z/m)
	return Interval{max(0, centre-half), min(1, centre+half)}
}

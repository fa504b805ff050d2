package statistics

import (
	"math"

	"gonum.org/v1/gonum/mathext"
)

// Verdict is the result of a gate.
type Verdict string

// The verdicts.
const (
	Pass         Verdict = "pass"         // any loss is smaller than the margin
	Fail         Verdict = "fail"         // the candidate is worse by more than the margin allows; see Gate
	Inconclusive Verdict = "inconclusive" // the rows are too few or too noisy to decide
)

// Level is the significance level of a gate: the maximum probability of a false alarm, over all of
// its comparisons together, and that of passing a candidate that has lost the margin.
const Level = 0.05

// Comparison compares a candidate with a baseline on one task.
type Comparison struct {
	Difference
	Lost     int     `json:"lost"`     // rows with a lower score
	Won      int     `json:"won"`      // rows with a higher score
	Binary   bool    `json:"binary"`   // every score is 0 or 1
	P        float64 `json:"p"`        // two-sided p-value: probability of a difference at least as large if the runs are equally good
	Worse    float64 `json:"p_worse"`  // one-sided p-value: probability of a loss at least as large if the runs are equally good
	Smallest float64 `json:"smallest"` // the smallest loss that a test on these rows is likely to find; see SmallestDifference
}

// Compare compares the scores of the same rows in two runs. Rows with the same value in cluster
// count as one observation. If cluster is nil, each row is an observation. The p-values are
// McNemar's, and the interval is Tango's, if all scores are 0 or 1 and each cluster has one row.
// Otherwise, the interval is that of Bootstrap if there are scores other than 0 and 1, at least 30
// clusters, and unequal differences, or else that of Paired.
func Compare(baseline, candidate []float64, cluster []string) Comparison {
	d := make([]float64, len(baseline))
	c := Comparison{Binary: true}
	for i := range d {
		d[i] = candidate[i] - baseline[i]
		switch {
		case d[i] < 0:
			c.Lost++
		case d[i] > 0:
			c.Won++
		}
		c.Binary = c.Binary && binary(baseline[i]) && binary(candidate[i])
	}
	c.Difference = Paired(d, cluster)
	if c.Binary && c.Clusters == c.N {
		c.P, c.Worse = McNemar(c.Lost, c.Won)
		c.Interval = Tango(c.Lost, c.Won, c.N)
	} else {
		better := c.Difference
		better.Mean = -better.Mean
		c.Worse = c.Difference.Worse()
		c.P = min(1, 2*min(c.Worse, better.Worse()))
	}
	const enough = 30
	if !c.Binary && c.SE > 0 && c.Clusters >= enough {
		c.Interval = Bootstrap(d, cluster, 1)
	}
	c.Smallest = SmallestDifference(c.Clusters, c.deviation(), Level)
	return c
}

func binary(score float64) bool { return score == 0 || score == 1 }

// deviation returns the standard deviation of the clusters' differences. If all clusters have the
// same difference, it assumes that one cluster differs from the others by 1, so that the result is
// not 0.
func (c *Comparison) deviation() float64 {
	if c.SE > 0 {
		return c.SE * math.Sqrt(float64(c.Clusters))
	}
	return 1 / math.Sqrt(float64(max(1, c.Clusters)))
}

// Gate returns the verdict on a comparison. margin is the accepted loss. worse is the p-value
// Worse, adjusted over all comparisons of the gate (MaxT). identical means that no row's answer
// changed.
//
// The verdict is Fail if the loss is significant (worse is below Level) and either the whole
// interval is beyond the margin or the mean loss is more than half the margin. It is Pass if
// identical is true, or if even the largest loss in the interval is smaller than the margin.
// Otherwise it is Inconclusive.
func (c *Comparison) Gate(margin, worse float64, identical bool) Verdict {
	switch {
	case identical:
		return Pass
	case c.N == 0:
		return Inconclusive
	case worse < Level && (c.High < -margin || c.Mean < -margin/2):
		return Fail
	case c.Low > -margin:
		return Pass
	}
	return Inconclusive
}

// RowsToPass estimates how many rows an equally good candidate needs to pass the gate with
// probability Power. It assumes that the scores of that candidate differ from the baseline's as
// much as those in c. It returns 0 if no estimate is possible: for a margin of 0, or without rows.
func (c *Comparison) RowsToPass(margin float64) int {
	if margin <= 0 || margin >= 1 || c.N == 0 {
		return 0
	}
	clusters := math.Log(Level) / math.Log1p(-margin) // this many clusters without a difference exclude a loss of the margin; see Paired
	if c.SE > 0 {
		clusters = rowsToPass(margin, c.deviation(), 1)
	}
	return int(math.Ceil(clusters * float64(c.N) / float64(c.Clusters)))
}

// UsualChange is the share of rows whose right or wrong answer differs between two runs of one
// model that does not repeat its answers exactly. It is assumed where no two runs are known.
const UsualChange = 0.1

// RowsToDecide estimates how many rows of each task an equally good candidate needs to pass a gate
// with probability Power, if the gate makes a number of comparisons, and UsualChange of the rows
// change. It returns 0 if no number is enough, for a margin of 0.
func RowsToDecide(margin float64, comparisons int) int {
	if margin <= 0 || comparisons == 0 {
		return 0
	}
	return int(math.Ceil(rowsToPass(margin, math.Sqrt(UsualChange), comparisons)))
}

// rowsToPass returns how many independent rows exclude a loss of the margin with probability Power
// in all of several independent comparisons, if the differences have a mean of 0.
func rowsToPass(margin, deviation float64, comparisons int) float64 {
	z := mathext.NormalQuantile(1-Level) + mathext.NormalQuantile(math.Pow(Power, 1/float64(comparisons)))
	root := z * deviation / margin
	return root * root
}

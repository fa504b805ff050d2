package statistics

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// Verdict is the result of a gate.
type Verdict string

// The verdicts.
const (
	Pass         Verdict = "pass"         // the candidate is not worse by the margin or more
	Fail         Verdict = "fail"         // the candidate is worse
	Inconclusive Verdict = "inconclusive" // the rows are too few, or too noisy, to know
)

// Level is the level of a gate's tests, over all of its tasks together: the highest chance of a false alarm.
const Level = 0.05

// Comparison is a candidate against a baseline on one task.
type Comparison struct {
	Difference
	Lost     int     `json:"lost"`     // rows with a lower score
	Won      int     `json:"won"`      // rows with a higher score
	Binary   bool    `json:"binary"`   // every score is 0 or 1
	P        float64 `json:"p"`        // probability of a difference at least as large if the runs are equally good; not adjusted
	Worse    float64 `json:"p_worse"`  // probability of a loss at least as large if the runs are equally good; Gate adjusts it for the number of tasks
	Smallest float64 `json:"smallest"` // the smallest loss that the rows can show; see SmallestDifference
}

// Compare compares the scores of the same rows in two runs. cluster is as in Paired. Right and wrong answers of independent rows are
// compared by McNemar's test. For other scores the interval is a bootstrap's from 30 clusters on, and Student's below.
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

// deviation returns the standard deviation of an observation's difference. For as few changes as none it assumes one.
func (c *Comparison) deviation() float64 {
	if c.SE > 0 {
		return c.SE * math.Sqrt(float64(c.Clusters))
	}
	return 1 / math.Sqrt(float64(max(1, c.Clusters)))
}

// Gate judges a comparison by a margin, the loss that is accepted. worse is the probability Worse after adjustment over all tasks of
// the gate (Holm).
//
// It fails if the whole interval is beyond the margin, or if a loss of more than half the margin is significant. It passes if no loss
// of the margin or more is within the interval. identical states that no row's answer changed, which passes with any number of rows.
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

// RowsToPass returns about how many rows a gate needs to pass, with probability Power, a candidate that is as good as the baseline, if its
// rows differ as much as those of c. It is 0 if no number of rows is known: for a margin of 0, or without rows.
func (c *Comparison) RowsToPass(margin float64) int {
	if margin <= 0 || margin >= 1 || c.N == 0 {
		return 0
	}
	tail := (1 - Confidence) / 2
	clusters := math.Log(tail) / math.Log1p(-margin) // as many without a difference exclude the margin; see Paired
	if c.SE > 0 {
		z := distuv.UnitNormal.Quantile(1-tail) + distuv.UnitNormal.Quantile(Power)
		clusters = math.Pow(z*c.deviation()/margin, 2)
	}
	return int(math.Ceil(clusters * float64(c.N) / float64(c.Clusters)))
}

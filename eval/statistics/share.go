package statistics

import (
	"math"

	"gonum.org/v1/gonum/mathext"
)

// quantile returns how many standard errors an interval reaches to both sides.
func quantile() float64 { return mathext.NormalQuantile((1 + Confidence) / 2) }

// Wilson returns E. Wilson's score interval of a share of n independent rows (1927). It is within 0
// and 1, and also holds if the share is 0 or 1.
func Wilson(share, n float64) Interval {
	if n <= 0 {
		return Interval{0, 1}
	}
	z := quantile()
	middle := (share + z*z/2/n) / (1 + z*z/n)
	half := z / (1 + z*z/n) * math.Sqrt(share*(1-share)/n+z*z/4/n/n)
	return Interval{max(0, middle-half), min(1, middle+half)}
}

// Normal returns the interval of a normally distributed value, within its possible values.
func Normal(value, stderr float64, possible Interval) Interval {
	return Interval{max(possible.Low, value-quantile()*stderr), min(possible.High, value+quantile()*stderr)}
}

package statistics

import "math"

// Tango returns T. Tango's score interval of the difference of two shares of the same n rows
// (Statistics in Medicine 17, 1998, 891). lost rows are right in the first run only, won rows in
// the second run only. The interval stays within -1 and 1, and also holds if hardly any row differs
// or if all do.
func Tango(lost, won, n int) Interval {
	if n == 0 {
		return Interval{-1, 1}
	}
	t := tango{lost: float64(lost), won: float64(won), n: float64(n), z: quantile()}
	return Interval{t.end(-1), t.end(1)}
}

type tango struct{ lost, won, n, z float64 }

// end finds the end of the interval between the mean and limit, which is -1 or 1.
func (t *tango) end(limit float64) float64 {
	inside, outside := (t.won-t.lost)/t.n, limit
	if t.contains(outside) {
		return outside
	}
	for range 60 { // each step halves the distance, which then is smaller than the rounding error
		middle := (inside + outside) / 2
		if t.contains(middle) {
			inside = middle
		} else {
			outside = middle
		}
	}
	return inside
}

// contains reports whether the score test does not reject a true difference d.
func (t *tango) contains(d float64) bool {
	// lostShare is the likeliest share of lost rows if the difference is d: the root of
	// 2n·q² + b·q - lost·d·(1-d).
	b := (2*t.n-t.won+t.lost)*d - t.won - t.lost
	lostShare := (math.Sqrt(max(0, b*b+8*t.n*t.lost*d*(1-d))) - b) / (4 * t.n)
	off := t.won - t.lost - t.n*d
	return off*off <= t.z*t.z*t.n*(2*lostShare+d*(1-d))
}

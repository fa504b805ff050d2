package cost

import "sort"

// Curve has the duration of a pass by its number of rows, as measured and then corrected by later passes. The zero value costs nothing.
type Curve struct {
	rows    []int     // ascending
	seconds []float64 // [rows] as first measured
	drift   []float64 // [rows] present seconds over measured ones
}

const (
	// recent is the weight of one observation in the estimate for its number of rows.
	recent = 0.05
	// common is the part of recent that changes the estimates for all numbers of rows: whatever slows one, such as another program, slows
	// all.
	common = 0.03
)

// NewCurve returns a curve through measured points, at least one, in ascending order of rows. Seconds are made ascending too: more
// rows never cost less.
func NewCurve(rows []int, seconds []float64) Curve {
	c := Curve{rows: rows, seconds: append([]float64(nil), seconds...)}
	for i := range c.seconds {
		c.seconds[i] = max(c.seconds[i], c.seconds[max(i-1, 0)])
		c.drift = append(c.drift, 1)
	}
	return c
}

// Seconds returns the expected duration of a pass with the given rows. It interpolates between points; beyond the last point, it is
// proportional to the rows.
func (c *Curve) Seconds(rows int) float64 {
	if len(c.rows) == 0 || rows == 0 {
		return 0
	}
	low, high, share := c.between(rows)
	if last := len(c.rows) - 1; rows > c.rows[last] {
		return c.at(last) * float64(rows) / float64(c.rows[last])
	}
	return c.at(low) + share*(c.at(high)-c.at(low))
}

// between returns the points next to a number of rows, and how far it is from the first to the second.
func (c *Curve) between(rows int) (low, high int, share float64) {
	i := sort.SearchInts(c.rows, rows)
	switch {
	case i == len(c.rows):
		return i - 1, i - 1, 0
	case i == 0 || c.rows[i] == rows:
		return i, i, 0
	}
	return i - 1, i, float64(rows-c.rows[i-1]) / float64(c.rows[i]-c.rows[i-1])
}

func (c *Curve) at(i int) float64 { return c.drift[i] * c.seconds[i] }

// Observe corrects the curve by the seconds that a pass took.
func (c *Curve) Observe(rows int, seconds float64) {
	if len(c.rows) == 0 || rows == 0 {
		return
	}
	change := limited(seconds/c.Seconds(rows)) - 1
	low, high, share := c.between(rows)
	for i := range c.drift {
		weight := common
		if i == low {
			weight += (recent - common) * (1 - share)
		}
		if i == high && high != low {
			weight += (recent - common) * share
		}
		c.drift[i] *= 1 + weight*change
	}
}

// limited bounds the ratio of the measured to the expected duration of a pass. This limits the influence of a pass that another program
// delayed.
func limited(ratio float64) float64 { return min(max(ratio, 0.5), 2) }

// efficient returns the smallest measured number of rows that reaches a share of the best number of rows per second.
func (c *Curve) efficient(share float64) int {
	best := 0.0
	for i, n := range c.rows {
		best = max(best, float64(n)/c.at(i))
	}
	for i, n := range c.rows {
		if float64(n)/c.at(i) >= share*best {
			return n
		}
	}
	return 0
}

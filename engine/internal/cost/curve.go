package cost

import "sort"

// Curve estimates the duration of a pass from its number of rows. It begins with measurements, and
// later passes correct it. With the zero value, a pass takes no time.
type Curve struct {
	rows    []int     // ascending
	seconds []float64 // [rows] first measurements
	drift   []float64 // [rows] present estimates divided by the first measurements
}

const (
	// recent is the weight of one pass in the estimate for its number of rows.
	recent = 0.05
	// common is the weight of one pass in the estimates for all other numbers of rows. What slows a
	// pass, such as another program, slows passes of all sizes.
	common = 0.03
)

// NewCurve returns a curve through measured points, at least one, in ascending order of rows. If a
// point has fewer seconds than a point with fewer rows, NewCurve raises it to the same seconds.
func NewCurve(rows []int, seconds []float64) Curve {
	c := Curve{rows: rows, seconds: append([]float64(nil), seconds...)}
	for i := range c.seconds {
		c.seconds[i] = max(c.seconds[i], c.seconds[max(i-1, 0)])
		c.drift = append(c.drift, 1)
	}
	return c
}

// Seconds returns the expected duration of a pass with the given number of rows. It interpolates
// between points. Beyond the last point, the duration is proportional to the number of rows.
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

// between returns the indices of the points below and above a number of rows. share is 0 if the
// number is that of the point below, and approaches 1 towards the point above. If the number is
// that of a point, or no point is below or above it, low and high are the same point.
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

// Observe corrects the curve with the seconds that a pass took.
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

// limited limits the influence of a pass that another program delayed.
func limited(ratio float64) float64 { return min(max(ratio, 0.5), 2) }

// efficient returns the smallest measured number of rows with at least the given share of the
// highest throughput.
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

package cost

import "sort"

// Curve is the measured seconds of a pass by its number of rows, corrected by the passes that follow. The zero value costs nothing.
type Curve struct {
	rows    []int     // ascending
	seconds []float64 // [rows] as first measured
	drift   []float64 // [rows] present seconds over measured ones
}

const (
	// recent is the weight of one observation in the estimate for its number of rows.
	recent = 0.05
	// spill is how far one observation changes the estimates for other row counts: what slows one, such as another program, slows all.
	spill = 0.001
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

// Seconds is what a pass of the given rows is expected to take: interpolated between points, in proportion beyond the last.
func (c *Curve) Seconds(rows int) float64 {
	if len(c.rows) == 0 || rows == 0 {
		return 0
	}
	i := sort.SearchInts(c.rows, rows)
	switch {
	case i == len(c.rows):
		last := len(c.rows) - 1
		return c.at(last) * float64(rows) / float64(c.rows[last])
	case i == 0 || c.rows[i] == rows:
		return c.at(i)
	}
	share := float64(rows-c.rows[i-1]) / float64(c.rows[i]-c.rows[i-1])
	return c.at(i-1) + share*(c.at(i)-c.at(i-1))
}

func (c *Curve) at(i int) float64 { return c.drift[i] * c.seconds[i] }

// Observe corrects the curve by the seconds that a pass took.
func (c *Curve) Observe(rows int, seconds float64) {
	if len(c.rows) == 0 || rows == 0 {
		return
	}
	change := limited(seconds/c.Seconds(rows)) - 1
	nearest := min(sort.SearchInts(c.rows, rows), len(c.rows)-1)
	for i := range c.drift {
		weight := spill
		if i == nearest {
			weight = recent
		}
		c.drift[i] *= 1 + weight*change
	}
}

// limited bounds the ratio of what a pass took to what was expected: a pass that something else delayed counts only so much.
func limited(ratio float64) float64 { return min(max(ratio, 0.25), 4) }

// efficient is the fewest rows, of the measured numbers, whose rows a second are at least a share of the best.
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

package draft

import "sort"

// cost is the measured seconds of a pass by its number of rows, corrected by the passes that follow. The zero value costs nothing.
type cost struct {
	rows    []int     // ascending
	seconds []float64 // [rows] as first measured
	drift   []float64 // [rows] present seconds over measured ones
}

// spill is how far one measurement changes the estimates for other row counts: what slows one, such as another program, slows all.
const spill = 0.001

// newCost returns a cost through measured points, at least one, in ascending order of rows. Seconds are made
// ascending too: more rows never cost less.
func newCost(rows []int, seconds []float64) cost {
	c := cost{rows: rows, seconds: append([]float64(nil), seconds...)}
	for i := range c.seconds {
		c.seconds[i] = max(c.seconds[i], c.seconds[max(i-1, 0)])
		c.drift = append(c.drift, 1)
	}
	return c
}

// Seconds is what a pass of the given rows is expected to take: interpolated between points, in proportion beyond the last.
func (c *cost) Seconds(rows int) float64 {
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

func (c *cost) at(i int) float64 { return c.drift[i] * c.seconds[i] }

// Observe corrects the cost by the seconds that a pass took.
func (c *cost) Observe(rows int, seconds float64) {
	if len(c.rows) == 0 || rows == 0 {
		return
	}
	// A pass that something else delayed counts only so much.
	change := min(max(seconds/c.Seconds(rows), 0.25), 4) - 1
	nearest := min(sort.SearchInts(c.rows, rows), len(c.rows)-1)
	for i := range c.drift {
		weight := spill
		if i == nearest {
			weight = recent
		}
		c.drift[i] *= 1 + weight*change
	}
}

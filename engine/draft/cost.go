package draft

import "sort"

// Cost is the measured seconds of a pass by its number of rows, corrected as it is used. The zero value costs nothing.
type Cost struct {
	rows    []int     // ascending
	seconds []float64 // [rows] as first measured
	drift   []float64 // [rows] present seconds over measured ones
}

// follow is how far an observation draws the drift of numbers of rows other than its own: what slows one down, such as
// another program, slows all.
const follow = 0.001

// NewCost returns a cost through measured points, at least one, in ascending order of rows. Seconds are made to ascend
// too: more rows never cost less.
func NewCost(rows []int, seconds []float64) Cost {
	c := Cost{rows: rows, seconds: append([]float64(nil), seconds...)}
	for i := range c.seconds {
		c.seconds[i] = max(c.seconds[i], c.seconds[max(i-1, 0)])
		c.drift = append(c.drift, 1)
	}
	return c
}

// Seconds is what a pass of so many rows is expected to take: between points on a line, beyond the last in proportion.
func (c *Cost) Seconds(rows int) float64 {
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

func (c *Cost) at(i int) float64 { return c.drift[i] * c.seconds[i] }

// Observe corrects the cost by what a pass took.
func (c *Cost) Observe(rows int, seconds float64) {
	if len(c.rows) == 0 || rows == 0 {
		return
	}
	// A pass that was held up by something else says little.
	change := min(max(seconds/c.Seconds(rows), 0.25), 4) - 1
	nearest := min(sort.SearchInts(c.rows, rows), len(c.rows)-1)
	for i := range c.drift {
		weight := follow
		if i == nearest {
			weight = recent
		}
		c.drift[i] *= 1 + weight*change
	}
}

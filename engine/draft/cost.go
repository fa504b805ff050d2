package draft

import "sort"

// Cost is the measured seconds of a pass by its number of rows, corrected as it is used. The zero value costs nothing.
type Cost struct {
	rows    []int     // ascending
	seconds []float64 // [rows] as first measured
	drift   float64   // present seconds over measured ones
}

// NewCost returns a cost through measured points, at least one, in ascending order of rows. Seconds are made to ascend
// too: more rows never cost less.
func NewCost(rows []int, seconds []float64) Cost {
	c := Cost{rows: rows, seconds: append([]float64(nil), seconds...), drift: 1}
	for i := 1; i < len(c.seconds); i++ {
		c.seconds[i] = max(c.seconds[i], c.seconds[i-1])
	}
	return c
}

// Seconds is what a pass of so many rows is expected to take: between points on a line, beyond the last in proportion.
func (c *Cost) Seconds(rows int) float64 {
	if len(c.rows) == 0 || rows == 0 {
		return 0
	}
	return c.drift * c.measured(rows)
}

func (c *Cost) measured(rows int) float64 {
	i := sort.SearchInts(c.rows, rows)
	switch {
	case i == len(c.rows):
		last := len(c.rows) - 1
		return c.seconds[last] * float64(rows) / float64(c.rows[last])
	case i == 0 || c.rows[i] == rows:
		return c.seconds[i]
	}
	share := float64(rows-c.rows[i-1]) / float64(c.rows[i]-c.rows[i-1])
	return c.seconds[i-1] + share*(c.seconds[i]-c.seconds[i-1])
}

// Observe corrects the cost by what a pass took.
func (c *Cost) Observe(rows int, seconds float64) {
	if len(c.rows) == 0 || rows == 0 {
		return
	}
	// A pass that was held up by something else says little.
	now := min(max(seconds/c.measured(rows), 0.25), 4)
	c.drift += recent * (now - c.drift)
}
